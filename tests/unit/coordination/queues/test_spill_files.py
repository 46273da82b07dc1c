"""The files of what is spilled: how many there are, what goes when, and what a fault leaves."""

import errno
import logging
from array import array
from collections.abc import Sequence
from math import inf

import pytest

from headrace.coordination.queues.messages.extent import (
    Content,
    DamagedExtent,
    Extent,
    decode,
    encode,
)
from headrace.coordination.queues.messages.message_run import size_of
from headrace.coordination.queues.messages.spill_files import SLACK_FILES, SpillFiles
from headrace.testing.disk import SimDisk
from headrace.wire.amqp.content import Message
from tests.support.amqp_spill import DATA, message_of, number_of

FILE = 10_000


class Told:
    """The owner of extents, who notes what became of them."""

    def __init__(self) -> None:
        self.at_hand: list[Extent] = []
        self.on_disk: list[Extent] = []
        self.problems: list[Exception] = []

    def loaded(self, extent: Extent) -> None:
        self.at_hand.append(extent)

    def written(self, extent: Extent) -> None:
        self.on_disk.append(extent)

    def release(self, extent: Extent) -> None:
        extent.release()

    def failed(self, error: Exception) -> None:
        self.problems.append(error)


def extent_of(
    *numbers: int, base: int = 0, size: int = 100, expiries: Sequence[float] | None = None
) -> Extent:
    """An extent of messages with these numbers."""
    slots: list[Message | None] = [message_of(number, size) for number in numbers]
    full = sum(size_of(each) for each in slots if each is not None)
    times = None if expiries is None else array("d", expiries)
    return Extent(Told(), (base, slots, full), times)


class Files:
    """Files on a simulated disk."""

    def __init__(self, file_bytes: int = FILE) -> None:
        self.disk = SimDisk()
        self.disk.make_directory(DATA)
        self.files = SpillFiles(self.disk, DATA, file_bytes)
        self.errors: list[OSError | None] = []
        self.numbers = 0

    def write(self, *extents: Extent) -> OSError | None:
        """Write extents, and wait for it."""
        self.files.write(extents, self.errors.append)
        self.disk.settle()
        for extent in extents:
            if extent.file is not None:
                extent.release()
        return self.errors[-1]

    def some(self, count: int, *, messages: int = 4) -> list[Extent]:
        """Write so many extents, each by itself."""
        written = []
        for _ in range(count):
            first = self.numbers
            self.numbers += messages
            extent = extent_of(*range(first, self.numbers), base=first)
            self.write(extent)
            written.append(extent)
        return written

    def read(self, extent: Extent) -> Content | Exception:
        """Read an extent, and wait for it."""
        read: list[Content | Exception] = []
        self.files.read(extent, read.append)
        self.disk.settle()
        return read[0]

    def numbers_of(self, extent: Extent) -> list[int]:
        content = self.read(extent)
        assert isinstance(content, Content), content
        return [number_of(message) for message in content.messages]

    @property
    def names(self) -> list[str]:
        return self.disk.list(DATA)

    def sizes(self) -> int:
        """What the files take, as the disk has it."""
        nodes = [self.disk.nodes[self.disk._node(f"{DATA}/{name}")] for name in self.names]
        return sum(len(node.content) for node in nodes)


# What an extent is on disk


def test_messages_come_back_as_they_were_with_the_times_at_which_they_expire() -> None:
    extent = extent_of(1, 2, 3, expiries=[5.25, inf, 7.125])
    content = decode(encode(extent.content()), 3)
    assert content.expiries == array("d", [5.25, inf, 7.125])
    for before, after in zip(extent.content().messages, content.messages, strict=True):
        assert all(getattr(before, name) == getattr(after, name) for name in Message.__slots__)
    assert decode(encode(extent_of(1).content()), 1).expiries is None


@pytest.mark.parametrize("position", [0, 10, 16, 17, 60, 61, 200, -1])
def test_a_changed_byte_is_damage_and_not_another_message(position: int) -> None:
    data = bytearray(encode(extent_of(1, 2, 3).content()))
    data[position] ^= 1
    content: Content | None = None
    try:
        content = decode(bytes(data), 3)
    except DamagedExtent:
        return
    # The base offset is not under the checksum, and nobody looks at it.
    assert position < 8
    assert [number_of(message) for message in content.messages] == [1, 2, 3]


@pytest.mark.parametrize("size", [0, 1, 60, 61, 300])
def test_a_part_is_damage(size: int) -> None:
    data = encode(extent_of(1, 2, 3, expiries=[1, 2, 3]).content())
    for part in (data[:size], data[:-8], data + bytes(8)):
        with pytest.raises(DamagedExtent):
            decode(part, 3)


def test_another_extent_in_its_place_is_damage() -> None:
    with pytest.raises(DamagedExtent, match="2 messages, 3 were written"):
        decode(encode(extent_of(1, 2).content()), 3)


def test_what_was_settled_before_the_write_keeps_the_places_of_the_others() -> None:
    extent = extent_of(7, 8, 9, base=7)
    extent.settle([8])
    files = Files()
    files.write(extent)
    content = files.read(extent)
    assert isinstance(content, Content)
    extent.take(content)
    positions, messages = extent.read(7, 9)
    assert (list(positions), [number_of(each) for each in messages]) == ([7, 9], [7, 9])


# What of it is settled


def test_the_lowest_that_is_left_is_found_around_what_is_settled() -> None:
    extent = extent_of(0, 1, 2, 3, base=10)
    assert [extent.lowest(position) for position in (0, 10, 13)] == [10, 10, 13]
    extent.settle([10, 12])
    assert [extent.lowest(position) for position in (0, 11, 12, 13)] == [11, 11, 13, 13]
    extent.settle([13])
    assert extent.lowest(12) is None
    assert extent.left == 1


def test_an_extent_in_memory_frees_each_message_and_one_on_disk_all_at_the_end() -> None:
    waiting, written = extent_of(0, 1, 2), extent_of(0, 1, 2)
    one = waiting.full // 3
    assert [waiting.settle([1]), waiting.settle([1]), waiting.settle([0, 2])] == [one, 0, 2 * one]
    files = Files()
    files.files.write([written], files.errors.append)
    files.disk.settle()
    assert [written.settle([1]), written.settle([0]), written.settle([2])] == [0, 0, 3 * one]
    assert (waiting.held, written.held, written.is_at_hand) == (0, 0, False)


def test_an_extent_is_settled_as_a_whole() -> None:
    extent = extent_of(0, 1, 2, base=5)
    extent.settle([6])
    assert extent.settle(range(5, 8)) == 2 * extent.full // 3
    assert (extent.left, extent.held) == (0, 0)


# Files


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
    assert "00000000 is not needed any more and cannot be removed" in told.getMessage()
