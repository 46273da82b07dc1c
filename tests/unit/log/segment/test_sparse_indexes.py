"""The sparse indexes against lists: what is found at, just before and just behind each entry."""

import struct

import pytest

from headrace.log.segment import indexes
from headrace.log.segment.indexes import OffsetIndex, TimeIndex
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset
from headrace.testing.disk import SimDisk

PATH = "/d/index"
BASE = Offset(1000)
ENTRIES = [(1000, 0), (1004, 100), (1005, 250), (1100, 300)]
TIMES = [(0, 1000), (5, 1004), (7, 1004), (90, 1100)]


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(lambda: 0)
    disk.make_directory("/d")
    return disk


def offsets(disk: SimDisk, entries: list[tuple[int, int]] = ENTRIES) -> OffsetIndex:
    index = OffsetIndex(disk, PATH, BASE, 1 << 20)
    index.reset(fresh=True)
    for offset, position in entries:
        index.append(Offset(offset), position)
    return index


def times(disk: SimDisk, entries: list[tuple[int, int]] = TIMES) -> TimeIndex:
    index = TimeIndex(disk, PATH, BASE, 1 << 20)
    index.reset(fresh=True)
    for timestamp, offset in entries:
        index.maybe_append(timestamp, Offset(offset))
    return index


def stored(disk: SimDisk) -> bytes:
    file = disk.open(PATH, writable=False)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def last_below(
    entries: list[tuple[int, int]], first: float, second: float = float("inf")
) -> tuple[int, int] | None:
    """The last entry with no greater first number, and no greater second one."""
    return next((one for one in reversed(entries) if one[0] <= first and one[1] <= second), None)


@pytest.mark.parametrize("entries", [ENTRIES, [(1003, 50)], []])
def test_every_question_is_answered_as_a_look_through_all_entries_would(
    disk: SimDisk, entries: list[tuple[int, int]]
) -> None:
    index = offsets(disk, entries)
    assert index.entries() == entries
    assert len(index) == len(entries)
    assert index.last == (entries[-1] if entries else (1000, 0))
    for offset in range(998, 1103):
        entry = last_below(entries, offset) or (1000, 0)
        assert index.entry_before(Offset(offset)) == entry
        assert index.lookup(Offset(offset)) == entry[1]
    for position in (*range(-1, 302), 1 << 30):
        entry = last_below(entries, float("inf"), position) or (1000, 0)
        assert index.position_before(position) == entry[1]
        behind = next((one for one in entries if one[1] > position), None)
        assert index.first_behind(position) == behind
        for offset in (999, 1000, 1003, 1004, 1005, 1099, 1100, 2000):
            assert index.last_within(position, offset) == last_below(entries, offset, position)


@pytest.mark.parametrize("entries", [TIMES, []])
def test_a_time_is_found_as_a_look_through_all_entries_would(
    disk: SimDisk, entries: list[tuple[int, int]]
) -> None:
    index = times(disk, entries)
    assert index.entries() == entries
    assert index.last == (entries[-1] if entries else (-1, 1000))
    for timestamp in range(-2, 93):
        wanted = last_below(entries, timestamp) or (-1, 1000)
        assert index.lookup(timestamp) == wanted


def test_only_what_is_newer_than_all_before_makes_a_time_entry(disk: SimDisk) -> None:
    index = times(disk, [(-1, 1000), (0, 1001), (0, 1002), (5, 1003), (4, 1004), (6, 1005)])
    assert index.entries() == [(0, 1001), (5, 1003), (6, 1005)]


def test_entries_from_a_place_on_are_forgotten_and_the_file_follows(disk: SimDisk) -> None:
    for position, count in ((0, 0), (1, 1), (100, 1), (101, 2), (250, 2), (251, 3), (999, 4)):
        index = offsets(disk)
        index.keep_below(position)
        assert index.entries() == ENTRIES[:count]
        index.store()
        index.trim().close()
        wanted = [struct.pack(">ii", offset - 1000, at) for offset, at in ENTRIES[:count]]
        assert stored(disk) == b"".join(wanted)
        disk.remove(PATH)
    for offset, count in ((1000, 0), (1001, 1), (1004, 1), (1005, 3), (1100, 3), (1101, 4)):
        ages = times(disk)
        ages.keep_below(Offset(offset))
        assert ages.entries() == TIMES[:count]
        ages.store()
        ages.trim().close()
        wanted = [struct.pack(">qi", time, at - 1000) for time, at in TIMES[:count]]
        assert stored(disk) == b"".join(wanted)
        disk.remove(PATH)


def test_what_was_written_is_read_again_without_the_preallocated_rest(disk: SimDisk) -> None:
    index = offsets(disk)
    index.write_out()
    assert len(stored(disk)) == 1 << 20
    index.append(Offset(1101), 400)
    assert len(index.trim().read(0, 1 << 21)) == 40
    index.close()
    again = OffsetIndex(disk, PATH, BASE, 1 << 20)
    assert not again.loaded
    assert again.peek() == (1101, 400)
    again.load()
    assert again.entries() == [*ENTRIES, (1101, 400)]
    again.append(Offset(1102), 500)
    again.trim()
    again.close()
    assert stored(disk)[40:] == struct.pack(">ii", 102, 500)
    assert again.peek() == (1102, 500)
    disk.remove(PATH)
    ages = times(disk)
    ages.write_out()
    ages.close()
    later = TimeIndex(disk, PATH, BASE, 1 << 20)
    later.load()
    assert later.entries() == TIMES
    later.maybe_append(100, Offset(1200))
    later.reset()
    assert (later.entries(), stored(disk)) == ([], b"")
    later.maybe_append(3, Offset(1003))
    later.trim()
    later.close()
    assert stored(disk) == struct.pack(">qi", 3, 3)
    assert disk.open_files == 0


def test_an_index_is_written_out_each_page_of_entries(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "_PENDING_BYTES_MAX", 24)
    index = offsets(disk, ENTRIES[:2])
    assert not disk.exists(PATH)
    index.append(Offset(1005), 250)
    assert stored(disk)[:24] == struct.pack(">6i", 0, 0, 4, 100, 5, 250)
    index.append(Offset(1100), 300)
    assert stored(disk)[24:32] == bytes(8)


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_without_a_file_there_are_no_entries_and_none_is_made(
    disk: SimDisk, kind: type[OffsetIndex] | type[TimeIndex]
) -> None:
    index = kind(disk, PATH, BASE, 1 << 20)
    if isinstance(index, OffsetIndex):
        assert index.peek() == (1000, 0)
    index.load()
    assert (index.loaded, len(index), index.entries()) == (True, 0, [])
    index.write_out()
    index.reset()
    assert not disk.exists(PATH)
    index.close()


def test_a_file_too_short_for_an_entry_has_no_last_one(disk: SimDisk) -> None:
    for size, last in ((0, (1000, 0)), (7, (1000, 0)), (8, (1003, 9)), (11, None)):
        file = disk.open(PATH, create=True)
        file.truncate(0)
        file.write_at(0, [(struct.pack(">ii", 3, 9) + b"abc")[:size]])
        file.close()
        if last is not None:
            assert OffsetIndex(disk, PATH, BASE, 100).peek() == last


def loaded(disk: SimDisk, content: bytes, index: OffsetIndex | TimeIndex) -> object:
    file = disk.open(PATH, create=True)
    file.truncate(0)
    file.write_at(0, [content])
    file.close()
    index.load()
    return index.entries()


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ([0, 0], []),
        ([0, 0, 1, 1], [(1000, 0), (1001, 1)]),
        ([2, 256], [(1002, 256)]),
        ([1, 1, 1, 2], "entries are not ascending"),
        ([1, 1, 2, 1], "entries are not ascending"),
        ([1, 5, 2, 4], "entries are not ascending"),
        ([-1, 1], "negative entry"),
        ([1, -1], "negative entry"),
    ],
)
def test_what_does_not_grow_from_zero_is_no_index(
    disk: SimDisk, numbers: list[int], wanted: object
) -> None:
    content = struct.pack(f">{len(numbers)}i", *numbers)
    index = OffsetIndex(disk, PATH, BASE, 100)
    if isinstance(wanted, str):
        with pytest.raises(CorruptLogError, match=wanted):
            loaded(disk, content, index)
    else:
        assert loaded(disk, content + bytes(16), index) == wanted


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        ([(1 << 40, 3), ((1 << 40) + 1, 3)], [(1 << 40, 1003), ((1 << 40) + 1, 1003)]),
        ([(5, 1), (5, 2)], "entries are not ascending"),
        ([(5, 2), (6, 1)], "entries are not ascending"),
        ([(5, -1)], "negative entry"),
    ],
)
def test_what_does_not_grow_is_no_time_index(
    disk: SimDisk, pairs: list[tuple[int, int]], wanted: object
) -> None:
    content = b"".join(struct.pack(">qi", *pair) for pair in pairs)
    index = TimeIndex(disk, PATH, BASE, 100)
    if isinstance(wanted, str):
        with pytest.raises(CorruptLogError, match=wanted):
            loaded(disk, content, index)
    else:
        assert loaded(disk, content, index) == wanted


def test_bytes_that_are_no_whole_entries_are_no_index(disk: SimDisk) -> None:
    content = struct.pack(">ii", 1, 1)
    with pytest.raises(CorruptLogError, match="11 bytes are not whole entries"):
        loaded(disk, content + b"\0\1\1", OffsetIndex(disk, PATH, BASE, 100))


def test_an_index_is_full_at_its_size_and_a_time_index_one_entry_earlier(disk: SimDisk) -> None:
    index = OffsetIndex(disk, PATH, BASE, 39)
    ages = TimeIndex(disk, "/d/times", BASE, 59)
    index.reset(fresh=True)
    ages.reset(fresh=True)
    seen = []
    for number in range(5):
        seen.append((index.room, index.full, ages.room, ages.full))
        index.append(Offset(1000 + number), number)
        ages.maybe_append(number, Offset(1000 + number))
    assert seen == [
        (4, False, 3, False),
        (3, False, 2, False),
        (2, False, 1, False),
        (1, False, 0, True),
        (0, True, -1, True),
    ]
    assert OffsetIndex(disk, PATH, BASE, 0).room == 1


def test_offsets_of_a_segment_fit_into_31_bits_above_its_base() -> None:
    assert indexes.offset_limit(BASE) == 1000 + (1 << 31)
