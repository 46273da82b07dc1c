"""What is torn, what is damage, what is lost and what is built again at a start after a kill."""

import logging
from collections.abc import Callable

import pytest

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.log.directory.log_directory import LogDirectory
from headrace.model.nouns import Offset, TopicPartition
from headrace.testing.clock import SimClock, SimRandom
from headrace.testing.disk import SimDisk
from tests.support.log import (
    NOW_MS,
    PLACE,
    World,
    append,
    append_marker,
    content,
    overwrite,
    values,
)

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200, segment_index_bytes=1024)
FIRST = "/data/t-0/00000000000000000000.log"


def written(count: int = 6, *, checkpoint_at: int = 0) -> tuple[World, list[int]]:
    """A world whose log holds `count` batches in one segment, and where they begin and end.

    The recovery point is at `checkpoint_at`.
    """
    world = World(config=LogConfig(index_interval_bytes=200, segment_index_bytes=1024))
    log = world.log()
    at = [0]
    for number in range(count):
        append(log, b"%02d" % number * 30)
        at.append(log.segments[0].size)
        if number + 1 == checkpoint_at:
            world.flush(log)
            world.directory.checkpoint()
            world.settle()
    return world, at


def reboot(world: World) -> None:
    """The machine goes down and comes back with all that was written."""
    world.disk.boot = "the next boot"
    world.restart(clean=False)


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
    assert "restore its directory" in said
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
    assert any(f"torn tail cut: {at[-1] - at[4]} bytes" in line for line in caplog.messages)
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


# --- checkpoints lost ---------------------------------------------------------------------------

RUIN: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "cut": lambda good: good[: len(good) // 2],
    "flipped": lambda good: bytes([good[0] ^ 0x40]) + good[1:],
    "zeros": lambda good: bytes(len(good)),
}


def ruin(disk: SimDisk, path: str, how: str) -> None:
    bad = RUIN[how](content(disk, path))
    if bad is None:
        disk.remove(path)
    else:
        overwrite(disk, path, bad)


@pytest.mark.parametrize("how", RUIN)
@pytest.mark.parametrize(
    "name",
    [
        file_names.RECOVERY_POINTS,
        file_names.LOG_STARTS,
        file_names.HIGH_WATERMARKS,
        file_names.LEADER_EPOCHS,
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_no_checkpoint_is_needed_to_read_a_sound_log(name: str, how: str, clean: bool) -> None:
    world = World(config=CONFIG)
    log = world.log()
    for number in range(8):
        append(log, b"%d" % number * 200, epoch=number // 3)
    world.flush(log)
    log.delete_records(Offset(4))
    world.settle()
    world.flush(log)
    wanted, epochs = values(log), list(log.epochs.entries)
    world.directory.close(clean)
    inside = name == file_names.LEADER_EPOCHS
    ruin(world.disk, f"/data/t-0/{name}" if inside else f"/data/{name}", how)
    after = World(world.disk, config=CONFIG)
    log = after.log()
    if name == file_names.LOG_STARTS and how == "missing":
        assert log.start_offset == 0  # as in a directory none of whose logs was ever shortened
        after.close()
        return
    assert log.start_offset == 4
    assert values(log) == wanted
    assert log.start_offset <= log.high_watermark <= log.end_offset
    assert log.epochs.entries == epochs
    append(log, b"goes on", epoch=4)
    after.close()


@pytest.mark.parametrize("how", RUIN)
def test_without_recovery_points_only_what_nothing_follows_is_taken_for_torn(how: str) -> None:
    for where, damage in ((3, True), (5, False)):
        world, at = written(checkpoint_at=4)
        world.directory.close(clean=False)
        ruin(world.disk, f"/data/{file_names.RECOVERY_POINTS}", how)
        world.disk.flip(FIRST, at[where] + 70)
        world.disk.boot = "the next boot"
        after = World(world.disk, config=world.config)
        assert (PLACE in after.directory.quarantined) is damage
        if not damage:
            assert after.log().end_offset == 5
        after.close()


def test_a_recovery_point_from_the_future_is_not_believed_over_the_log() -> None:
    for clean in (True, False):
        world, _ = written(checkpoint_at=6)
        world.directory.close(clean)
        overwrite(
            world.disk,
            f"/data/{file_names.RECOVERY_POINTS}",
            text_files.write_offsets({PLACE: 1 << 40}),
        )
        after = World(world.disk, config=world.config)
        assert PLACE in after.directory.quarantined
        assert len(content(world.disk, FIRST)) > 0
        after.close()


def test_a_log_start_from_the_future_takes_nothing_from_the_disk() -> None:
    for clean in (True, False):
        world, at = written(checkpoint_at=6)
        world.directory.close(clean)
        overwrite(
            world.disk, f"/data/{file_names.LOG_STARTS}", text_files.write_offsets({PLACE: 1 << 40})
        )
        after = World(world.disk, config=world.config)
        assert PLACE in after.directory.quarantined
        assert len(content(world.disk, FIRST)) == at[-1]
        after.close()


# --- built again --------------------------------------------------------------------------------


def busy() -> World:
    """Three segments and more, with transactions, epochs and producers."""
    world = World(config=CONFIG)
    log = world.log()
    for number in range(9):
        stamp = NOW_MS + number * 10
        append(log, b"%d" % number * 90, timestamp=stamp, producer=(7, 0, number))
        append(
            log, b"t%d" % number * 40, timestamp=stamp, producer=(9, 0, number), transactional=True
        )
        append_marker(log, 9, commit=number % 3 == 0)
    world.flush(log)
    assert len(log.segments) >= 4
    return world


def picture(world: World) -> object:
    log = world.log()
    times = [log.offset_for_time(NOW_MS + number * 5) for number in range(18)]
    return (
        values(log),
        times,
        log.epochs.entries,
        log.producers.kept.entries(),
        log.aborted_transactions(Offset(0), log.end_offset),
        log.max_timestamp_offset(),
        log.end_offset,
    )


BESIDE = (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX, file_names.SNAPSHOT)
ODD: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    **{name: (lambda good, _, one=one: one(good)) for name, one in RUIN.items()},  # type: ignore[misc]
    "one byte more": lambda good, _: good + b"\x01",
    "ones": lambda good, _: b"\xff" * len(good),
    "stale": lambda good, _: good[: len(good) // 24 * 12],
    "of another segment": lambda _, other: other,
}


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("how", ODD)
@pytest.mark.parametrize("suffix", BESIDE)
def test_whatever_lies_beside_a_segment_the_log_is_read_as_it_was_written(
    suffix: str, how: str, clean: bool
) -> None:
    if clean and suffix == file_names.TXN_INDEX and how in {"missing", "empty", "stale"}:
        pytest.skip("cannot be told from the index of a segment with fewer aborts")
    world = busy()
    wanted = picture(world)
    world.directory.close(clean)
    found = [name for name in world.disk.list("/data/t-0") if name.endswith(suffix)]
    contents = [content(world.disk, f"/data/t-0/{name}") for name in found]
    for number, name in enumerate(found):
        bad = ODD[how](contents[number], contents[number - 1])
        if bad is None:
            world.disk.remove(f"/data/t-0/{name}")
        else:
            overwrite(world.disk, f"/data/t-0/{name}", bad)
    after = World(world.disk, config=CONFIG)
    assert picture(after) == wanted
    after.close()


def test_indexes_built_again_are_those_that_appending_made_and_right_ones_are_not_written() -> None:
    world = busy()
    world.directory.close()
    names_there = [n for n in world.disk.list("/data/t-0") if n.endswith(("index", ".log"))]
    before = {name: content(world.disk, f"/data/t-0/{name}") for name in names_there}
    world.disk.remove(f"/data/{file_names.CLEAN_SHUTDOWN}")
    overwrite(
        world.disk, f"/data/{file_names.RECOVERY_POINTS}", text_files.write_offsets({PLACE: 0})
    )
    done = len(world.disk.ops)
    after = World(world.disk, config=CONFIG)
    assert {name: content(world.disk, f"/data/t-0/{name}") for name in names_there} == before
    entries = world.disk.nodes[world.disk._node("/data/t-0")].entries or {}
    indexes = {entries[name] for name in names_there if not name.endswith(".txnindex")}
    touched = [op for op in world.disk.ops[done:] if op.kind in ("write", "truncate")]
    assert not [op for op in touched if op.node in indexes]
    after.close()


def test_the_start_after_a_long_recovery_need_not_read_it_all_again() -> None:
    world = busy()
    world.directory.close(clean=False)
    overwrite(
        world.disk, f"/data/{file_names.RECOVERY_POINTS}", text_files.write_offsets({PLACE: 0})
    )
    World(world.disk, config=CONFIG).close()
    last = max(n for n in world.disk.list("/data/t-0") if n.endswith(".log"))
    assert world.disk.exists(f"/data/t-0/{last.removesuffix('.log')}.snapshot")


def test_stray_and_future_directories_are_left_alone_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    disk = SimDisk()
    paths = [f"/data/t-0.{'a' * 32}{suffix}" for suffix in ("-stray", "-future")]
    for path in paths:
        disk.make_directory(path)
        overwrite(disk, f"{path}/00000000000000000000.log", b"kept")
    world = World(disk)
    assert not world.directory.logs
    for path in paths:
        assert content(disk, f"{path}/00000000000000000000.log") == b"kept"
        assert any(path in line for line in caplog.messages)
    world.close()
