"""What is torn, what is damage and what is lost at a start after a kill or a power cut."""

import pytest

from headrace.log import file_names, text_files
from headrace.log.directory.log_directory import LogDirectory
from headrace.model.nouns import Offset, TopicPartition
from headrace.testing.clock import SimClock, SimRandom
from tests.support.log.log import NOW_MS, PLACE, World, append, content, overwrite, values
from tests.support.log.recovery import CONFIG, FIRST, reboot, written

# --- torn or damaged ----------------------------------------------------------------------------


@pytest.mark.parametrize("byte", [3, 10, 16, 18, 40, 70], ids=str)
def test_a_kill_tears_nothing_but_the_end_so_a_bad_batch_before_it_is_damage(
    byte: int, caplog: pytest.LogCaptureFixture
) -> None:
    world, at = written(checkpoint_at=2)
    other = world.log(TopicPartition("u", 0))
    append(other, b"served")
    world.disk.flip(FIRST, at[4] + byte, 0x40)
    world.restart(clean=False)
    assert set(world.directory.quarantined) == {PLACE}
    assert len(content(world.disk, FIRST)) == at[-1]
    assert values(world.directory.logs[TopicPartition("u", 0)]) == {0: b"served"}
    (said,) = [line for line in caplog.messages if "out of service" in line]
    assert f"{FIRST} at byte {at[4]}" in said
    assert "(offset 4)" in said
    assert "restore the directory" in said
    world.close()


def test_a_kill_tears_no_whole_batch_not_even_the_last_one() -> None:
    world, at = written(checkpoint_at=2)
    world.disk.flip(FIRST, at[5] + 70)
    world.restart(clean=False)
    assert PLACE in world.directory.quarantined
    world.close()


@pytest.mark.parametrize("byte", [10, 18, 40, 70], ids=str)
def test_after_a_power_cut_what_was_not_surely_flushed_is_cut_from_the_bad_batch_on(
    byte: int, caplog: pytest.LogCaptureFixture
) -> None:
    world, at = written(checkpoint_at=2)
    world.disk.flip(FIRST, at[4] + byte, 0x40)
    reboot(world)
    assert not world.directory.quarantined
    assert values(world.log()) == {n: b"%02d" % n * 30 for n in range(4)}
    assert any(
        f"torn tail truncated: removed {at[-1] - at[4]} bytes" in line for line in caplog.messages
    )
    assert any("ends at offset 4" in line for line in caplog.messages)
    assert any("the machine went down" in line for line in caplog.messages)
    world.close()


@pytest.mark.parametrize("batch", [0, 3, 4])
@pytest.mark.parametrize("flushed", [5, 6])
def test_below_the_recovery_point_a_bad_batch_is_damage_after_a_power_cut_too(
    batch: int, flushed: int
) -> None:
    world, at = written(checkpoint_at=flushed)
    world.disk.flip(FIRST, at[batch + flushed - 5] + 70)
    reboot(world)
    assert PLACE in world.directory.quarantined
    assert len(content(world.disk, FIRST)) == at[-1]
    world.close()


@pytest.mark.parametrize("same_boot", [True, False], ids=["killed", "power cut"])
def test_a_file_that_ends_inside_the_last_flushed_batch_is_damage(same_boot: bool) -> None:
    world, at = written(checkpoint_at=6)
    world.disk.open(FIRST).truncate(at[5] + 70)
    if same_boot:
        world.restart(clean=False)
    else:
        reboot(world)
    assert PLACE in world.directory.quarantined
    assert len(content(world.disk, FIRST)) == at[5] + 70
    world.close()


def test_offsets_and_lengths_gone_wild_are_refused_and_nothing_breaks() -> None:
    """Neither is under the checksum."""
    for byte, mask in ((0, 0x40), (2, 1), (8, 0x20), (9, 0x10), (23, 0x80)):
        world, at = written(checkpoint_at=1)
        world.disk.flip(FIRST, at[3] + byte, mask)
        reboot(world)
        assert values(world.log()) == {n: b"%02d" % n * 30 for n in range(3)}, byte
        world.close()


def test_a_power_cut_is_not_forgotten_while_its_recovery_is_not_done() -> None:
    world, at = written(checkpoint_at=2)
    world.disk.flip(FIRST, at[4] + 70)
    world.directory.close(clean=False)
    world.disk.boot = "the next boot"
    for _ in range(2):
        killed = LogDirectory.open(
            world.disk, SimClock(NOW_MS), SimRandom(), "/data", broker_id=0, cluster_id="c"
        )
        assert killed.loader.power_lost
        killed.close(clean=False)
    after = World(world.disk, config=world.config)
    assert after.log().end_offset == 4
    after.restart(clean=False)
    assert not after.directory.loader.power_lost
    after.close()


def test_neither_a_first_start_nor_one_after_a_clean_stop_tells_of_a_power_cut() -> None:
    world = World()
    assert not world.directory.loader.power_lost
    world.disk.boot = "the next boot"
    world.restart(clean=True)
    assert not world.directory.loader.power_lost
    overwrite(world.disk, f"/data/{file_names.BOOT_ID}", b"\xff garbage")
    world.restart(clean=False)
    assert not world.directory.loader.power_lost
    assert not world.directory.quarantined
    world.close()


def gap() -> tuple[World, list[Offset]]:
    """A log of several segments whose second one is gone, and their base offsets."""
    world = World(config=CONFIG)
    for number in range(9):
        append(world.log(), b"%d" % number * 300)
    bases = [segment.base_offset for segment in world.log().segments]
    world.disk.remove(world.log().segments[1].path(file_names.LOG))
    return world, bases


def test_a_segment_missing_in_the_middle_is_damage_unless_the_power_took_it() -> None:
    world, _ = gap()
    world.restart(clean=False)
    assert PLACE in world.directory.quarantined
    world.close()
    world, bases = gap()
    reboot(world)
    assert world.log().end_offset == bases[1]
    world.close()


def test_gaps_that_compaction_left_are_kept() -> None:
    world, bases = gap()
    wanted = {n: b"%d" % n * 300 for n in range(9) if not bases[1] <= n < bases[2]}
    cleaned = text_files.write_offsets({PLACE: bases[3]})
    overwrite(world.disk, f"/data/{file_names.CLEANER_OFFSETS}", cleaned)
    reboot(world)
    assert values(world.log()) == wanted
    world.close()
