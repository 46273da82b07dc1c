"""When a segment is full, when an entry is due, and where among segments an offset lies."""

import pytest

from headrace.config.log_config import LogConfig
from headrace.log.segment.scan import NotCached
from headrace.log.segment.segment import Segment
from headrace.log.segment.segments import Segments
from headrace.model.nouns import Offset
from headrace.testing.clock import SimRandom
from headrace.testing.disk import SimDisk
from tests.support.log.log import batch_of

BASE = Offset(1000)


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(lambda: 0)
    disk.make_directory("/d")
    return disk


def segment_of(disk: SimDisk, base: Offset = BASE, *, index_bytes: int = 1 << 20) -> Segment:
    segment = Segment(disk, "/d", base, index_bytes_max=index_bytes, jitter_ms=0)
    segment.create(fresh=True)
    return segment


def batch_at(offset: int, timestamp: int) -> bytearray:
    made = batch_of(b"x", timestamp=timestamp)
    made[:8] = offset.to_bytes(8, "big")
    return made


def filled(segment: Segment, count: int, every: int, *, run: bool = False) -> int:
    """Append batches with a timestamp each; returns the size of one."""
    batches = [batch_at(segment.base_offset + at, 5000 + at) for at in range(count)]
    size = len(batches[0])
    if run:
        segment.append([batches[0]], size, segment.base_offset, 5000, every)
        rest = batches[1:]
        lasts = [segment.base_offset + 1 + at for at in range(len(rest))]
        times = [5001 + at for at in range(len(rest))]
        segment.append_run(rest, size * len(rest), lasts, times, every)
    else:
        for at, batch in enumerate(batches):
            segment.append([batch], size, segment.base_offset + at, 5000 + at, every)
    return size


@pytest.mark.parametrize("run", [False, True])
def test_an_entry_is_due_once_more_bytes_than_the_interval_went_without_one(
    disk: SimDisk, run: bool
) -> None:
    size = len(batch_at(0, 0))
    for every, entries in ((2 * size - 1, [2, 4, 6]), (2 * size, [3, 6]), (0, [1, 2, 3, 4, 5, 6])):
        segment = segment_of(disk, Offset(1000 + every))
        assert filled(segment, 7, every, run=run) == size
        base = segment.base_offset
        assert segment.index.entries() == [(base + at, at * size) for at in entries]
        assert segment.time_index.entries() == [(5000 + at, base + at) for at in entries]
        assert (segment.size, segment.first_timestamp) == (7 * size, 5000)
        assert segment.bytes_since_index == (7 - entries[-1]) * size
        assert segment.max_timestamp == (5006, base + 6)


def test_a_time_that_does_not_grow_makes_no_time_entry(disk: SimDisk) -> None:
    segment = segment_of(disk)
    for at, timestamp in enumerate([10, 30, 20, 30, 40]):
        batch = batch_at(1000 + at, timestamp)
        segment.append([batch], len(batch), 1000 + at, timestamp, 0)
    assert segment.time_index.entries() == [(30, 1001), (40, 1004)]
    assert [offset for offset, _ in segment.index.entries()] == [1001, 1002, 1003, 1004]
    assert segment.max_timestamp == (40, 1004)


def test_a_segment_is_rolled_when_a_batch_would_not_fit_and_no_sooner(disk: SimDisk) -> None:
    segment = segment_of(disk)
    most = 1 << 40

    def rolls(
        size: int = 1, last: int = 1001, time: int = 0, bytes_max: int = most, ms: int = most
    ) -> bool:
        return segment.should_roll(size, last, time, bytes_max, ms)

    assert not rolls(size=100, bytes_max=100)
    assert not rolls(time=1 << 50, ms=0), "an empty one has no first time"
    one = filled(segment, 2, 1 << 20)
    assert not rolls(size=100, bytes_max=2 * one + 100)
    assert rolls(size=100, bytes_max=2 * one + 99)
    assert not rolls(last=1000 + (1 << 31) - 1)
    assert rolls(last=1000 + (1 << 31))
    assert not rolls(time=5000 + 77, ms=77)
    assert rolls(time=5000 + 78, ms=77)
    segment.jitter_ms = 7
    assert not rolls(time=5000 + 70, ms=77)
    assert rolls(time=5000 + 71, ms=77)
    segment.first_timestamp = -1
    assert not rolls(time=most, ms=77)


@pytest.mark.parametrize(("index_bytes", "batches"), [(48, 4), (72, 6), (24, 2)])
def test_a_segment_whose_index_is_full_is_rolled_and_tells_its_room_before(
    disk: SimDisk, index_bytes: int, batches: int
) -> None:
    segment = segment_of(disk, index_bytes=index_bytes)
    assert not segment.room_for(0), "its first batch is what its time is measured from"
    filled(segment, batches // 2 + 1, 0)
    # A time index has fewer and keeps one entry free: with 12 bytes each it is full first.
    room = index_bytes // 12 - 1 - batches // 2
    assert segment.room_for(room)
    assert not segment.room_for(room + 1)
    assert segment.should_roll(1, 1100, 0, 1 << 40, 1 << 40) is (room <= 0)


def test_files_of_a_segment_are_renamed_together_and_read_on(disk: SimDisk) -> None:
    segment = segment_of(disk)
    size = filled(segment, 4, 0)
    assert segment.is_open
    assert list(segment.written_files) == [segment.file]
    for file in segment.seal():
        file.sync()
    segment.rename_away(".deleted")
    assert disk.list("/d") == [
        "00000000000000001000.index.deleted",
        "00000000000000001000.log.deleted",
        "00000000000000001000.timeindex.deleted",
    ]
    assert segment.file.size() == 4 * size
    segment.close()
    assert (segment.is_open, list(segment.written_files), disk.open_files) == (False, [], 0)
    segment.load_size()
    assert (segment.size, segment.is_open, disk.open_files) == (4 * size, False, 0)
    found = segment.find(Offset(1002), segment.file.read)
    assert found is not None
    assert found[0] == 2 * size
    assert segment.index.entries()[-1] == (1003, 3 * size)


def segments_of(disk: SimDisk, *bases: int) -> Segments:
    segments = Segments(disk, SimRandom(), "/d")
    for base in bases:
        segments.add(segment_of(disk, Offset(base)))
    return segments


def test_an_offset_is_among_those_of_the_last_segment_that_begins_at_or_before_it(
    disk: SimDisk,
) -> None:
    segments = segments_of(disk, 10, 20, 40)
    assert [segments.number_of(Offset(at)) for at in (0, 10, 19, 20, 39, 40, 99)] == [
        0, 0, 0, 1, 1, 2, 2,
    ]  # fmt: skip
    limits = [segments.limit_of(segment, Offset(77)) for segment in segments]
    assert limits == [20, 40, 77]
    assert (segments.first_base, segments.active.base_offset, len(segments)) == (10, 40, 3)
    (gone,) = segments.drop_oldest(1)
    assert (gone.base_offset, segments.first_base, len(segments)) == (10, 20, 2)
    assert segments.limit_of(gone, Offset(77)) == 20


def test_a_batch_is_found_in_its_segment_or_at_the_beginning_of_the_next(disk: SimDisk) -> None:
    segments = segments_of(disk, 10, 20, 40)
    size = filled(segments[0], 3, 0)
    filled(segments[2], 2, 0)
    for offset, base, position in (
        (0, 10, 0), (10, 10, 0), (12, 10, 2 * size), (13, 40, 0), (25, 40, 0), (41, 40, size),
    ):  # fmt: skip
        found = segments.find(Offset(offset), cached=False)
        assert found is not None
        assert (found[0].base_offset, found[1]) == (base, position)
    assert segments.find(Offset(42), cached=False) is None
    segments[0].close()
    again = Segment(disk, "/d", Offset(10), index_bytes_max=1 << 20, jitter_ms=0)
    again.size = 3 * size
    segments.replace([again, segments[1], segments[2]])
    with pytest.raises(NotCached):
        segments.find(Offset(10), cached=True)
    assert segments.find(Offset(41), cached=True) is not None


def test_where_readers_end_is_kept_for_few_and_until_segments_change(disk: SimDisk) -> None:
    segments = segments_of(disk, 10, 20)
    size = filled(segments[0], 2, 0)
    filled(segments[1], 2, 0)
    segments.remember_end(Offset(11), segments[0], size)
    segments.remember_end(Offset(12), segments[0], 2 * size)
    segments.remember_end(Offset(22), segments[1], 2 * size)
    assert segments.ends == {11: (segments[0], size), 22: (segments[1], 2 * size)}, (
        "behind a segment's end the next one goes on"
    )
    for offset in range(100, 162):
        segments.remember_end(Offset(offset), segments[1], 0)
    assert len(segments.ends) == 64
    segments.remember_end(Offset(200), segments[1], 0)
    assert list(segments.ends) == [200]
    segments.forget_ends()
    assert segments.ends == {}
    segments.remember_end(Offset(200), segments[1], 0)
    segments.add(segment_of(disk, Offset(30)))
    assert segments.ends == {}


def test_a_segments_jitter_is_no_longer_than_its_time(disk: SimDisk) -> None:
    class Highest(SimRandom):
        def uniform(self, low: float, high: float) -> float:
            return high

    segments = Segments(disk, Highest(), "/d")
    for jitter_ms, segment_ms, wanted in ((0, 100, 0), (1, 100, 1), (30, 100, 30), (300, 100, 100)):
        config = LogConfig(segment_jitter_ms=jitter_ms, segment_ms=segment_ms)
        assert segments.make(Offset(0), config).jitter_ms == wanted
