"""What the real disk holds back of a pass, where it is needed before the pass ends."""

import errno
import os
from pathlib import Path

import pytest

from headrace.posix.disk import RealDisk
from headrace.posix.files import RealFile


def test_what_was_needed_before_the_pass_ended_and_could_not_be_written_is_told_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(None)
    file = disk.open(str(tmp_path / "f"), create=True)
    disk.begin_gather()
    file.write_at(0, [b"held"])

    def full(fd: int, position: int, parts: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as failing:
        failing.setattr("headrace.posix.files.write_all", full)
        with pytest.raises(OSError, match="No space"):
            file.write_held()
    failed = disk.end_gather(print)
    assert failed is not None
    assert [(path, error.errno) for path, error in failed] == [(file.path, errno.ENOSPC)]
    disk.begin_gather()
    assert disk.end_gather(print) == [], "once is enough"
    file.close()


def test_what_is_held_back_is_counted_to_the_byte(tmp_path: Path) -> None:
    disk = RealDisk(None)
    file = disk.open(str(tmp_path / "f"), create=True)
    file.write_at(0, [b"before"])
    disk.begin_gather()
    file.write_at(6, [b"held", b"back"])
    assert isinstance(file, RealFile)
    assert file.held_bytes == 8
    disk.end_gather(print)
    file.close()


@pytest.mark.parametrize("size", [8, 10, 11])
def test_a_read_the_system_gives_in_parts_asks_for_just_what_is_missing(
    size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    asked: list[tuple[int, int]] = []
    pread = os.pread

    def in_parts(fd: int, count: int, position: int) -> bytes:
        asked.append((count, position))
        return pread(fd, min(count, 4), position)

    disk = RealDisk(None)
    file = disk.open(str(path))
    monkeypatch.setattr(os, "pread", in_parts)
    assert file.read(0, size) == b"0123456789"[:size]
    assert asked == [(size - at, at) for at in (0, 4, 8, 10) if at < size]
    file.close()
