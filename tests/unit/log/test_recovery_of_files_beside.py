"""Checkpoints, indexes and snapshots lost or wrong: the log is read as it was written."""

import logging
from collections.abc import Callable

import pytest

from headrace.log import file_names, text_files
from headrace.model.nouns import Offset
from headrace.testing.disk import SimDisk
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import (
    NOW_MS,
    PLACE,
    World,
    append,
    append_marker,
    content,
    overwrite,
    values,
)
from tests.support.log.recovery import CONFIG, FIRST, written

RUIN: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _: None,
    "empty": lambda _: b"",
    "cut": lambda good: good[: len(good) // 2],
    "flipped": lambda good: bytes(byte ^ 0x40 for byte in good[:1]) + good[1:],
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


def test_settled_positions_found_after_a_kill_survive_a_power_cut() -> None:
    world = World(config=CONFIG)
    log = world.log()
    append(log, b"m")
    world.flush(log)
    path = f"{log.directory}/{file_names.SETTLED}"
    world.disk.open(path, create=True).write_at(0, (b"settled",))
    after = World(world.disk.left_by_a_kill(), config=CONFIG)
    (lost, *_) = crash_states(after.disk, len(after.disk.ops), seed=1)
    assert content(lost, path) == b"settled"
    after.close()
