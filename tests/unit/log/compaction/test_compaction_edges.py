"""Each bound by which a log is chosen for compaction, and what its job and its result say."""

from dataclasses import astuple, replace
from typing import Any, NamedTuple, cast

import pytest

from headrace.config.keys.log import LogKeys
from headrace.config.log_config import LogConfig
from headrace.log import file_names
from headrace.log.compaction import job as jobs
from headrace.log.compaction.clean_segments import compact, keys_max
from headrace.log.compaction.cleaner_settings import CleanerSettings
from headrace.log.compaction.job import Cleaned
from headrace.log.compaction.order import job_of, prepare
from headrace.log.compaction.plan import (
    GROUP_SEGMENTS_MAX,
    NEVER_MS,
    Cleanable,
    Size,
    cleanable,
    filthiest,
    grouped,
)
from headrace.log.compaction.records import PlainRecords
from headrace.log.log import Log
from headrace.model.nouns import Offset
from headrace.record import batch as wire
from tests.support.log.compaction import (
    COMPACTED,
    batches_of,
    cleaner_of,
    compact_now,
    put,
    run_job,
)
from tests.support.log.compaction import job_of as made_job
from tests.support.log.log import NOW_MS, World, append_marker, content


class FakeSegment(NamedTuple):
    """A segment, as far as the choice asks."""

    base_offset: int
    size: int
    newest_ms: int = 0
    first_timestamp: int | None = None

    def largest_timestamp(self) -> int:
        return self.newest_ms

    def load_first_timestamp(self) -> None:
        """It is there."""


class FakeLog:
    """A log of such segments."""

    def __init__(self, *segments: FakeSegment, **changes: object) -> None:
        self.segments = segments
        self.start_offset, self.end_offset = segments[0].base_offset, 1000
        self.high_watermark = self.flushed_offset = self.stable = 1000
        self.config = replace(COMPACTED, min_cleanable_dirty_ratio=0.5)
        for name, value in changes.items():
            setattr(self, name, value)

    def last_stable_offset(self, high_watermark: int) -> int:
        return min(self.stable, high_watermark)


THREE = (FakeSegment(0, 100), FakeSegment(100, 300), FakeSegment(200, 50))


def chosen(log: FakeLog, checkpoint: int | None = None, now_ms: int = NOW_MS) -> Cleanable | None:
    known = None if checkpoint is None else Offset(checkpoint)
    return cleanable(cast("Log", log), known, now_ms)


def found(log: FakeLog, checkpoint: int | None = None, now_ms: int = NOW_MS) -> Cleanable:
    result = chosen(log, checkpoint, now_ms)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("checkpoint", "first", "clean", "dirty"),
    [
        (None, 0, 0, 400),
        (0, 0, 0, 400),
        (99, 99, 100, 400),
        (100, 100, 100, 300),
        (101, 101, 400, 300),
        (199, 199, 400, 300),
        (1000, 1000, 450, 0),
        (1001, 0, 0, 400),
    ],
)
def test_what_is_dirty_begins_with_the_segment_that_holds_the_checkpoint(
    checkpoint: int | None, first: int, clean: int, dirty: int
) -> None:
    result = found(FakeLog(*THREE), checkpoint)
    assert (result.first_dirty, result.clean_bytes, result.dirty_bytes) == (first, clean, dirty)
    assert result.upper == max(200, first)
    assert result.ratio == pytest.approx(dirty / (clean + dirty))


def test_a_log_of_one_segment_or_with_nothing_before_the_bound_is_left_alone() -> None:
    assert chosen(FakeLog(THREE[0])) is None
    assert chosen(FakeLog(*THREE, flushed_offset=99)) is None
    assert chosen(FakeLog(*THREE[:2])) is not None


@pytest.mark.parametrize("bound", ["flushed_offset", "high_watermark", "stable"])
@pytest.mark.parametrize(("at", "upper"), [(100, 100), (199, 100), (200, 200), (201, 200)])
def test_nothing_from_the_segment_on_that_holds_a_bound_is_compacted(
    bound: str, at: int, upper: int
) -> None:
    assert found(FakeLog(*THREE, **{bound: at})).upper == upper


def test_a_log_begins_at_its_start_though_the_checkpoint_lies_before() -> None:
    log = FakeLog(*THREE, start_offset=50)
    assert found(log, 49).first_dirty == 50
    assert found(log, 50).first_dirty == 50
    assert found(log, 51).first_dirty == 51


@pytest.mark.parametrize(("age_ms", "upper"), [(9, None), (10, 200)])
def test_a_segment_is_young_until_its_newest_record_has_waited_the_lag(
    age_ms: int, upper: int | None
) -> None:
    young = [segment._replace(newest_ms=NOW_MS) for segment in THREE]
    log = FakeLog(*young, config=replace(COMPACTED, min_compaction_lag_ms=10))
    result = chosen(log, now_ms=NOW_MS + age_ms)
    assert (result and result.upper) == upper
    half = FakeLog(THREE[0], *young[1:], config=log.config)
    assert found(half, now_ms=NOW_MS).upper == 100
    no_lag = FakeLog(*young, config=replace(COMPACTED, min_compaction_lag_ms=0))
    assert found(no_lag, now_ms=NOW_MS - 5).upper == 200
    one_ms = FakeLog(*young, config=replace(COMPACTED, min_compaction_lag_ms=1))
    assert chosen(one_ms, now_ms=NOW_MS) is None


@pytest.mark.parametrize(
    ("first", "lag_ms", "overdue"),
    [
        (NOW_MS - 10, 10, False),
        (NOW_MS - 11, 10, True),
        (1, 10, True),
        (0, 10, False),
        (None, 10, False),
        (NOW_MS - 11, NEVER_MS, False),
        (NOW_MS - 11, NEVER_MS - 1, False),
    ],
)
def test_a_log_is_overdue_once_its_first_record_is_older_than_the_lag(
    first: int | None, lag_ms: int, overdue: bool
) -> None:
    late = [segment._replace(first_timestamp=first) for segment in THREE]
    config = replace(COMPACTED, max_compaction_lag_ms=lag_ms, min_cleanable_dirty_ratio=1.0)
    result = found(FakeLog(*late, config=config))
    assert (result.overdue, result.due) == (overdue, overdue)
    assert not found(FakeLog(*late, config=config), 1000).due, "nothing of it is dirty"
    behind = FakeLog(THREE[0], late[1], THREE[2], config=config)
    assert found(behind).overdue is overdue


class UnreadSegment(FakeSegment):
    """One whose first batch is on the disk."""

    def load_first_timestamp(self) -> None:
        raise AssertionError("it was read")


def test_no_segment_is_read_for_its_age_where_no_age_makes_a_log_overdue() -> None:
    unread = [UnreadSegment(*segment) for segment in THREE]
    config = replace(COMPACTED, max_compaction_lag_ms=NEVER_MS)
    assert found(FakeLog(*unread, config=config)).overdue is False


def test_what_a_killed_compaction_left_is_not_in_what_the_next_one_makes() -> None:
    def outcome(*left: str) -> tuple[object, list[bytes]]:
        world = World(config=COMPACTED)
        log = world.log()
        for number in range(12):
            put(log, (b"same", b"%02d" % number * 100))
        world.flush(log)
        job = made_job(log)
        for suffix in left:
            file = world.disk.open(f"{log.directory}/{0:020d}{suffix}.cleaned", create=True)
            file.write_at(0, (b"left" * 200,))
            file.close()
        events, _ = run_job(job, world.disk)
        made = [
            content(world.disk, f"{log.directory}/{event.base_offset:020d}{suffix}.cleaned")
            for event in events
            if isinstance(event, Cleaned)
            for suffix in event.files
        ]
        return events, made

    fresh = outcome()
    for suffix in file_names.SEGMENT_SUFFIXES:
        assert outcome(suffix) == fresh, suffix
    assert outcome(*file_names.SEGMENT_SUFFIXES) == fresh


def cleaned(clean: int, dirty: int, *, overdue: bool = False, least: float = 0.5) -> Cleanable:
    log = FakeLog(*THREE, config=replace(COMPACTED, min_cleanable_dirty_ratio=least))
    return Cleanable(cast("Log", log), Offset(0), Offset(1), clean, dirty, overdue)


def test_only_more_than_the_least_share_makes_a_log_due() -> None:
    assert not cleaned(50, 50).due
    assert cleaned(49, 50).due
    assert cleaned(99, 1, overdue=True).due
    assert not cleaned(99, 0, overdue=True).due
    assert cleaned(0, 0).ratio == 0
    assert not cleaned(0, 0, least=0.0).due
    first, second = cleaned(40, 60), cleaned(30, 60)
    assert filthiest([first, second, cleaned(90, 10)]) is second
    assert filthiest([]) is None


def test_segments_become_one_up_to_each_bound_and_no_further() -> None:
    pair = [Size(0, 60, 8, 12), Size(5, 40, 16, 24)]
    assert len(grouped(pair, 9, 100, 36)) == 1
    assert len(grouped(pair, 9, 99, 36)) == 2
    assert len(grouped(pair, 9, 100, 35)) == 2, "the time index"
    wide = [size._replace(index_bytes=18, time_index_bytes=0) for size in pair]
    assert [len(grouped(wide, 9, 100, room)) for room in (35, 36)] == [2, 1]
    many = [Size(at, 1, 1, 1) for at in range(2 * GROUP_SEGMENTS_MAX + 1)]
    sizes = [len(group) for group in grouped(many, len(many), 1000, 1000)]
    assert sizes == [64, 64, 1]
    far = [Size(7, 1, 0, 0), Size(8, 1, 0, 0)]
    assert [len(grouped(far, 8 + (1 << 31) + more, 9, 9)) for more in (-1, 0)] == [1, 2]
    empty = [far[0], far[1]._replace(log_bytes=0)]
    assert len(grouped(empty, 8 + (1 << 31), 9, 9)) == 1
    # A segment ends where the next one begins, the last one at the upper bound.
    three = [Size(0, 1, 0, 0), Size(5, 1, 0, 0), Size((1 << 31) + 1, 1, 0, 0)]
    groups = grouped(three, (1 << 31) + 9, 9, 9)
    assert [[size.base_offset for size in group] for group in groups] == [[0], [5], [(1 << 31) + 1]]


def test_a_job_says_what_the_log_the_topic_and_the_broker_say() -> None:
    config = replace(COMPACTED, delete_retention_ms=77, segment_index_bytes=4000)
    world = World(config=config)
    log = world.log()
    put(log, (b"a", b"1"), producer=(7, 3, 0), transactional=True)
    append_marker(log, 7, commit=False, epoch=3)
    put(log, (b"a", b"2"), (b"a", b"3"), producer=(8, 1, 0))
    log.roll()
    put(log, (b"b", b"4"))
    log.roll()
    world.flush(log)
    result = cleanable(log, None, NOW_MS)
    assert result is not None
    keys = LogKeys(
        log_cleaner_dedupe_buffer_size=1111,
        log_cleaner_io_buffer_load_factor=0.5,
        log_cleaner_io_buffer_size=2223,
        log_cleaner_io_max_bytes_per_second=333.0,
        record_batch_inflated_bytes_max=444_444,
    )
    first, second, _ = log.segments
    made = job_of(result, prepare(result), CleanerSettings(keys), 99)
    assert tuple(made) == (
        "/data/t-0", "t-0", ((0, first.size), (4, second.size)), 0, 5,
        ((7, 0, 1, 2),), ((7, 0, 3), (8, 3, 1)),
        99, 77, 900, 4000, 150, 1111, 0.5, 1111, 333.0, 444_444,
    )  # fmt: skip
    assert keys_max(made, 100) == 5
    assert keys_max(made._replace(map_bytes=10), 100) == 1
    assert keys_max(made._replace(map_bytes=2400, load_factor=0.25)) == 25
    tiny = LogKeys(log_cleaner_io_buffer_size=1, log_cleaner_enable=False)
    assert CleanerSettings(tiny).io_buffer_bytes == 1
    assert not CleanerSettings(tiny).enabled


def test_whatever_a_worker_is_told_or_tells_crosses_a_pipe() -> None:
    world = World(config=COMPACTED)
    put(world.log(), (b"k", b"v"))
    counts = jobs.Counts(1, 2, 3, 4, 5, 6, 7)
    for message in (
        made_job(world.log(), aborted=((1, 2, 3, 4),), producers=((1, 2, 3),)),
        jobs.Cleaned(5, 6, (".log", ".index"), ((5, 9), (7, 8))),
        jobs.Done(9, counts),
        jobs.Damaged("why"),
        jobs.Stopped("who"),
    ):
        line = jobs.write(message)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert jobs.read(line) == message


def big(world: World, size: int) -> Log:
    """Four batches of one record and exactly `size` bytes each, and an active segment."""
    log = world.log()
    for number in range(4):
        spare = len(wire.build([wire.new_record(b"v" * size, b"%d" % number, NOW_MS)])) - size
        added = put(log, (b"%d" % number, b"v" * (size - spare)))
        assert added.base_offset == number
    assert log.segments[0].size == 4 * size
    log.roll()
    put(log, (b"k", b"v"))
    world.flush(log)
    return log


@pytest.mark.parametrize("size", [1 << 19, (1 << 19) - 1])
def test_a_compaction_stops_to_breathe_at_each_mebibyte_read_or_written(size: int) -> None:
    world = World(config=LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1 << 30))
    job = made_job(big(world, size))._replace(io_buffer_bytes=1 << 30)
    steps = list(compact(job, world.disk, PlainRecords(1000)))
    said = [step for step in steps if isinstance(step, int)]
    if size == 1 << 19:
        assert said == [1 << 20] * 4
    else:
        assert said == [3 * size, 3 * size]
    done = steps[-1]
    assert isinstance(done, jobs.Done)
    assert astuple(done.counts) == (4, 4, 4 * size, 4 * size, 0, 4 * size, 4)
    assert done.end == job.upper


def test_what_is_written_leaves_in_parts_of_the_buffers_size_and_each_counts() -> None:
    world = World(config=LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1 << 30))
    size = 1 << 19
    log = big(world, size)
    for buffer, read_first in ((2 * size, 2), (2 * size + 1, 3)):
        job = made_job(log)._replace(io_buffer_bytes=buffer)
        steps = compact(job, world.disk, PlainRecords(1000))
        said = [step for step in steps if isinstance(step, int)]
        assert said[:2] == [2 * size] * 2, "the first pass writes nothing"
        assert said[2] == (4 * size if read_first == 2 else 2 * size)


def test_an_emptied_batch_keeps_who_sent_it_and_no_time_codec_or_horizon() -> None:
    world = World(config=COMPACTED)
    log = world.log()
    put(log, (b"k", b"1"), (b"k", b"2"), producer=(5, 2, 9), codec=wire.Codec.GZIP)
    put(log, (b"k", b"3"))
    log.roll()
    put(log, (b"x", b"active"))
    world.flush(log)
    compact_now(world, cleaner_of(world))
    (header, data), *_ = batches_of(log)
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (0, 1, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, 9)
    assert (header.base_timestamp, header.max_timestamp, header.attributes) == (-1, NOW_MS + 1, 0)
    assert len(data) == 61


@pytest.mark.parametrize("first_dirty", [0, 1, 2, 3, 4])
def test_keys_are_noted_from_the_first_dirty_offset_on_though_it_lies_within_a_batch(
    first_dirty: int,
) -> None:
    world = World(config=COMPACTED)
    log = world.log()
    put(log, *[(b"k", b"%d" % at) for at in range(3)])
    put(log, (b"other", b"3"))
    log.roll()
    put(log, (b"x", b"active"))
    world.flush(log)
    events, counts = run_job(made_job(log, first_dirty=first_dirty), world.disk)
    assert counts is not None
    assert counts.records_read == 4
    assert counts.records_kept == (2 if first_dirty <= 2 else 4)
    assert cast("Any", events[-1]).end == 4
    assert counts.map_records == (4 if first_dirty < 4 else 0)
