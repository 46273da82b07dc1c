"""Following a growing file: rotation by renaming and by copying, restarts, long lines."""

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.posix import growing_file as tail_module
from headrace.posix.growing_file import LINE_BYTES_MAX, Mark, Tail


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "QUIET_SECONDS", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


class Reader:
    """A tail with what it warned of."""

    def __init__(self, path: Path, mark: Mark | None = None, *, from_end: bool = False) -> None:
        self.warnings: list[str] = []
        self.tail = Tail(path, mark, from_end=from_end, warn=self.warnings.append)

    def read(self) -> list[str]:
        """Everything there is now, across rotations."""
        found: list[str] = []
        for _ in range(12):
            found += [line.decode() for line in self.tail.lines()]
        return found


@pytest.fixture
def readers() -> Iterator[list[Reader]]:
    opened: list[Reader] = []
    yield opened
    for one in opened:
        one.tail.close()


@pytest.fixture
def open_tail(readers: list[Reader]) -> type[Reader]:
    class Kept(Reader):
        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__(*arguments, **more)  # type: ignore[arg-type]
            readers.append(self)

    return Kept


def write(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_lines_come_once_and_whole(path: Path, open_tail: type[Reader]) -> None:
    write(path, "one", "two")
    reader = open_tail(path)
    assert reader.read() == ["one", "two"]
    with path.open("a") as file:
        file.write("thr")
    assert reader.read() == []
    with path.open("a") as file:
        file.write("ee\nfour\n")
    assert reader.read() == ["three", "four"]


def test_it_can_begin_at_the_end(path: Path, open_tail: type[Reader]) -> None:
    write(path, "old")
    reader = open_tail(path, from_end=True)
    write(path, "new")
    assert reader.read() == ["new"]


def test_a_file_that_does_not_exist_yet_is_waited_for(path: Path, open_tail: type[Reader]) -> None:
    reader = open_tail(path)
    assert reader.read() == []
    assert reader.tail.mark() is None
    write(path, "first")
    assert reader.read() == ["first"]


def test_a_renamed_file_is_finished_before_the_next(path: Path, open_tail: type[Reader]) -> None:
    write(path, "one")
    reader = open_tail(path)
    assert reader.read() == ["one"]
    rotated = path.with_name("access.log.1")
    path.rename(rotated)
    write(rotated, "late")
    assert reader.read() == ["late"]
    write(path, "new")
    assert reader.read() == ["new"]


def test_the_last_line_of_a_renamed_file_needs_no_end(path: Path, open_tail: type[Reader]) -> None:
    path.write_text("cut")
    reader = open_tail(path)
    assert reader.read() == []
    path.rename(path.with_name("access.log.1"))
    write(path, "new")
    assert reader.read() == ["cut", "new"]


def test_a_writer_that_reopens_late_is_waited_for(
    path: Path, open_tail: type[Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "QUIET_SECONDS", 60.0)
    write(path, "one")
    reader = open_tail(path)
    assert reader.read() == ["one"]
    rotated = path.with_name("access.log.1")
    path.rename(rotated)
    write(path, "new")
    assert reader.read() == []
    write(rotated, "late")
    assert reader.read() == ["late"]


def test_several_rotations_while_nobody_read_lose_nothing(
    path: Path, open_tail: type[Reader]
) -> None:
    write(path, "1")
    first = open_tail(path)
    assert first.read() == ["1"]
    mark = first.tail.mark()
    write(path, "2")
    names: list[Path] = []
    for number in range(3, 7):
        # As logrotate: the oldest gets the highest number.
        for name in reversed(names):
            at = int(name.suffix[1:])
            name.rename(path.with_name(f"access.log.{at + 1}"))
        path.rename(path.with_name("access.log.1"))
        names = [path.with_name(f"access.log.{at}") for at in range(1, number - 1)]
        time.sleep(0.01)
        write(path, str(number))
    assert open_tail(path, mark).read() == ["2", "3", "4", "5", "6"]


def test_a_truncated_file_is_read_from_its_beginning(path: Path, open_tail: type[Reader]) -> None:
    write(path, "one", "two")
    reader = open_tail(path)
    assert reader.read() == ["one", "two"]
    os.truncate(path, 0)
    write(path, "new")
    assert reader.read() == ["new"]
    assert "truncated" in reader.warnings[0]


def test_a_truncated_file_that_grew_past_the_place_is_noticed(
    path: Path, open_tail: type[Reader]
) -> None:
    write(path, "one")
    reader = open_tail(path)
    assert reader.read() == ["one"]
    os.truncate(path, 0)
    write(path, "a much longer line than before", "and one more")
    assert reader.read() == ["a much longer line than before", "and one more"]


def test_what_was_not_read_before_a_copy_and_truncate_comes_from_the_copy(
    path: Path, open_tail: type[Reader]
) -> None:
    write(path, "one")
    reader = open_tail(path)
    assert reader.read() == ["one"]
    write(path, "two", "three")
    shutil.copy(path, path.with_name("access.log.1"))
    os.truncate(path, 0)
    write(path, "new")
    assert reader.read() == ["two", "three", "new"]


def test_a_restart_goes_on_where_the_mark_is(path: Path, open_tail: type[Reader]) -> None:
    write(path, "one", "two")
    first = open_tail(path)
    first.read()
    mark = first.tail.mark()
    write(path, "three")
    assert open_tail(path, mark).read() == ["three"]


def test_a_restart_finds_the_copy_after_copy_and_truncate(
    path: Path, open_tail: type[Reader]
) -> None:
    write(path, "one")
    first = open_tail(path)
    first.read()
    mark = first.tail.mark()
    write(path, "two")
    shutil.copy(path, path.with_name("access-20261120.log"))
    os.truncate(path, 0)
    write(path, "new")
    assert open_tail(path, mark).read() == ["two", "new"]


def test_a_restart_without_the_old_file_begins_with_what_is_there(
    path: Path, open_tail: type[Reader]
) -> None:
    write(path, "one")
    first = open_tail(path)
    first.read()
    mark = first.tail.mark()
    path.rename(path.with_name("elsewhere"))
    write(path, "other")
    reader = open_tail(path, mark)
    assert reader.read() == ["other"]
    assert "no longer exists" in reader.warnings[0]


def test_an_inode_used_again_is_no_old_friend(path: Path, open_tail: type[Reader]) -> None:
    write(path, "one")
    first = open_tail(path)
    first.read()
    mark = first.tail.mark()
    assert mark is not None
    path.write_text("two\n")
    status = path.stat()
    again = mark._replace(device=status.st_dev, inode=status.st_ino)
    assert open_tail(path, again).read() == ["two"]


def test_compressed_and_foreign_files_beside_it_are_left_alone(
    path: Path, open_tail: type[Reader]
) -> None:
    write(path, "one")
    reader = open_tail(path)
    assert reader.read() == ["one"]
    path.rename(path.with_name("access.log.1"))
    for name in ("access.log.2.gz", "access.log.bak", "error.log.1", "access.logs"):
        write(path.with_name(name), "not ours")
    write(path, "new")
    assert reader.read() == ["new"]


def test_a_line_no_record_can_hold_is_passed_over_aloud(
    path: Path, open_tail: type[Reader]
) -> None:
    write(path, "before", "x" * (LINE_BYTES_MAX + 1), "between", "y" * (3 << 20), "after")
    reader = open_tail(path)
    assert reader.read() == ["before", "between", "after"]
    assert len(reader.warnings) == 2


def test_rewinding_gives_the_lines_again(path: Path, open_tail: type[Reader]) -> None:
    write(path, "one")
    reader = open_tail(path)
    reader.read()
    mark = reader.tail.mark()
    write(path, "two")
    assert reader.read() == ["two"]
    reader.tail.rewind(mark)
    assert reader.read() == ["two"]


def test_rewinding_to_before_there_was_a_file_gives_all_its_lines(
    path: Path, open_tail: type[Reader]
) -> None:
    reader = open_tail(path)
    before = reader.tail.mark()
    assert before is None
    write(path, "a", "b")
    assert reader.read() == ["a", "b"]
    reader.tail.rewind(before)
    assert reader.read() == ["a", "b"]


def test_a_file_that_is_gone_is_not_the_one_that_was_read(path: Path) -> None:
    head = hashlib.sha256(b"").hexdigest()
    assert not tail_module._holds(path, 0, head, 0)
    path.write_bytes(b"abc")
    assert tail_module._holds(path, 0, head, 3)
    assert not tail_module._holds(path, 0, head, 4)
    assert not tail_module._holds(path, 1, head, 3)


def test_an_endless_line_at_the_end_of_a_renamed_file_is_passed_over_aloud(
    path: Path, open_tail: type[Reader]
) -> None:
    reader = open_tail(path)
    write(path, "a")
    assert reader.read() == ["a"]
    with path.open("a") as file:
        file.write("x" * (LINE_BYTES_MAX + 1))
    path.rename(path.with_suffix(".log.1"))
    write(path, "b")
    assert reader.read() == ["b"]
    assert len(reader.warnings) == 1
    assert f"skipped a line of more than {LINE_BYTES_MAX} bytes" in reader.warnings[0]


def test_whole_lines_that_were_not_handed_out_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text("one\ntwo\nthr")
    tail = Tail(file, None, from_end=False, warn=lambda text: None)
    assert tail.lines_left() == 2
    assert tail.lines() == [b"one", b"two"]
    assert tail.lines_left() == 0
    tail.close()
    assert tail.lines_left() == 0
