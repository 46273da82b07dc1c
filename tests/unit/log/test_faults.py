"""Full disks, I/O errors, failed fsyncs and flipped bits: fenced, said, never acknowledged."""

import errno
import logging
from collections.abc import Collection

import pytest

from headrace.log.log import NeedsDisk, ReadResult
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode, StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.callbacks import Done
from headrace.testing.disk_crash import crash_states
from tests.support.log.log import CONFIG, NOW_MS, PLACE, World, append, values

LOG_FILE = "/data/t-0/00000000000000000000.log"


@pytest.mark.parametrize("partial", [0, 30])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_fences_the_directory_and_acknowledges_nothing(
    code: int, partial: int
) -> None:
    world = World()
    log = world.log()
    append(log, b"held")
    world.flush(log)
    told: list[OSError] = []
    world.directory.on_failure(told.append)
    world.disk.fail_writes(code=code, partial=partial)
    with pytest.raises(StorageError):
        append(log, b"not held")
    assert [error.errno for error in told] == [code]
    assert world.directory.fenced
    assert log.end_offset == log.flushed_offset == 1
    world.disk.heal()
    with pytest.raises(StorageError):
        append(log, b"still refused")
    with pytest.raises(StorageError):
        world.directory.create_log(TopicPartition("u", 0), bytes(16), CONFIG)
    assert values(log) == {0: b"held"}
    world.restart(clean=True)
    assert not world.directory.loader.was_clean
    assert values(world.log()) == {0: b"held"}
    world.close()


def test_a_failed_fsync_is_never_tried_again_and_what_it_held_is_not_flushed() -> None:
    world = World()
    log = world.log()
    append(log, b"one")
    world.flush(log)
    append(log, b"two")
    told: list[OSError] = []
    world.directory.on_failure(told.append)
    world.disk.fail_syncs()
    world.flush(log)
    assert len(told) == 1
    assert log.flushed_offset == 1
    flushes = world.directory.flusher.flushes
    world.disk.heal()
    world.flush(log)
    assert world.directory.flusher.flushes == flushes
    assert log.flushed_offset == 1
    with pytest.raises(StorageError):
        append(log, b"three")
    world.close()


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "for good"])
def test_after_a_failed_fsync_the_next_start_reads_the_disk_and_not_the_page_cache(
    sticky: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The failed pages read as if they were there, and a second fsync says that all is well."""
    world = World()
    log = world.log()
    append(log, b"one")
    world.flush(log)
    append(log, b"two")
    world.disk.fail_syncs(sticky=sticky)
    world.flush(log)
    assert world.directory.fenced
    left = world.disk.left_by_a_kill()
    assert values(log) == {0: b"one", 1: b"two"}
    after = World(left)
    assert after.directory.loader.doubted
    assert any("a flush failed" in line for line in caplog.messages)
    served = values(after.log())
    assert served == {0: b"one"}
    append(after.log(), b"three")
    after.flush(after.log())
    for state in crash_states(left, len(left.ops), seed=1):
        assert values(World(state).log()) == {0: b"one", 1: b"three"}
    after.close()
    world.close()
    again = World(left)
    assert not again.directory.loader.doubted
    again.close()


def test_a_full_disk_is_no_reason_to_doubt_what_was_written() -> None:
    world = World()
    append(world.log(), b"one")
    world.disk.fail_writes(code=errno.ENOSPC)
    with pytest.raises(StorageError):
        append(world.log(), b"two")
    world.disk.heal()
    world.restart(clean=True)
    assert not world.directory.loader.doubted
    assert values(world.log()) == {0: b"one"}
    world.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT], ids=["disk", "quota"])
def test_a_disk_that_is_full_at_the_start_serves_what_is_there(code: int) -> None:
    world = World()
    append(world.log(), b"one")
    world.flush(world.log())
    world.directory.close()
    world.disk.boot = "another boot"
    world.disk.fail_writes(at=2, code=code)  # the second file of the recovery's results
    world.start()
    assert values(world.directory.logs[PLACE]) == {0: b"one"}
    world.close()


def test_a_failed_checkpoint_fences_too() -> None:
    world = World()
    append(world.log(), b"x")
    world.disk.fail_writes()
    world.directory.checkpoint()
    world.settle()
    assert world.directory.fenced
    world.close()


@pytest.mark.parametrize("number", range(12))
def test_a_disk_that_fills_up_during_a_roll_leaves_what_was_held(number: int) -> None:
    world = World()
    log = world.log()
    append(log, b"a" * 500)
    append(log, b"b" * 300)
    world.flush(log)
    world.disk.fail_writes(at=number)
    written = 2
    try:
        for _ in range(4):
            append(log, b"c" * 400)
            written += 1
            world.flush(log)
    except StorageError:
        assert world.directory.fenced
    world.disk.heal()
    world.directory.close(clean=False)
    after = World(world.disk)
    held = values(after.log())
    assert {0: b"a" * 500, 1: b"b" * 300}.items() <= held.items()
    assert len(held) <= written
    after.close()


@pytest.mark.parametrize("position", [0, 8, 16, 20, 40, 70])
def test_damaged_bytes_are_never_served_and_named_once(
    position: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    log = world.log()
    append(log, b"good")
    first = log.segments[0].size
    append(log, b"bad to be")
    world.disk.flip(LOG_FILE, first + position, 0x41)
    for _ in range(3):
        with pytest.raises(ApiError) as refused:
            values(log, 1)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert values(log, 0, 1) == {0: b"good"}
    said = [line for line in caplog.messages if LOG_FILE in line]
    assert len(said) == 1
    assert "byte" in said[0]
    world.close()


def test_damage_below_the_recovery_point_quarantines_and_shortens_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    log = world.log()
    for number in range(6):
        append(log, b"%d" % number * 50)
    other = world.log(TopicPartition("u", 1))
    append(other, b"fine")
    world.flush(other)
    world.flush(log)
    world.directory.checkpoint()
    world.settle()
    active = log.segments[-1].path(".log")
    size = log.segments[-1].size
    world.disk.flip(active, 90)
    world.restart(clean=False)
    assert set(world.directory.quarantined) == {PLACE}
    assert set(world.directory.logs) == {TopicPartition("u", 1)}
    assert active in str(world.directory.quarantined[PLACE])
    assert world.disk.open(active).size() == size
    with pytest.raises(CorruptLogError):
        world.directory.create_log(PLACE, bytes(16), CONFIG)
    # Its recovery point is kept, so it is damage after the next start as well.
    world.directory.checkpoint()
    world.settle()
    world.restart(clean=True)
    assert set(world.directory.quarantined) == {PLACE}
    assert world.disk.open(active).size() == size
    world.close()


def test_a_log_shorter_than_its_recovery_point_is_damage_not_a_torn_tail() -> None:
    world = World()
    log = world.log()
    append(log, b"one")
    end = log.segments[0].size
    append(log, b"two")
    world.flush(log)
    world.directory.checkpoint()
    world.settle()
    world.disk.open(LOG_FILE).truncate(end)
    world.restart(clean=False)
    assert set(world.directory.quarantined) == {PLACE}
    world.close()


def test_a_torn_tail_is_cut_and_said_with_its_size(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    world = World()
    log = world.log()
    append(log, b"held")
    world.flush(log)
    world.directory.checkpoint()
    world.settle()
    end = log.segments[0].size
    append(log, b"torn" * 50)
    world.disk.open(LOG_FILE).truncate(end + 100)
    world.restart(clean=False)
    assert values(world.log()) == {0: b"held"}
    assert any(f"{LOG_FILE} at byte {end}" in line for line in caplog.messages)
    assert any("100 bytes" in line for line in caplog.messages)
    world.close()


def test_what_is_not_in_the_page_cache_is_read_where_waiting_is_allowed() -> None:
    world = World()
    log = world.log()
    append(log, b"cold")
    world.disk.cold = True
    assert isinstance(log.read(Offset(0), 100, below=Offset(1)), NeedsDisk)
    found = log.read_from_disk(Offset(0), 100, below=Offset(1))
    assert isinstance(found, ReadResult)
    assert found.next_offset == 1
    world.close()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "torn", "zeros", "stale"])
def test_an_index_that_makes_no_sense_is_rebuilt_after_a_clean_stop(
    suffix: str, damage: str
) -> None:
    world = World()
    log = world.log()
    for number in range(12):
        append(log, b"%02d" % number * 20, timestamp=NOW_MS + number)
    wanted = values(log)
    world.directory.close()
    path = f"/data/t-0/{0:020d}{suffix}"
    if damage == "missing":
        world.disk.remove(path)
    else:
        file = world.disk.open(path)
        if damage == "torn":
            file.truncate(file.size() - 3)
        else:
            file.write_at(0, ((bytes(1) if damage == "zeros" else b"\x7f") * file.size(),))
    after = World(world.disk)
    log = after.log()
    assert values(log) == wanted
    for number in range(12):
        found = log.offset_for_time(NOW_MS + number)
        assert found is not None
        assert found[1] == number
    after.close()


def test_a_flush_under_way_while_all_is_closed_fences_nothing_whatever_becomes_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Closing flushes by itself; the late flush then only finds files that are closed."""
    ended: list[Done[OSError | None]] = []

    def late(disk: object, files: object, done: Done[OSError | None]) -> None:
        ended.append(done)

    world = World(strategy=late)
    log = world.log()
    append(log, b"a")
    world.directory.flusher.flush_soon(log)
    world.settle()
    world.directory.close(clean=True)
    (done,) = ended
    with caplog.at_level(logging.WARNING):
        done(OSError(errno.EBADF, "Bad file descriptor"))
    assert world.directory.context.failure is None
    assert not caplog.records


def test_a_flush_of_nothing_but_closed_logs_bothers_no_disk() -> None:
    asked: list[int] = []

    def at_once(disk: object, files: Collection[object], done: Done[OSError | None]) -> None:
        asked.append(len(files))
        done(None)

    world = World(strategy=at_once)
    log = world.log()
    append(log, b"a")
    world.directory.flusher.flush_soon(log)
    world.directory.delete_log(PLACE)
    world.settle()
    assert 0 not in asked
    assert world.directory.flusher.idle
    world.close()
