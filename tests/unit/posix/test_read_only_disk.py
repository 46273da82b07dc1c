"""Limits of the process, and the disk of those who only look."""

import errno
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.posix import open_files
from headrace.posix.read_only_disk import ReadOnlyDisk


@pytest.mark.parametrize(
    ("soft", "hard", "told"),
    [(10, 20, 20), (20, 20, 20), (10, -1, sys.maxsize), (-1, -1, sys.maxsize), (0, 0, 0)],
)
def test_as_many_files_as_the_system_allows_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, told: int
) -> None:
    asked: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda *given: asked.append(given))
    assert open_files.raise_limit() == told
    assert asked == ([] if soft == hard else [(resource.RLIMIT_NOFILE, (hard, hard))])

    def refused(*_: object) -> None:
        raise ValueError("not allowed")

    monkeypatch.setattr(resource, "setrlimit", refused)
    assert open_files.raise_limit() == (told if soft == hard else soft)


CHANGES: list[Callable[[ReadOnlyDisk, str], object]] = [
    lambda disk, path: disk.make_directory(path),
    lambda disk, path: disk.rename(path, "elsewhere"),
    lambda disk, path: disk.remove(path),
    lambda disk, path: disk.remove_tree(path),
    lambda disk, path: disk.sync_directory(path),
    lambda disk, path: disk.sync_directories([path]),
    lambda disk, path: disk.sync_all(path),
    lambda disk, path: disk.replace(path, b""),
    lambda disk, path: disk.lock(path),
    lambda disk, path: disk.open(path).write_at(0, [b"x"]),
    lambda disk, path: disk.open(path).truncate(0),
    lambda disk, path: disk.open(path).set_mtime_ms(0),
    lambda disk, path: disk.open(path).sync(),
    lambda disk, path: disk.open(path).send(0, 1, 0),
]


@pytest.mark.parametrize("change", CHANGES)
def test_who_only_looks_changes_nothing_and_is_told_the_file(
    tmp_path: Path, change: Callable[[ReadOnlyDisk, str], object]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with pytest.raises(OSError, match="Read-only file system") as raised:
        change(ReadOnlyDisk(), str(path))
    assert (raised.value.errno, raised.value.filename) == (errno.EROFS, str(path))
    assert path.read_bytes() == b"content"


def test_who_only_looks_sees_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    os.utime(path, ns=(0, 1_780_000_000_123_456_789))
    disk = ReadOnlyDisk()
    stat = disk.stat(str(path))
    assert stat is not None
    assert (stat.size, stat.changed) == (10, 1_780_000_000_123_456_789)
    assert disk.stat(str(tmp_path / "none")) is None
    assert (disk.exists(str(path)), disk.is_directory(str(path))) == (True, False)
    system = os.statvfs(tmp_path)
    assert disk.total_bytes(str(tmp_path)) == system.f_blocks * system.f_frsize
    assert 0 <= disk.free_bytes(str(tmp_path)) <= disk.total_bytes(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert disk.absolute("file") == str(path)
    assert disk.boot_id() == ""
    file = disk.open(str(path), create=True)
    assert (file.size(), file.mtime_ms()) == (10, 1_780_000_000_123)
    assert (file.read(2, 3), file.read(8, 9), file.read(10, 1)) == (b"234", b"89", b"")
    assert file.read_cached(0, 4) == b"0123"
    into = bytearray(4)
    assert (file.read_cached_into(7, memoryview(into)), into) == (3, bytearray(b"789\0"))
    reads: list[int] = []
    real = os.preadv

    def counted(fd: int, into: list[memoryview], position: int) -> int:
        reads.append(position)
        return real(fd, into, position)

    monkeypatch.setattr(os, "preadv", counted)
    assert file.read(0, 10) == b"0123456789"
    assert reads == [0], "what is full is not read on"
    done: list[int] = []
    disk.run(lambda: 7, done.append)
    assert done == [7]
    file.close()
    file.close()


def test_a_file_that_cannot_be_opened_closes_no_other(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        ReadOnlyDisk().open(str(tmp_path / "none"))
    assert os.listdir("/proc/self/fd") == before


def test_who_only_looks_flushes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    disk = ReadOnlyDisk()
    file = disk.open(str(path), writable=False)
    told: list[OSError | None] = []
    with pytest.raises(OSError, match="Read-only file system"):
        disk.flush([file], told.append)
    assert told == []
    file.close()
