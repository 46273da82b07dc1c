"""Files beyond the bound: which lose their descriptor, and by which name they come back."""

import errno
import os
from pathlib import Path
from typing import cast

import pytest

from headrace.posix import open_files
from headrace.posix.files import RealFile
from headrace.posix.open_files import OpenFile, OpenFiles
from headrace.posix.threads import Workers
from tests.support.log.stepped_disk import SteppedDisk


@pytest.fixture
def disk() -> SteppedDisk:
    return SteppedDisk()


def opened(disk: SteppedDisk, path: Path, data: bytes = b"", *, writable: bool = True) -> RealFile:
    """`path`, written and flushed where there is `data`, and not used since."""
    file = disk.open(str(path), create=writable, writable=writable)
    assert isinstance(file, RealFile)
    if data:
        file.write_at(0, [data])
        file.sync()
    file.used = False
    return file


def is_open(file: RealFile) -> bool:
    return file._fd >= 0


def given_up(disk: SteppedDisk, file: RealFile) -> None:
    """Take the descriptor of `file`, as others need it; `file` has it no more."""
    disk.files.open_max = 1
    for _ in range(3):
        opened(disk, Path(file.path).parent / "another").close()
    disk.files.open_max = 1000
    assert not is_open(file)


def test_a_file_without_descriptor_that_is_renamed_is_opened_by_its_new_name(
    disk: SteppedDisk, tmp_path: Path
) -> None:
    file = opened(disk, tmp_path / "a", b"content")
    given_up(disk, file)
    disk.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert file.path == str(tmp_path / "b")
    assert file.read(0, 99) == b"content"
    file.close()


def test_an_open_file_that_is_renamed_is_opened_by_its_new_name_whoever_has_the_old_one(
    disk: SteppedDisk, tmp_path: Path
) -> None:
    file = opened(disk, tmp_path / "a", b"first")
    disk.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    other = opened(disk, tmp_path / "a", b"second")
    disk.rename(str(tmp_path / "b"), str(tmp_path / "c"))
    assert (file.path, other.path) == (str(tmp_path / "c"), str(tmp_path / "a"))
    given_up(disk, file)
    given_up(disk, other)
    assert (file.read(0, 99), other.read(0, 99)) == (b"first", b"second")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("onlooker_first", [True, False])
def test_who_only_looks_on_does_not_stand_in_for_the_file_in_use(
    disk: SteppedDisk, tmp_path: Path, onlooker_first: bool
) -> None:
    (tmp_path / "a").touch()
    if onlooker_first:
        onlooker = opened(disk, tmp_path / "a", writable=False)
        file = opened(disk, tmp_path / "a")
    else:
        file = opened(disk, tmp_path / "a")
        onlooker = opened(disk, tmp_path / "a", writable=False)
    assert (file.writable, onlooker.writable) == (True, False)
    onlooker.close()
    disk.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    assert file.path == str(tmp_path / "b")
    file.close()


def test_a_closed_file_gives_its_name_up_with_or_without_a_descriptor(
    disk: SteppedDisk, tmp_path: Path
) -> None:
    for name in ("open", "given up"):
        file = opened(disk, tmp_path / name, b"x")
        if name == "given up":
            given_up(disk, file)
        file.close()
        file.close()
        onlooker = opened(disk, tmp_path / name, writable=False)
        disk.rename(str(tmp_path / name), str(tmp_path / "new"))
        assert (file.path, onlooker.path) == (str(tmp_path / name), str(tmp_path / "new"))
        onlooker.close()
    assert len(disk.files) == 0


def test_the_file_used_longest_ago_goes_first_and_no_more_than_needed(
    disk: SteppedDisk, tmp_path: Path
) -> None:
    disk.files.open_max = 4
    files = [opened(disk, tmp_path / str(at), b"x") for at in range(4)]
    assert [is_open(file) for file in files] == [True] * 4, "as many as may be"
    files[0].used = True
    files.append(opened(disk, tmp_path / "4", b"x"))
    assert [is_open(file) for file in files] == [True, False, True, True, True]
    files.append(opened(disk, tmp_path / "5", b"x"))
    assert [is_open(file) for file in files] == [True, False, False, True, True, True]
    assert len(disk.files) == 4
    disk.files.open_max = 2
    files.append(opened(disk, tmp_path / "6", b"x"))
    assert len(disk.files) == 2, "what was open beyond a bound that is lower now goes at once"


def test_what_is_needed_is_not_given_up_and_looked_at_a_bounded_number_at_a_time(
    disk: SteppedDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "_LOOKED_AT_MAX", 2)
    disk.files.open_max = 5
    pinned = [opened(disk, tmp_path / f"p{at}", b"x") for at in range(4)]
    spare = opened(disk, tmp_path / "s", b"x")
    for file in pinned:
        disk.files.pin(file)
    more = [opened(disk, tmp_path / "m0", b"x")]
    assert is_open(spare), "one to close and two beyond it were looked at: all of them needed"
    more.append(opened(disk, tmp_path / "m1", b"x"))
    assert not is_open(spare)
    assert all(is_open(file) for file in pinned)
    for file in pinned:
        disk.files.unpin(file)
        assert file.pins == 0


def test_a_file_that_cannot_be_opened_again_is_pinned_by_nobody(
    disk: SteppedDisk, tmp_path: Path
) -> None:
    good, gone = opened(disk, tmp_path / "good", b"x"), opened(disk, tmp_path / "gone", b"x")
    given_up(disk, gone)
    os.unlink(gone.path)
    with pytest.raises(FileNotFoundError):
        disk.files.pin(gone)
    with pytest.raises(FileNotFoundError):
        disk.files.pin_all([good, gone])
    assert (good.pins, gone.pins) == (0, 0)
    assert disk.files.pin_all([good]) == [good.fileno()]
    assert good.pins == 1
    disk.files.unpin_all([good])
    assert good.pins == 0


def unflushed(disk: SteppedDisk, directory: Path, count: int) -> list[RealFile]:
    """Files that none may close: each has a byte that no flush has made durable."""
    files = [opened(disk, directory / f"u{at}") for at in range(count)]
    for file in files:
        file.write_at(0, [b"x"])
        file.used = False
    return files


def test_where_only_unflushed_files_are_open_they_are_flushed_and_then_closed(
    disk: SteppedDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fdatasync", flushed.append)
    files = unflushed(disk, tmp_path, 4)
    disk.files.pin(files[0])
    disk.files.open_max = 4
    more = [opened(disk, tmp_path / "more-0")]
    assert [file.unflushed for file in files] == [1, 0, 0, 0], "a flush has the pinned one"
    assert [file.pins for file in files] == [1] * 4
    more.append(opened(disk, tmp_path / "more-1"))
    assert disk.settle() == 1, "a second such flush waits for the first"
    assert flushed == [file.fileno() for file in files[1:]]
    assert [file.pins for file in files] == [1, 0, 0, 0]
    for file in files:
        file.used = False
    opened(disk, tmp_path / "more-2")
    assert len(disk.files) == 4
    assert is_open(files[0])
    files[0].unflushed = 0
    disk.files.unpin(files[0])
    disk.files.open_max = 100
    later = unflushed(disk, tmp_path, 8)
    disk.files.open_max = 4
    opened(disk, tmp_path / "more-3")
    assert disk.settle() == 1, "after the first there may be another"
    assert [file.unflushed for file in later] == [0] * 8


def test_an_error_of_a_flush_nobody_asked_for_is_told_to_who_asks_next(
    disk: SteppedDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = unflushed(disk, tmp_path, 2)
    bad = files[1].fileno()
    real = os.fdatasync

    def failing(fd: int) -> None:
        if fd == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(os, "fdatasync", failing)
    disk.files.open_max = 2
    opened(disk, tmp_path / "more")
    disk.settle()
    files[0].sync()
    told: list[OSError | None] = []
    disk.flush([files[0]], told.append)
    disk.flush(files, told.append)
    disk.settle()
    assert told[0] is None
    assert isinstance(told[1], OSError)
    assert told[1].errno == errno.EIO
    files[1].used = False
    disk.files.open_max = 1
    opened(disk, tmp_path / "still more")
    assert is_open(files[1]), "its error would be forgotten with the descriptor"


def test_what_is_held_back_is_written_before_such_a_flush(
    disk: SteppedDisk, tmp_path: Path
) -> None:
    file = opened(disk, tmp_path / "f")
    disk.begin_gather()
    file.write_at(0, [b"held"])
    file.used = False
    disk.files.open_max = 1
    opened(disk, tmp_path / "more")
    assert (tmp_path / "f").read_bytes() == b"held"
    disk.settle()
    assert disk.end_gather(print) == []
    assert (tmp_path / "f").read_bytes() == b"held"


def test_many_files_that_are_all_needed_are_not_all_looked_at_for_each_that_is_opened(
    disk: SteppedDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    really = RealFile.give_up

    def counted(file: RealFile) -> int:
        nonlocal looks
        looks += 1
        return really(file)

    monkeypatch.setattr(RealFile, "give_up", counted)
    disk.files.open_max = 16
    for number in range(600):
        file = opened(disk, tmp_path / str(number))
        disk.files.pin(file)
    assert looks < 600 * 20


def test_a_turn_that_writes_to_more_files_than_may_be_open_flushes_some_at_once(
    disk: SteppedDisk, tmp_path: Path
) -> None:
    disk.files.open_max, disk.files.full_at = 16, 32
    files = []
    for number in range(300):
        file = disk.open(str(tmp_path / str(number)), create=True)
        assert isinstance(file, RealFile)
        file.write_at(0, [b"content"])
        files.append(file)
        assert len(disk.files) <= 40
    assert all((tmp_path / str(number)).read_bytes() == b"content" for number in range(300))
    assert all(file.read(0, 99) == b"content" for file in files)


class ClosedByAThread:
    """A pinned file that another thread closes while it is looked at."""

    device, writable, pins = 0, True, 1

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self.path = path

    @property
    def unflushed(self) -> int:
        """Bytes that are not flushed."""
        self._files.closed(cast(OpenFile, self))
        return 1


def test_files_that_a_thread_closes_meanwhile_are_no_error_when_room_is_made() -> None:
    files = OpenFiles(cast(Workers, object()))
    for path in "abc":
        files.opened(cast(OpenFile, ClosedByAThread(files, path)))
    files._relieve(at_once=True)
    assert len(files) == 0
