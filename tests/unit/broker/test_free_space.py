"""Marks of free space: producers are refused before a disk is full, and go on by themselves."""

import errno
import logging
from collections.abc import Callable

import pytest

from headrace.broker.free_space import LOOK_SECONDS_MAX, FreeSpace
from headrace.config.broker import load
from headrace.config.free_space import DEFAULT_BYTES
from headrace.config.log_config import LogConfig
from headrace.log import file_names
from headrace.log.directory import reserve
from headrace.log.directory.reserve import RESERVE_BYTES
from headrace.log.text_files import read_file
from headrace.model.errors import ApiError, ErrorCode
from headrace.record.batch import check_produced
from tests.support.log.log import NOW_MS, batch_of
from tests.support.processes.broker import append
from tests.unit.broker.test_partition import Place

LEAST = 1000
SETTINGS = LogConfig(segment_bytes=100, retention_bytes=1, file_delete_delay_ms=60_000)


class Watched:
    """A partition on a disk whose free bytes the test says."""

    def __init__(self, least: str | None = str(LEAST), total: int = 1 << 40) -> None:
        self.place = Place(config=SETTINGS)
        self.partition = self.place.partition
        self.directory = self.place.directory
        self.free: int | OSError = 1 << 30
        flags = {} if least is None else {"log.dirs.free.bytes.min": least}
        self.config = load(flags=flags)[0]
        disk = self.place.disk
        disk.free_bytes = self._free  # type: ignore[method-assign]
        disk.total_bytes = lambda path: total  # type: ignore[method-assign]
        self.space = FreeSpace([self.directory], self.place.clock, disk, lambda: self.config)
        self.space.start()

    def _free(self, path: str) -> int:
        if isinstance(self.free, OSError):
            raise self.free
        return self.free

    def look(self, free: int) -> None:
        """Have so much free, and let the next look come."""
        self.free = free
        self.place.clock.advance(LOOK_SECONDS_MAX)
        self.place.flush()

    def refused(self) -> ApiError:
        with pytest.raises(ApiError) as refusal:
            append(self.partition)
        return refusal.value


def test_producers_are_refused_below_the_mark_and_go_on_above_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    room = Watched()
    append(room.partition)
    room.place.flush()
    room.look(LEAST)
    append(room.partition)
    room.look(LEAST - 1)
    error = room.refused()
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert error.message == (
        "log directory /data has 999 bytes free, less than log.dirs.free.bytes.min=1000; it accepts"
        " records again once there is space"
    )
    view = memoryview(batch_of(b"run"))
    headers = [check_produced(view)]
    assert room.partition.append_run([view], headers, now_ms=NOW_MS) == 0
    room.place.flush()
    assert room.place.read(1) == [1], "what retention has left is read"
    room.look(LEAST)
    append(room.partition)
    room.look(LEAST - 1)
    assert [line for line in caplog.messages if "bytes are free" in line] == [
        "/data: 999 bytes are free, less than log.dirs.free.bytes.min=1000: producers are refused"
        " (KAFKA_STORAGE_ERROR), reads go on; retention runs now. Free space, or shorten"
        " retention: headrace topic alter NAME -c retention.ms=…",
        "/data: 1000 bytes are free: producers are accepted again",
        "/data: 999 bytes are free, less than log.dirs.free.bytes.min=1000: producers are refused"
        " (KAFKA_STORAGE_ERROR), reads go on; retention runs now. Free space, or shorten"
        " retention: headrace topic alter NAME -c retention.ms=…",
    ]


def test_coordinators_go_on_below_the_mark() -> None:
    room = Watched()
    room.look(0)
    room.refused()
    assert room.partition.append_internal(batch_of(b"commit")).base_offset == 0


def test_followers_go_on_down_to_half_of_the_mark() -> None:
    room = Watched()
    for free, full in ((LEAST, False), (LEAST // 2, False), (LEAST // 2 - 1, True), (LEAST, False)):
        room.look(free)
        assert room.directory.context.full is full


def test_retention_runs_at_once_and_removes_without_delay() -> None:
    room = Watched()
    for _ in range(5):
        append(room.partition)
        room.place.flush()
    room.directory.apply_retention()  # its files wait for a minute
    assert names(room, ".deleted")
    append(room.partition)
    room.place.flush()
    before = names(room, ".log")
    room.look(LEAST - 1)
    assert len(names(room, ".log")) < len(before)
    assert names(room, ".deleted") == []


def names(room: Watched, suffix: str) -> list[str]:
    return [name for name in room.place.disk.list("/data/t-0") if name.endswith(suffix)]


def test_a_small_file_system_has_a_tenth_as_its_mark() -> None:
    room = Watched(least=None)
    assert room.space.least(room.directory) == DEFAULT_BYTES
    small = Watched(least=None, total=5000)
    assert small.space.least(small.directory) == 500
    small.look(499)
    small.refused()


def test_a_reserve_is_written_near_the_mark_and_removed_by_a_full_start() -> None:
    room, path = Watched(), f"/data/{file_names.RESERVE}"
    disk = room.place.disk
    room.look(2 * LEAST + RESERVE_BYTES)
    assert not disk.exists(path)
    room.look(2 * LEAST + RESERVE_BYTES - 1)
    assert read_file(disk, path) == bytes(RESERVE_BYTES)
    room.free = RESERVE_BYTES
    reserve.release(disk, "/data")
    assert disk.exists(path)
    room.free = RESERVE_BYTES - 1
    reserve.release(disk, "/data")
    assert not disk.exists(path)
    room.look(LEAST - 1)
    assert not disk.exists(path), "below the mark its room is needed"


def test_a_reserve_never_takes_the_free_space_below_the_mark() -> None:
    """Otherwise it would have producers refused, or fill a small file system."""
    room, path = Watched(), f"/data/{file_names.RESERVE}"
    room.look(LEAST + RESERVE_BYTES - 1)
    assert not room.place.disk.exists(path)
    room.look(LEAST + RESERVE_BYTES)
    assert room.place.disk.exists(path)


def test_a_reserve_is_not_written_if_the_disk_filled_before_its_thread_ran() -> None:
    room, path = Watched(), f"/data/{file_names.RESERVE}"
    disk, waiting = room.place.disk, list[Callable[[], object]]()
    disk.run = lambda work, done: waiting.append(work)  # type: ignore[method-assign]
    room.look(LEAST + RESERVE_BYTES)
    (make,) = waiting
    room.free = LEAST + RESERVE_BYTES - 1
    make()
    assert not disk.exists(path)


def test_a_reserve_that_finds_no_room_leaves_nothing() -> None:
    room = Watched()
    room.place.disk.fail_writes(code=errno.ENOSPC)
    room.look(LEAST + RESERVE_BYTES)
    assert not room.place.disk.exists(f"/data/{file_names.RESERVE}")
    assert not room.directory.fenced


def test_a_mark_of_0_refuses_nothing() -> None:
    room = Watched(least="0")
    room.look(0)
    append(room.partition)
    assert not room.directory.context.full


def test_an_altered_mark_counts_at_the_next_look() -> None:
    room = Watched()
    room.config = room.config.updated({"log.dirs.free.bytes.min": LEAST * 10})
    room.look(LEAST * 5)
    room.refused()


def test_near_the_mark_each_pass_of_writes_looks() -> None:
    room = Watched(least=str(1 << 30))
    room.look((1 << 30) + (1 << 29))
    room.free = 0
    room.space.wrote()
    append(room.partition)  # far above it the next look comes by time
    room.look((1 << 30) + (1 << 20))
    room.free = 0
    room.space.wrote()
    room.refused()


def test_free_space_that_is_not_known_changes_nothing() -> None:
    room = Watched()
    room.look(0)
    room.free = OSError(5, "Input/output error")
    room.place.clock.advance(LOOK_SECONDS_MAX)
    room.refused()
    room.look(LEAST)
    append(room.partition)


def test_a_failed_directory_is_looked_at_no_more() -> None:
    room = Watched()
    room.directory.context.fail(OSError(28, "No space left on device"), "/data")
    room.look(0)
    assert room.directory.context.low == ""
