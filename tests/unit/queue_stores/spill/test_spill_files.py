"""The files of what is spilled: how many there are, what goes when, and what a fault leaves."""

import errno
import logging

import pytest

from headrace.queue_stores.memory.spill_extent import Content, Extent
from headrace.queue_stores.memory.spill_files import SLACK_FILES
from tests.support.queues.spill import DATA
from tests.support.queues.spill_files import FILE, Files, extent_of


def test_a_file_of_its_size_is_followed_by_another_and_none_stays_open() -> None:
    files = Files()
    extents = files.some(100)
    per_file = -(-FILE // extents[0].size)
    assert len(files.names) == len(files.files) == -(-100 // per_file)
    assert files.disk.open_files == 0
    assert files.files.bytes == files.sizes()
    for extent in extents:
        assert files.numbers_of(extent) == list(range(extent.base, extent.end))
    assert files.disk.open_files == 0


def test_a_file_goes_with_the_last_extent_that_is_needed_of_it() -> None:
    files = Files()
    extents = files.some(60)
    first = extents[0].file
    of_first = [extent for extent in extents if extent.file is first]
    count = len(files.names)
    for extent in of_first[:-1]:
        files.files.free(extent)
    files.disk.settle()
    assert len(files.names) == count
    files.files.free(of_first[-1])
    files.disk.settle()
    assert len(files.names) == len(files.files) == count - 1
    assert files.files.bytes == files.sizes()
    for extent in extents:
        files.files.free(extent)
    files.disk.settle()
    assert (files.names, files.files.bytes) == ([], 0)


def test_names_are_not_used_again() -> None:
    files = Files()
    for number in range(3):
        (extent,) = files.some(1)
        assert files.names == [f"headrace-amqp-spill-{number:08d}"]
        files.files.free(extent)
        files.disk.settle()


def test_what_is_settled_while_it_is_written_has_no_place() -> None:
    files = Files()
    gone, kept = extent_of(0, 1), extent_of(2, 3, base=2)
    files.files.write([gone, kept], files.errors.append)
    gone.settle(range(2))
    files.disk.settle()
    assert gone.file is None
    assert files.numbers_of(kept) == [2, 3]
    files.files.free(kept)
    files.disk.settle()
    assert files.names == []


def test_a_file_is_not_removed_while_it_is_written_to() -> None:
    files = Files()
    (first,) = files.some(1)
    second = extent_of(8, 9, base=8)
    files.files.write([second], files.errors.append)
    files.files.free(first)
    files.disk.settle()
    assert files.numbers_of(second) == [8, 9]


def test_files_mostly_of_no_use_are_emptied_into_the_newest() -> None:
    files = Files()
    extents = files.some(200)
    kept = [extent for at, extent in enumerate(extents) if not at % 10]
    before = len(files.names)
    for extent in extents:
        if extent not in kept:
            files.files.free(extent)
    moves = 0
    while files.files.is_wasteful:
        files.files.move(files.errors.append)
        files.disk.settle()
        moves += 1
    live = sum(extent.size for extent in kept)
    assert files.sizes() == files.files.bytes <= 2 * live + SLACK_FILES * FILE
    assert len(files.names) < before / 2
    assert 0 < moves < before
    assert set(files.errors) == {None}
    for extent in kept:
        assert files.numbers_of(extent) == list(range(extent.base, extent.end))
    for extent in kept:
        files.files.free(extent)
    files.disk.settle()
    assert (files.names, files.disk.open_files) == ([], 0)


def test_the_emptiest_file_is_emptied_first() -> None:
    files = Files()
    extents = files.some(200)
    by_file: dict[object, list[Extent]] = {}
    for extent in extents:
        by_file.setdefault(extent.file, []).append(extent)
    *older, _ = by_file.values()
    for at, of_file in enumerate(older):
        for extent in of_file[: -1 if at == 2 else -3]:
            files.files.free(extent)
    emptiest = older[2][-1]
    before = {extent: extent.file for extent in extents}
    files.files.move(files.errors.append)
    files.disk.settle()
    moved = [extent for extent in extents if extent.file is not before[extent]]
    assert moved == [emptiest]


def test_a_single_file_that_is_mostly_of_no_use_is_emptied_into_a_new_one() -> None:
    files = Files()
    large, small = extent_of(0, size=10 * FILE), extent_of(1, base=1)
    files.write(large, small)
    files.files.free(large)
    assert files.files.is_wasteful
    files.files.move(files.errors.append)
    files.disk.settle()
    assert files.sizes() == files.files.bytes == small.size
    assert files.numbers_of(small) == [1]


def wasteful() -> tuple[Files, Extent]:
    """Files mostly of no use, and an extent that will be moved next."""
    files = Files()
    extents = files.some(200)
    for at, extent in enumerate(extents):
        if at % 20:
            files.files.free(extent)
    files.disk.settle()
    assert files.files.is_wasteful
    shares = {extent: extent.file.live / extent.file.end for extent in extents if extent.file}
    return files, min(shares, key=lambda extent: shares[extent])


def test_an_extent_that_is_read_while_it_is_moved_is_read_where_it_is_then() -> None:
    files, extent = wasteful()
    before = extent.file
    read: list[Content | Exception] = []
    files.files.move(files.errors.append)
    files.disk._queue.append(lambda: None)
    jobs = files.disk._queue
    files.files.read(extent, read.append)
    # The read comes to its turn when the file that it was asked of is gone.
    move, pause, look = jobs
    jobs[:] = [move, pause]
    files.disk.settle()
    assert extent.file is not before
    jobs.append(look)
    files.disk.settle()
    assert isinstance(read[0], Content)


def test_an_extent_that_is_settled_while_it_is_moved_leaves_nothing() -> None:
    files, extent = wasteful()
    files.files.move(files.errors.append)
    extent.settle(range(extent.base, extent.end))
    files.files.free(extent)
    files.disk.settle()
    assert files.files.bytes == files.sizes()
    assert extent.file is None


def test_a_move_that_fails_leaves_all_where_it_was() -> None:
    files, extent = wasteful()
    before = extent.file, extent.at
    files.disk.fail_writes()
    files.files.move(files.errors.append)
    files.disk.settle()
    assert isinstance(files.errors[-1], OSError)
    files.disk.heal()
    assert (extent.file, extent.at) == before
    assert files.numbers_of(extent) == list(range(extent.base, extent.end))


# Faults


def test_what_a_failed_write_left_is_cut_off_and_the_next_one_is_whole() -> None:
    files = Files()
    (first,) = files.some(1)
    size = files.sizes()
    files.disk.fail_writes(partial=50, sticky=False)
    extent = extent_of(5, 6)
    error = files.write(extent)
    assert error is not None
    assert error.errno == errno.ENOSPC
    assert (extent.file, extent.is_at_hand, files.sizes()) == (None, True, size)
    assert files.write(extent) is None
    assert (files.numbers_of(extent), files.numbers_of(first)) == ([5, 6], [0, 1, 2, 3])


def test_a_first_write_that_fails_leaves_no_file() -> None:
    files = Files()
    files.disk.fail_writes(partial=50)
    files.write(extent_of(5, 6))
    files.disk.settle()
    assert (files.names, len(files.files), files.disk.open_files) == ([], 0, 0)


def test_a_file_that_cannot_be_made_is_an_error_of_the_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = Files()
    files.disk.remove_tree(DATA)
    assert isinstance(files.write(extent_of(1)), FileNotFoundError)
    files.disk.settle()
    assert caplog.records == []


def test_a_file_that_is_gone_is_an_error_of_the_read() -> None:
    files = Files()
    (extent,) = files.some(1)
    files.disk.remove(f"{DATA}/{files.names[0]}")
    assert isinstance(files.read(extent), FileNotFoundError)
    assert files.disk.open_files == 0


def test_a_file_that_cannot_be_removed_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files()
    (extent,) = files.some(1)

    def refuse(path: str) -> None:
        raise OSError(errno.EROFS, "read-only", path)

    monkeypatch.setattr(files.disk, "remove", refuse)
    files.files.free(extent)
    files.disk.settle()
    (told,) = caplog.records
    assert told.levelno == logging.WARNING
    assert "00000000 is no longer needed and could not be deleted" in told.getMessage()
