"""The simulated disk keeps the promises that every test on it rests on."""

import errno
import os
from collections.abc import Callable

import pytest

from headrace.ports.disk import DiskFile
from headrace.testing.disk import SimDisk, SimFile


def made(disk: SimDisk, path: str, content: bytes = b"") -> DiskFile:
    """An open file with that content."""
    file = disk.open(path, create=True)
    if content:
        file.write_at(0, (content,))
    return file


def everything(file: DiskFile) -> bytes:
    return bytes(file.read(0, file.size()))


# --- faults ---------------------------------------------------------------------------------------


def refused(call: Callable[[], object]) -> tuple[int | None, str, str | None]:
    """Error number, its text and its file of the OSError that `call` raises."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - any of them: it is looked at below
        call()
    return caught.value.errno, caught.value.strerror or "", caught.value.filename


def told(code: int, path: str | None) -> tuple[int, str, str | None]:
    return code, os.strerror(code), path


def test_writes_fail_after_so_many_good_ones_and_stay_broken() -> None:
    disk = SimDisk()
    file = made(disk, "/f", b"first")
    disk.fail_writes(1, partial=2)
    file.write_at(0, (b"FIRST",))
    wanted = told(errno.ENOSPC, "/f")
    assert refused(lambda: file.write_at(5, (b"sec", b"ond"))) == wanted
    assert everything(file) == b"FIRSTse", "a part of it is written"
    assert refused(lambda: file.truncate(0)) == wanted
    assert refused(lambda: file.write_at(0, (b"third",))) == wanted
    assert everything(file) == b"thRSTse"
    disk.heal()
    file.truncate(3)
    assert everything(file) == b"thR"


def test_the_next_write_fails_once_where_nothing_else_is_asked_for() -> None:
    disk = SimDisk()
    file = made(disk, "/f")
    disk.fail_writes(code=errno.EIO, sticky=False)
    assert refused(lambda: file.write_at(0, (b"lost",))) == told(errno.EIO, "/f")
    assert file.size() == 0, "nothing of it is written"
    assert len([op for op in disk.ops if op.kind == "write"]) == 0
    assert file.write_at(0, (b"kept",)) == 4
    assert everything(file) == b"kept"


def test_a_sync_of_a_file_fails_once_and_its_bytes_count_as_saved_until_their_pages_go() -> None:
    disk = SimDisk()
    file = made(disk, "/f", b"saved")
    file.sync()
    file.write_at(5, (b" lost",))
    other = made(disk, "/other", b"other")
    disk.fail_syncs(1)
    other.sync()
    assert refused(file.sync) == told(errno.EIO, None)
    file.write_at(10, (b" later",))
    file.sync()
    assert everything(file) == b"saved lost later", "the page cache still has it"
    file.forget(0, 16)
    assert everything(file) == b"saved\0\0\0\0\0 later"
    other.forget(0, 5)
    assert everything(other) == b"other"
    assert disk.forgotten == 21


@pytest.mark.parametrize("sync", ["directory", "all"])
def test_syncs_of_directories_and_of_all_count_and_fail_as_those_of_files_do(sync: str) -> None:
    disk = SimDisk()
    file = made(disk, "/f", b"x")

    def synced() -> None:
        if sync == "all":
            disk.sync_all("/")
        else:
            disk.sync_directory("/")

    disk.fail_syncs(2, code=errno.ENOSPC, sticky=True)
    file.sync()
    synced()
    before = len(disk.ops)
    assert refused(synced) == told(errno.ENOSPC, "/")
    assert refused(synced) == told(errno.ENOSPC, "/")
    assert refused(file.sync) == told(errno.ENOSPC, None)
    assert len(disk.ops) == before


def test_syncs_of_files_are_counted_good_and_bad() -> None:
    disk = SimDisk()
    file, other = made(disk, "/f"), made(disk, "/g")
    assert (disk.syncs, disk.passes_handed_over) == (0, 0)
    assert disk.counts == {"write": 0, "sync": 0}
    disk.fail_syncs()
    refused(file.sync)
    disk.flush([file, other], lambda _: None)
    disk.settle()
    assert disk.syncs == 3


def test_bits_are_flipped_where_they_are_said_and_back_again() -> None:
    disk = SimDisk()
    file = made(disk, "/f", b"\x00\x00")
    disk.flip("/f", 1)
    assert everything(file) == b"\x00\x01"
    disk.flip("/f", 1, 0x81)
    assert everything(file) == b"\x00\x80"


# --- work that waits ------------------------------------------------------------------------------


def test_jobs_wait_for_settle_which_does_at_most_so_many_and_what_follows_from_them() -> None:
    disk = SimDisk()
    heard: list[object] = []
    disk.run(lambda: disk.run(lambda: "inner", heard.append), lambda _: heard.append("outer"))
    disk.run(lambda: 1 // 0, heard.append)
    assert (disk.busy, heard) == (True, [])
    assert disk.settle(steps=1) == 1
    assert heard == ["outer"]
    assert disk.settle() == 2
    assert isinstance(heard[1], ZeroDivisionError)
    assert heard[2] == "inner"
    assert (disk.busy, disk.settle()) == (False, 0)


def test_a_flush_covers_what_was_written_before_it_was_asked_for_and_not_a_byte_more() -> None:
    disk = SimDisk()
    file = made(disk, "/f", b"before")
    asked = len(disk.ops)
    heard: list[OSError | None] = []
    disk.flush([file], heard.append)
    file.write_at(6, (b" behind",))
    disk.settle()
    assert heard == [None]
    assert isinstance(file, SimFile)
    assert disk.synced_until(file.node) == asked
    assert disk.synced_until(0) == 0, "the root was never synced"
    disk.fail_syncs()
    disk.flush([file], heard.append)
    disk.settle()
    assert [error and error.errno for error in heard] == [None, errno.EIO]
    file.forget(0, 13)
    assert everything(file) == b"before"


# --- files ----------------------------------------------------------------------------------------


def test_what_lies_between_the_end_and_a_write_or_a_longer_size_is_zeros() -> None:
    disk = SimDisk()
    file = made(disk, "/f", b"ab")
    assert file.write_at(4, (b"c", b"d")) == 2
    file.truncate(8)
    assert everything(file) == b"ab\0\0cd\0\0"
    file.truncate(1)
    file.truncate(1)
    assert everything(file) == b"a"


def test_a_file_is_closed_once_and_then_refuses() -> None:
    disk = SimDisk()
    assert disk.open_files == 0
    first, second = made(disk, "/f", b"x"), disk.open("/f", writable=False)
    assert disk.open_files == 2
    assert refused(lambda: second.write_at(0, (b"y",)))[::2] == (errno.EBADF, "/f")
    first.close()
    first.close()
    assert disk.open_files == 1
    closed: list[Callable[[], object]] = [
        first.size,
        first.sync,
        lambda: first.read(0, 1),
        lambda: first.forget(0, 1),
        lambda: first.truncate(0),
        lambda: first.write_at(0, (b"y",)),
    ]
    assert [refused(call) for call in closed] == [(errno.EBADF, "closed", "/f")] * len(closed)
    assert everything(second) == b"x"
    assert second.fileno() == -1


def test_nothing_is_cached_of_a_cold_disk_nor_behind_the_end() -> None:
    disk = SimDisk()
    file = made(disk, "/f", b"0123456789")
    into = memoryview(bytearray(4))
    assert file.read_cached(3, 2) == b"34"
    assert (file.read_cached_into(8, into), bytes(into)) == (2, b"89\0\0")
    assert (file.read_cached_into(2, into), bytes(into)) == (4, b"2345")
    assert file.cached(6, 4) is True
    assert file.cached(6, 5) is False
    disk.cold = True
    assert file.read_cached(3, 2) is None
    assert file.read_cached_into(8, into) == 0
    assert file.cached(6, 4) is False
    assert file.read(3, 2) == b"34"


def test_bytes_are_sent_to_a_descriptor_and_none_where_it_takes_no_more() -> None:
    disk = SimDisk()
    file = made(disk, "/f", b"0123456789")
    reads, writes = os.pipe()
    try:
        os.set_blocking(writes, False)
        assert file.send(2, 3, writes) == 3
        assert os.read(reads, 10) == b"234"
        large = made(disk, "/large", bytes(1 << 20))
        assert 0 < large.send(0, 1 << 20, writes) < 1 << 20
        assert file.send(0, 10, writes) == 0
    finally:
        os.close(reads)
        os.close(writes)


def test_a_files_time_is_that_of_its_last_write_or_what_it_was_set_to() -> None:
    now = [7]
    disk = SimDisk(lambda: now[0])
    file = made(disk, "/f")
    assert file.mtime_ms() == 7
    now[0] = 9
    assert file.mtime_ms() == 7
    file.write_at(0, (b"x",))
    assert file.mtime_ms() == 9
    file.set_mtime_ms(3)
    assert file.mtime_ms() == 3
    assert SimDisk().now_ms() == 0
