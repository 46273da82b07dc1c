"""`log dump` of indexes: every entry up to the preallocated rest, and what is no index."""

import struct
from collections.abc import Callable, Iterator

import pytest

from headrace.log.segment.transaction_index import ENTRY
from headrace.logtools.dump import KafkaDump, KafkaOptions, segment_files
from headrace.logtools.dump.row import ReadAt, Row
from headrace.model.errors import CorruptLogError
from headrace.testing.disk import SimDisk
from tests.support.log.log import batch_of

PATH = "/d/00000000000000000100"
Dump = Callable[[str, int, ReadAt], Iterator[Row]]


def rows(dump: Dump, suffix: str, content: bytes) -> list[Row]:
    return list(dump(PATH + suffix, len(content), lambda at, size: content[at : at + size]))


def pairs(code: str, *numbers: int) -> bytes:
    return b"".join(
        struct.pack(code, *pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)
    )


@pytest.mark.parametrize("chunk", [1, 2, 4096])
def test_an_index_is_shown_with_whole_offsets(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(segment_files, "_CHUNK_ENTRIES", chunk)
    content = pairs(">ii", 0, 50, 3, 99, 4, 200)
    wanted: list[Row] = [
        {"offset": 100, "position": 50}, {"offset": 103, "position": 99},
        {"offset": 104, "position": 200},
    ]  # fmt: skip
    for rest in (b"", bytes(8), bytes(80)):
        assert rows(segment_files.dump_index, ".index", content + rest) == wanted
    assert rows(segment_files.dump_index, ".index", b"") == []
    assert rows(segment_files.dump_index, ".index", bytes(16)) == []
    times = pairs(">qi", 5, 0, 6, 0, 1 << 40, 7)
    assert rows(segment_files.dump_time_index, ".timeindex", times + bytes(24)) == [
        {"timestamp": 5, "offset": 100}, {"timestamp": 6, "offset": 100},
        {"timestamp": 1 << 40, "offset": 107},
    ]  # fmt: skip
    assert rows(segment_files.dump_time_index, ".timeindex", bytes(24)) == []
    assert rows(segment_files.dump_time_index, ".timeindex", pairs(">qi", 0, 1)) == [
        {"timestamp": 0, "offset": 101}
    ]


@pytest.mark.parametrize(
    ("dump", "content", "reason"),
    [
        (segment_files.dump_index, pairs(">ii", 3, 1, 3, 2), "byte 8: offsets do not grow"),
        (segment_files.dump_index, pairs(">ii", 3, 1, 2, 2), "byte 8: offsets do not grow"),
        (segment_files.dump_index, pairs(">ii", -1, 1), "byte 0: offsets do not grow"),
        (segment_files.dump_index, pairs(">ii", 1, 1) + b"abc", "3 bytes after the last whole"),
        (segment_files.dump_time_index, pairs(">qi", 5, 0, 5, 1), "byte 12: timestamps do not"),
        (segment_files.dump_time_index, pairs(">qi", -1, 1), "byte 0: timestamps do not grow"),
        (segment_files.dump_time_index, pairs(">qi", 5, 1) + b"x", "1 bytes after the last whole"),
    ],
)
def test_what_does_not_grow_or_ends_within_an_entry_is_said_with_its_place(
    dump: Dump, content: bytes, reason: str
) -> None:
    with pytest.raises(CorruptLogError, match=reason):
        rows(dump, ".x", content)


def test_aborted_transactions_are_shown_with_their_version() -> None:
    content = ENTRY.pack(0, 7, 1, 2, 3)
    assert rows(segment_files.dump_txn_index, ".txnindex", content) == [
        {
            "version": 0, "producer_id": 7, "first_offset": 1, "last_offset": 2,
            "last_stable_offset": 3,
        }
    ]  # fmt: skip


def test_a_file_of_another_name_begins_at_0() -> None:
    assert segment_files.base_of("/d/00000000000000000100.index") == 100
    assert segment_files.base_of("00000000000000000100.index") == 100
    assert segment_files.base_of("/00000000000000000100/checkpoint") == 0


# --- as Kafka prints it ----------------------------------------------------------------------


@pytest.fixture
def disk() -> SimDisk:
    """Three batches of one record, offsets 100 to 102, times 10, 30 and 20."""
    disk = SimDisk(lambda: 0)
    disk.make_directory("/d")
    data = b""
    for offset, timestamp in ((100, 10), (101, 30), (102, 20)):
        made = batch_of(b"x", timestamp=timestamp)
        made[:8] = offset.to_bytes(8, "big")
        data += bytes(made)
    disk.replace(PATH + ".log", data)
    return disk


SIZE = len(batch_of(b"x"))


def printed(
    disk: SimDisk, suffix: str, content: bytes, **options: bool
) -> tuple[list[str], list[str]]:
    """Lines, and remarks at the end."""
    disk.replace(PATH + suffix, content)
    dump = KafkaDump(disk, KafkaOptions(**options))  # type: ignore[arg-type]
    lines = list(dump.lines(PATH + suffix, "shown"))
    assert disk.open_files == 0
    return lines[1:], list(dump.remarks())


def test_an_index_is_held_against_the_log(disk: SimDisk) -> None:
    right = pairs(">ii", 1, SIZE, 2, 2 * SIZE)
    lines = [f"offset: 101 position: {SIZE}", f"offset: 102 position: {2 * SIZE}"]
    assert printed(disk, ".index", right + bytes(16)) == (lines, [])
    assert printed(disk, ".index", right, verify_index_only=True) == ([], [])
    assert printed(disk, ".index", b"") == (["shown is empty."], [])
    assert printed(disk, ".index", b"\1" * 7) == (["shown is empty."], [])
    wrong = pairs(">ii", 0, SIZE, 2, 2 * SIZE)
    lines, remarks = printed(disk, ".index", wrong)
    assert lines[0] == f"offset: 100 position: {SIZE}"
    assert remarks == [
        f"Mismatches in :{PATH}.index", "  Index offset: 100, log offset: 101",
    ]  # fmt: skip
    with pytest.raises(CorruptLogError, match=f"no batch at byte {3 * SIZE} of the log"):
        printed(disk, ".index", pairs(">ii", 2, 3 * SIZE))


def test_a_sanity_check_asks_for_whole_entries_in_order(disk: SimDisk) -> None:
    passed: tuple[list[str], list[str]] = (["shown passed sanity check."], [])
    right = pairs(">ii", 1, SIZE)
    assert printed(disk, ".index", right, index_sanity_check=True) == passed
    with pytest.raises(CorruptLogError, match="9 bytes are no whole entries"):
        printed(disk, ".index", right + b"\0", index_sanity_check=True)
    with pytest.raises(CorruptLogError, match="its last offset lies below 100"):
        printed(disk, ".index", right + pairs(">ii", -1, SIZE), index_sanity_check=True)
    times = pairs(">qi", 10, 0, 30, 1)
    assert printed(disk, ".timeindex", times, index_sanity_check=True) == passed
    assert printed(disk, ".timeindex", b"", index_sanity_check=True) == passed
    equal = pairs(">qi", 10, 0, 10, 0)
    assert printed(disk, ".timeindex", equal, index_sanity_check=True) == passed
    with pytest.raises(CorruptLogError, match="25 bytes are no whole entries"):
        printed(disk, ".timeindex", times + b"\0", index_sanity_check=True)
    for last in (pairs(">qi", 9, 1), pairs(">qi", 30, -1)):
        with pytest.raises(CorruptLogError, match="its last entry lies before its first"):
            printed(disk, ".timeindex", times + last, index_sanity_check=True)


def test_a_time_index_is_held_against_the_records_of_its_batches(disk: SimDisk) -> None:
    disk.replace(PATH + ".index", pairs(">ii", 1, SIZE) + bytes(8))
    right = pairs(">qi", 10, 0, 30, 1)
    lines = ["timestamp: 10 offset: 100", "timestamp: 30 offset: 101"]
    assert printed(disk, ".timeindex", right + bytes(12)) == (lines, [])
    assert printed(disk, ".timeindex", right, verify_index_only=True) == ([], [])
    _, remarks = printed(disk, ".timeindex", pairs(">qi", 11, 0))
    assert any("11" in line and "10" in line for line in remarks[1:])
    _, remarks = printed(disk, ".timeindex", pairs(">qi", 10, 0, 30, 1, 20, 2))
    assert any("20" in line and "30" in line for line in remarks[1:])
    _, remarks = printed(disk, ".timeindex", pairs(">qi", 20, 3))
    assert any("103" in line and "-1" in line for line in remarks[1:])
    disk.remove(PATH + ".index")
    assert printed(disk, ".timeindex", right) == (lines, [])
