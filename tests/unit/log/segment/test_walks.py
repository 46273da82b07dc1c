"""Walks over a segment's batches: what each of them takes, and the first byte it refuses."""

from collections.abc import Callable

import pytest
from crc32c import crc32c

from headrace.log.segment import check_segment, scan
from headrace.log.segment.check_segment import GAPS_ANYWHERE, NO_INDEX, sound_batch_behind, sweep
from headrace.log.segment.scan import BadBatch, NotCached, batches, headers
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_summary import Swept
from headrace.model.nouns import Offset
from headrace.testing.disk import SimDisk
from tests.support.log.log import batch_of

BASE = 100


def batch(offset: int, count: int = 1, *, timestamp: int = 0, epoch: int = 0) -> bytes:
    made = batch_of(*[b"x"] * count, timestamp=timestamp)
    made[:8] = offset.to_bytes(8, "big")
    made[12:16] = epoch.to_bytes(4, "big")
    return bytes(made)


def changed(data: bytes, at: int, new: bytes, *, seal: bool = False) -> bytes:
    made = bytearray(data)
    made[at : at + len(new)] = new
    if seal:
        made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    return bytes(made)


SIZE = len(batch(0))
AFTER_THREE = len(batch(0, 3)) + 1
THREE = batch(100) + batch(101, timestamp=9) + batch(102, timestamp=5)


def walked(data: bytes, expected: int = BASE, limit: int = 1 << 40) -> list[list[int]]:
    """Base offsets that the three walks come to, and what stopped each: its position."""

    def fetch(position: int, size: int) -> bytes:
        return data[position : position + size]

    found: list[list[int]] = []
    walks = [
        ((at, header) for at, header in headers(fetch, 0, len(data), "p", expected, limit)),
        ((one.position, one.header) for one in batches(fetch, 0, len(data), "p", expected)),
    ]
    for walk in walks:
        offsets: list[int] = []
        try:
            for position, header in walk:
                assert data[position : position + 8] == header.base_offset.to_bytes(8, "big")
                offsets.append(header.base_offset)
        except BadBatch as bad:
            offsets.append(-bad.position - 1)
        found.append(offsets)
    swept = swept_of(data, expected, limit)
    offsets = [] if swept.bad is None else [-swept.bad.position - 1]
    found.append([swept.end, *offsets])
    return found


def swept_of(
    data: bytes,
    expected: int = BASE,
    limit: int = 1 << 40,
    every: int = NO_INDEX,
    gaps_below: int = GAPS_ANYWHERE,
) -> Swept:
    disk = SimDisk(lambda: 0)
    disk.make_directory("/d")
    segment = Segment(disk, "/d", Offset(BASE), index_bytes_max=1 << 20)
    segment.create(fresh=True)
    segment.file.write_at(0, [data])
    segment.size = len(data)
    return sweep(segment, Offset(expected), limit, every, gaps_below=gaps_below)


@pytest.mark.parametrize(
    ("data", "plain", "checked", "end"),
    [
        (b"", [], [], 100),
        (THREE, [100, 101, 102], [100, 101, 102], 103),
        (THREE[:-1], [100, 101, -2 * SIZE - 1], [100, 101, -2 * SIZE - 1], 102),
        (THREE + b"\0", [100, 101, 102, -3 * SIZE - 1], [100, 101, 102, -3 * SIZE - 1], 103),
        (THREE + bytes(61), [100, 101, 102, -3 * SIZE - 1], [100, 101, 102, -3 * SIZE - 1], 103),
        (batch(99), [-1], [-1], 100),
        (batch(101), [101], [101], 102),
        (batch(100, 3) + batch(103), [100, 103], [100, 103], 104),
        (
            batch(100, 3) + batch(102),
            [100, -len(batch(0, 3)) - 1],
            [100, -len(batch(0, 3)) - 1],
            103,
        ),
        (changed(batch(100), 16, b"\1"), [-1], [-1], 100),
        (changed(batch(100), 16, b"\3"), [-1], [-1], 100),
        (changed(batch(100), SIZE - 1, b"\7"), [100], [-1], 100),
        (changed(batch(100), 17, b"\0\0\0\0"), [100], [-1], 100),
        (changed(batch(100), 8, (49).to_bytes(4, "big"))[:61], [100], [-1], 100),
        (changed(batch(100), 8, (48).to_bytes(4, "big"))[:60], [-1], [-1], 100),
        (changed(batch(100), 23, b"\xff\xff\xff\xff", seal=True), [-1], [-1], 100),
        (changed(batch(100), 23, b"\0\0\0\0", seal=True), [100], [100], 101),
    ],
)
def test_every_walk_stops_at_the_same_place(
    data: bytes, plain: list[int], checked: list[int], end: int
) -> None:
    found = walked(data)
    assert found[:2] == [plain, checked]
    assert found[2] == [end, *[one for one in checked if one < 0]]


def test_a_batch_without_records_is_the_least_there_can_be() -> None:
    empty = changed(batch(100)[:61], 8, (49).to_bytes(4, "big"), seal=True)
    assert walked(empty) == [[100], [100], [101]]


def test_offsets_end_below_the_limit() -> None:
    assert walked(THREE, limit=103)[::2] == [[100, 101, 102], [103]]
    assert walked(THREE, limit=102)[::2] == [[100, 101, -2 * SIZE - 1], [102, -2 * SIZE - 1]]


def test_a_gap_is_believed_unless_the_batch_behind_it_is_not_behind_it() -> None:
    data = batch(100) + batch(200)
    assert walked(data + batch(201))[0] == [100, 200, 201]
    assert walked(data + batch(200))[0] == [100, -SIZE - 1]
    assert walked(data + batch(102))[0] == [100, -SIZE - 1]
    assert walked(data + changed(batch(102), 16, b"\1"))[0][:2] == [100, 200]
    assert walked(data + batch(102)[:60])[0][:2] == [100, 200], "no whole header"
    assert walked(data + batch(102)[:61])[0] == [100, -SIZE - 1]
    assert walked(batch(200) + batch(102), expected=0)[0][:2] == [200, -SIZE - 1]


def test_a_gap_beyond_what_was_compacted_is_damage() -> None:
    data = batch(100) + batch(105)
    assert swept_of(data, gaps_below=105).bad is None
    bad = swept_of(data, gaps_below=104).bad
    assert bad is not None
    assert (bad.position, bad.reason) == (
        SIZE, "offset 105 after 100: a gap not left by compaction",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (changed(batch(100), 16, b"\1"), "magic 1, not 2"),
        (changed(batch(100), 8, (48).to_bytes(4, "big")), "batch length 48 is too small"),
        (batch(99), "offset 99 (+0), expected 100 or more"),
        (changed(batch(100), SIZE - 1, b"\7"), "the checksum does not match"),
        (batch(100)[:-2], f"the file ends {SIZE - 2} bytes into the batch"),
        (batch(1 << 40), f"offset {1 << 40} (+0), but the segment ends at {BASE + (1 << 31)}"),
    ],
)
def test_why_a_batch_is_refused_is_said(data: bytes, reason: str) -> None:
    bad = swept_of(data).bad
    assert bad is not None
    assert (bad.reason, bad.cut_off) == (reason, "the file ends" in reason)
    assert str(bad).endswith(f" at byte 0: {reason}")


@pytest.mark.parametrize("pieces", [SIZE - 1, SIZE, 2 * SIZE, 2 * SIZE + 60, 2 * SIZE + 61])
def test_pieces_that_end_within_a_batch_change_nothing(
    monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    monkeypatch.setattr(scan, "_WINDOW_BYTES", max(pieces, 61))
    monkeypatch.setattr(scan, "_CHUNK_BYTES", max(pieces, 61))
    monkeypatch.setattr(check_segment, "CHUNK_BYTES", max(pieces, 61))
    data = THREE + batch(103, 20) + batch(123)
    assert walked(data) == [[100, 101, 102, 103, 123]] * 2 + [[124]]


def test_what_a_sweep_finds_is_what_the_batches_say() -> None:
    data = batch(100, epoch=3) + batch(101, timestamp=9, epoch=2) + batch(102, 2, timestamp=9)
    data += batch(104, timestamp=12, epoch=4)
    found = swept_of(data, every=2 * SIZE - 1)
    assert (found.end, found.position, found.first_timestamp) == (105, len(data), 0)
    assert (found.max_timestamp, found.max_timestamp_offset) == (12, 104)
    assert found.epochs == [(3, 100), (4, 104)]
    assert (list(found.offsets), list(found.positions)) == ([3], [2 * SIZE])
    assert (list(found.times), list(found.time_offsets)) == ([9], [1])
    assert found.bytes_since_index == len(data) - 2 * SIZE
    assert list(swept_of(data, every=2 * SIZE).offsets) == [4]


def behind(data: bytes, position: int = 0, expected: int = BASE) -> int | None:
    return sound_batch_behind(
        lambda at, size: data[at : at + size], len(data), position, Offset(BASE), Offset(expected)
    )


def test_a_sound_batch_is_found_at_any_byte_behind_what_is_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for window in (1 << 20, 61, 62, 100):
        monkeypatch.setattr(check_segment, "_SEARCHED_BYTES", window)
        for ahead in (0, 1, 60, 61, 62, 130):
            for filler in (b"\0", b"\2", b"\xff"):
                assert behind(filler * ahead + batch(100)) == ahead, (window, ahead, filler)
        assert behind(batch(100) + batch(101), 1) == SIZE
        assert behind(batch(100) + batch(101), 0, 101) == SIZE
        assert behind(b"\2" * 60) is None


@pytest.mark.parametrize(
    "broken",
    [
        lambda: batch(99),
        lambda: batch(BASE + (1 << 31)),
        lambda: batch(100)[:-1],
        lambda: changed(batch(100), 30, b"\5"),
        lambda: changed(batch(100), 23, b"\xff\xff\xff\xff", seal=True),
    ],
)
def test_what_only_looks_like_a_batch_is_none(broken: Callable[[], bytes]) -> None:
    assert behind(broken()) is None
    assert behind(batch(BASE + (1 << 31) - 1)) == 0


def test_what_is_not_in_the_page_cache_is_asked_for_no_further() -> None:
    with pytest.raises(NotCached):
        list(headers(lambda _at, _size: None, 0, 100, "p"))
    with pytest.raises(NotCached):
        list(batches(lambda _at, _size: None, 0, 100, "p"))
