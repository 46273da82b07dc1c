"""Starts after kills and power cuts: what of the rest is kept, and what is on the disk then."""

import pytest

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.log.directory.periods import Periods
from headrace.log.log import Log
from headrace.model.nouns import Offset
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.support.client import open_topic
from tests.support.log.log import NOW_MS, PLACE, World, append, content, overwrite, values
from tests.support.log.recovery import reboot

WHERE = f"/data/{PLACE}"


def in_threes(world: World, count: int, *, flushed: int) -> Log:
    """Segments of three records each, the first `flushed` of them flushed and checkpointed."""
    log = world.log()
    for number in range(3 * count):
        if number and number % 3 == 0:
            log.roll()
        append(log, b"%02d" % number * 100)
        if number + 1 == 3 * flushed:
            world.flush(log)
            world.directory.checkpoint()
            world.settle()
    return log


def path(base: int, suffix: str = file_names.LOG) -> str:
    return f"{WHERE}/{file_names.segment_file(base, suffix)}"


def bases(world: World) -> list[int]:
    return [segment.base_offset for segment in world.log().segments]


def checkpointed(world: World, name: str, offset: int) -> None:
    """End the process; have a checkpoint say that of the log."""
    world.directory.close(clean=False)
    overwrite(world.disk, f"/data/{name}", text_files.write_offsets({PLACE: Offset(offset)}))


def why(world: World) -> str:
    return str(world.directory.quarantined.get(PLACE))


# --- what goes ------------------------------------------------------------------------------------


def test_behind_a_segment_that_the_power_took_nothing_is_kept() -> None:
    world = World(config=LogConfig())
    in_threes(world, 4, flushed=1)
    world.directory.close(clean=False)
    for suffix in file_names.SEGMENT_SUFFIXES:
        if world.disk.exists(path(3, suffix)):
            world.disk.remove(path(3, suffix))
    world.disk.boot = "the next boot"
    world.start()
    assert why(world) == "None"
    assert (world.log().end_offset, list(values(world.log()))) == (3, [0, 1, 2])
    assert not [name for name in world.disk.list(WHERE) if name.startswith("0" * 19 + "9")]
    assert append(world.log(), b"goes on").base_offset == 3
    world.close()


def test_a_segment_whose_first_batch_is_torn_goes_where_the_one_before_ends_there() -> None:
    world = World(config=LogConfig())
    in_threes(world, 3, flushed=1)
    world.disk.flip(path(3), 70)
    reboot(world)
    assert why(world) == "None"
    assert bases(world) == [0]
    assert not world.disk.exists(path(3))
    assert not world.disk.exists(path(6))
    assert world.log().end_offset == 3
    world.close()


def test_a_torn_tail_within_a_segment_leaves_what_lies_before_it() -> None:
    world = World(config=LogConfig())
    log = in_threes(world, 2, flushed=1)
    size = log.segments[1].size // 3
    world.disk.flip(path(3), 2 * size + 70)
    reboot(world)
    assert (bases(world), world.log().end_offset) == ([0, 3], 5)
    assert len(content(world.disk, path(3))) == 2 * size
    left = next(crash_states(world.disk, len(world.disk.ops), 0))
    assert len(content(left, path(3))) == 2 * size, "it does not come back"
    world.close()


def test_a_log_whose_moved_start_the_power_outlived_begins_anew_there() -> None:
    world = World(config=LogConfig())
    in_threes(world, 2, flushed=1)
    checkpointed(world, file_names.LOG_STARTS, 9)
    world.disk.boot = "the next boot"
    world.start()
    log = world.log()
    assert why(world) == "None"
    assert bases(world) == [9]
    assert (log.start_offset, log.end_offset, log.flushed_offset) == (9, 9, 9)
    assert len(log.producers) == 0
    names = [name for name in world.disk.list(WHERE) if name.endswith(".log")]
    assert names == [file_names.segment_file(9, file_names.LOG)]
    assert append(log, b"x").base_offset == 9
    world.close()


def test_a_segment_where_the_flushed_ends_is_not_cut_away_though_the_one_before_is_short() -> None:
    world = World(config=LogConfig())
    log = in_threes(world, 1, flushed=0)
    open_topic.flush(world, log)
    log.roll()
    append(log, b"unflushed")
    world.directory.close(clean=False)
    kept = content(world.disk, path(3))
    whole = content(world.disk, path(0))
    overwrite(world.disk, path(0), whole[: len(whole) // 3 * 2])
    world.disk.boot = "the next boot"
    world.start()
    assert "offsets 2 to 2" in why(world)
    assert content(world.disk, path(3)) == kept
    world.close()


@pytest.mark.parametrize("name", [file_names.LOG_STARTS, file_names.HIGH_WATERMARKS])
@pytest.mark.parametrize(("offset", "sound"), [(6, True), (7, False)])
def test_after_a_kill_a_log_that_ends_before_what_is_known_of_it_is_refused(
    name: str, offset: int, sound: bool
) -> None:
    world = World(config=LogConfig())
    in_threes(world, 2, flushed=2)
    checkpointed(world, name, offset)
    world.start()
    if sound:
        assert why(world) == "None"
        assert (world.log().start_offset, world.log().end_offset) == (0, 6)
    else:
        assert "ends at offset 6, but" in why(world)
        assert "(offsets 6 to 6)" in why(world)
        said = (
            "its start offset is 7" if name == file_names.LOG_STARTS else "below 7 were committed"
        )
        assert said in why(world)
    world.close()


def test_after_a_power_cut_a_high_watermark_may_have_outrun_the_disk() -> None:
    world = World(config=LogConfig())
    in_threes(world, 2, flushed=2)
    checkpointed(world, file_names.HIGH_WATERMARKS, 9)
    world.disk.boot = "the next boot"
    world.start()
    assert why(world) == "None"
    assert (world.log().end_offset, world.log().high_watermark) == (6, 6)
    world.close()


# --- what is on the disk --------------------------------------------------------------------------


def tree(disk: SimDisk) -> dict[str, bytes]:
    return {name: content(disk, f"{WHERE}/{name}") for name in disk.list(WHERE)}


def test_what_a_start_after_a_kill_goes_by_is_durable_indexes_of_sealed_segments_too() -> None:
    world = World(config=LogConfig(index_interval_bytes=100))
    in_threes(world, 3, flushed=1)
    before = tree(world.disk)
    sealed = [file_names.segment_file(3, ".index")]
    world.directory.close(clean=False)
    for name in sealed:
        world.disk.remove(f"{WHERE}/{name}")
    world.start()
    here = tree(world.disk)
    left = tree(next(crash_states(world.disk, len(world.disk.ops), 0)))
    assert [here[name] for name in sealed] == [before[name] for name in sealed]
    assert all(here[name] for name in sealed)
    late = [f"{base:020d}{suffix}" for base in (0, 6) for suffix in (".index", ".timeindex")]
    wanted = {name: data for name, data in here.items() if name not in late}
    assert {name: left.get(name) for name in wanted} == wanted
    world.close()


def test_a_new_partition_is_there_after_a_power_cut_once_it_was_flushed() -> None:
    world = World()
    world.flush(world.log())
    left = next(crash_states(world.disk, len(world.disk.ops), 0))
    assert left.is_directory(WHERE)
    assert left.exists(path(0))
    assert left.exists(f"{WHERE}/{file_names.PARTITION_METADATA}")
    world.close()


@pytest.mark.parametrize("clean", [True, False])
def test_epochs_that_were_lost_are_written_by_the_start_that_finds_them(clean: bool) -> None:
    world = World(config=LogConfig())
    for epoch in (2, 4):
        append(world.log(), b"x", epoch=epoch)
    world.flush(world.log())
    world.directory.close(clean)
    name = f"{WHERE}/{file_names.LEADER_EPOCHS}"
    before = content(world.disk, name)
    world.disk.remove(name)
    world.start()
    assert content(world.disk, name) == before == b"0\n2\n2 0\n4 1\n"
    world.close()


# --- producers ------------------------------------------------------------------------------------


def test_snapshots_of_no_segment_go_save_the_newest() -> None:
    world = World(config=LogConfig())
    in_threes(world, 2, flushed=2)
    world.directory.close()
    good = content(world.disk, path(6, file_names.SNAPSHOT))
    for base in (1, 4):
        overwrite(world.disk, path(base, file_names.SNAPSHOT), good)
    world.start()
    found = [name for name in world.disk.list(WHERE) if name.endswith(file_names.SNAPSHOT)]
    assert found == [file_names.segment_file(base, file_names.SNAPSHOT) for base in (3, 6)]
    world.close()


def test_a_producer_is_as_old_as_the_segment_that_holds_its_last_batch() -> None:
    world = World(
        config=LogConfig(retention_ms=-1), periods=Periods(producer_id_expiration_ms=60_000)
    )
    log = world.log()
    for producer in (1, 2, 3):
        if producer > 1:
            world.clock.advance(50)
            log.roll()
        append(log, b"x", producer=(producer, 0, 0), timestamp=NOW_MS)
    world.restart(clean=True)
    assert [producer in world.log().producers for producer in (1, 2, 3)] == [False, True, True]
    world.close()


def test_a_sound_snapshot_is_taken_for_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    world = World(config=LogConfig())
    log = world.log()
    for sequence in range(3):
        append(log, b"x", producer=(1, 0, sequence))
    world.restart(clean=True)
    assert 1 in world.log().producers
    assert "rebuilt from the log" not in caplog.text
    world.close()
