"""One partition's log: limits, rolling, timestamps, reading, epochs, retention, flushing."""

import pytest

from headrace.config.log_config import LogConfig
from headrace.log.log import NeedsDisk, ReadResult
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.record import batch as wire
from tests.support.log.log import (
    NOW_MS,
    FlushListener,
    World,
    append,
    append_marker,
    bases,
    batch_of,
    records_of,
    values,
)

DAY_MS = 86_400_000


def test_a_batch_is_stamped_in_place_and_keeps_its_checksum() -> None:
    world = World()
    log = world.log()
    append(log, b"first")
    content = batch_of(b"a", b"b")
    view = memoryview(content)
    done = log.append(view, wire.check_produced(view), LeaderEpoch(3), NOW_MS)
    header = wire.parse_header(view)
    assert (done.base_offset, done.last_offset, done.append_time_ms) == (1, 2, -1)
    assert (header.base_offset, header.leader_epoch) == (1, 3)
    assert wire.crc_ok(view, header)
    found = log.read(Offset(1), 1000, below=Offset(3))
    assert isinstance(found, ReadResult)
    assert bytes(found.data) == bytes(content)
    world.close()


def test_log_append_time_replaces_the_timestamps_and_renews_the_checksum() -> None:
    world = World(config=LogConfig(message_timestamp_type="LogAppendTime"))
    log = world.log()
    done = append(log, b"x", timestamp=5, now_ms=NOW_MS + 7)
    assert done.append_time_ms == NOW_MS + 7
    found = log.read(Offset(0), 1000, below=Offset(1))
    assert isinstance(found, ReadResult)
    header = wire.parse_header(bytes(found.data))
    assert header.attributes & wire.LOG_APPEND_TIME
    assert header.max_timestamp == NOW_MS + 7
    assert wire.crc_ok(bytes(found.data), header)
    assert log.offset_for_time(NOW_MS) == (NOW_MS + 7, 0, 0)
    world.close()


@pytest.mark.parametrize(
    ("config", "timestamp", "size", "code"),
    [
        (LogConfig(max_message_bytes=100), NOW_MS, 200, ErrorCode.MESSAGE_TOO_LARGE),
        (LogConfig(segment_bytes=100), NOW_MS, 200, ErrorCode.RECORD_LIST_TOO_LARGE),
        (LogConfig(), NOW_MS + 3_600_001, 1, ErrorCode.INVALID_TIMESTAMP),
        (
            LogConfig(message_timestamp_before_max_ms=1000),
            NOW_MS - 1001,
            1,
            ErrorCode.INVALID_TIMESTAMP,
        ),
    ],
)
def test_what_the_topic_does_not_allow_is_refused_and_not_written(
    config: LogConfig, timestamp: int, size: int, code: ErrorCode
) -> None:
    world = World(config=config)
    log = world.log()
    with pytest.raises(ApiError) as refused:
        append(log, b"x" * size, timestamp=timestamp)
    assert refused.value.code is code
    assert log.end_offset == 0
    assert log.segments[0].size == 0
    world.close()


def test_a_record_without_timestamp_is_in_bounds() -> None:
    world = World(config=LogConfig(message_timestamp_before_max_ms=1000))
    assert append(world.log(), b"x", timestamp=-1).base_offset == 0
    world.close()


def test_only_the_broker_says_log_append_time() -> None:
    world = World()
    raw = wire.build(
        [wire.new_record(b"x", timestamp=NOW_MS)],
        timestamp_type=wire.TimestampType.LOG_APPEND_TIME,
    )
    view = memoryview(bytearray(raw))
    with pytest.raises(ApiError) as refused:
        world.log().append(view, wire.parse_header(view), LeaderEpoch(0), NOW_MS)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
    world.close()


# --- rolling ------------------------------------------------------------------------------------


def test_a_segment_rolls_before_the_batch_that_would_overfill_it() -> None:
    size = len(batch_of(b"x" * 100))
    world = World(config=LogConfig(segment_bytes=2 * size))
    for _ in range(4):
        append(world.log(), b"x" * 100)
    assert bases(world) == [0, 2]
    world.close()


def test_rolling_by_time_measures_record_timestamps_from_the_first_batch_on() -> None:
    world = World(config=LogConfig(segment_ms=1000, message_timestamp_after_max_ms=1 << 62))
    log = world.log()
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 1000)
    append(log, b"c", timestamp=NOW_MS + 1001)
    append(log, b"d", timestamp=NOW_MS - DAY_MS)
    assert bases(world) == [0, 2]
    world.restart(clean=True)
    append(world.log(), b"e", timestamp=NOW_MS + 2002)
    assert bases(world) == [0, 2, 4]
    world.close()


def test_a_segments_offsets_are_as_far_from_its_base_as_31_bits_say_and_no_farther() -> None:
    world = World(config=LogConfig(index_interval_bytes=0))
    log = world.log()
    append(log, b"first")
    log.end_offset = Offset((1 << 31) - 1)  # a gap, as compaction leaves one
    append(log, b"the last that its index has room for")
    assert bases(world) == [0]
    append(log, b"one farther")
    assert bases(world) == [0, 1 << 31]
    assert log.segments[0].index.last[0] == (1 << 31) - 1
    world.close()


def test_a_full_index_rolls_the_segment() -> None:
    world = World(config=LogConfig(index_interval_bytes=0, segment_index_bytes=36))
    for at in range(6):
        append(world.log(), b"x", timestamp=NOW_MS + at)
    assert bases(world) == [0, 3]
    world.close()


def test_an_active_index_is_preallocated_and_trimmed_when_rolled() -> None:
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=12_000, segment_bytes=600_000)
    world = World(config=config)
    log = world.log()
    for at in range(600):
        append(log, b"x", timestamp=NOW_MS + at)
    path = "/data/t-0/00000000000000000000.index"
    assert world.disk.open(path).size() == 12_000
    log.roll()
    assert world.disk.open(path).size() == 599 * 8
    assert len(log.segments[0].time_index) == 599
    world.close()


# --- reading ------------------------------------------------------------------------------------


def test_an_offset_inside_a_batch_is_answered_with_the_whole_batch() -> None:
    world = World()
    log = world.log()
    append(log, b"a", b"b", b"c")
    found = log.read(Offset(2), 1000, below=Offset(3))
    assert isinstance(found, ReadResult)
    assert [record.offset for record in records_of(bytes(found.data))] == [0, 1, 2]
    world.close()


def test_the_first_batch_comes_whatever_its_size_if_at_least_one_is_wanted() -> None:
    world = World()
    log = world.log()
    append(log, b"x" * 500)
    append(log, b"y")
    big = log.read(Offset(0), 10, below=Offset(2))
    none = log.read(Offset(0), 10, below=Offset(2), at_least_one=False)
    assert isinstance(big, ReadResult)
    assert isinstance(none, ReadResult)
    assert big.next_offset == 1
    assert (bytes(none.data), none.next_offset) == (b"", 0)
    world.close()


def test_nothing_at_or_beyond_the_bound_is_read() -> None:
    world = World()
    log = world.log()
    append(log, b"a")
    append(log, b"b", b"c")
    found = log.read(Offset(0), 1000, below=Offset(1))
    assert isinstance(found, ReadResult)
    assert found.next_offset == 1
    inside = log.read(Offset(1), 1000, below=Offset(2))
    assert isinstance(inside, ReadResult)
    assert not inside.data
    world.close()


def test_offsets_outside_the_log_are_out_of_range() -> None:
    world = World()
    log = world.log()
    append(log, b"a")
    for offset in (-1, 2):
        with pytest.raises(ApiError) as refused:
            log.read(Offset(offset), 10, below=Offset(1))
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    world.close()


def test_a_reader_at_the_tail_goes_on_across_a_roll() -> None:
    world = World()
    log = world.log()
    for at in range(20):
        append(log, b"%d" % at * 30)
        assert values(log, at) == {at: b"%d" % at * 30}
    assert len(log.segments) > 2
    world.close()


def test_the_index_of_a_sealed_segment_is_loaded_by_a_thread_not_by_who_must_not_wait() -> None:
    world = World(at_rest=True)
    for at in range(20):
        append(world.log(), b"%d" % at * 30)
    world.restart(clean=True)
    log = world.log()
    assert log.read(Offset(1), 10, below=Offset(20)) == NeedsDisk(Offset(1))
    assert log.serve(Offset(1), 1 << 20, below=Offset(20)) == NeedsDisk(Offset(1))
    assert not log.segments[0].index.loaded
    there = log.read_from_disk(Offset(1), 10, below=Offset(20))
    assert there.data
    assert log.read(Offset(1), 10, below=Offset(20)) == there
    assert isinstance(log.read(Offset(19), 10, below=Offset(20)), ReadResult)
    world.close()


# --- searching ----------------------------------------------------------------------------------


def test_the_newest_record_is_found_wherever_it_lies() -> None:
    world = World()
    log = world.log()
    assert log.max_timestamp_offset() is None
    for at, ahead in enumerate([0, 50, 900, 20, 900, 3]):
        append(log, b"%d" % at * 100, b"later", timestamp=NOW_MS + ahead)
    assert log.max_timestamp_offset() == (NOW_MS + 900, 4, 0)
    world.restart(clean=True)
    assert world.log().max_timestamp_offset() == (NOW_MS + 900, 4, 0)
    world.close()


def test_an_epochs_end_is_where_the_next_one_began() -> None:
    world = World()
    log = world.log()
    for epoch in (1, 1, 4):
        append(log, b"x", epoch=epoch)
    answers = {epoch: log.end_offset_for_epoch(LeaderEpoch(epoch)) for epoch in (-1, 0, 1, 3, 4, 5)}
    wanted = {-1: (-1, -1), 0: (0, 0), 1: (1, 2), 3: (1, 2), 4: (4, 3), 5: (-1, -1)}
    assert answers == wanted
    world.restart(clean=False)
    assert world.log().epochs.entries == [(1, 0), (4, 2)]
    world.close()


def test_epochs_are_read_from_the_batches_where_their_file_is_lost() -> None:
    world = World()
    for epoch in (2, 2, 7):
        append(world.log(), b"x", epoch=epoch)
    world.directory.close()
    world.disk.remove("/data/t-0/leader-epoch-checkpoint")
    after = World(world.disk)
    assert after.log().epochs.entries == [(2, 0), (7, 2)]
    after.close()


def test_a_retry_after_a_clean_restart_is_a_duplicate_for_all_of_the_last_five_batches() -> None:
    """A snapshot holds one batch of each producer; the other four come back from the log."""
    world = World()
    for sequence in range(7):
        append(world.log(), b"x" * 200, producer=(4, 0, sequence))
    world.restart(clean=True)
    producers = world.log().producers
    for sequence in range(2, 7):
        header = wire.parse_header(batch_of(b"again", producer=(4, 0, sequence)))
        found = producers.check(header, NOW_MS)
        assert found is not None
        assert found.base_offset == sequence
    world.close()


def test_aborted_transactions_are_listed_for_the_range_they_overlap() -> None:
    world = World()
    log = world.log()
    append(log, b"plain")
    append(log, b"doomed", producer=(8, 0, 0), transactional=True)
    assert log.last_stable_offset(log.end_offset) == 1
    append_marker(log, 8, commit=False)
    append(log, b"kept", producer=(8, 0, 1), transactional=True)
    append_marker(log, 8, commit=True)
    for _ in range(2):
        aborted = log.aborted_transactions(Offset(0), log.end_offset)
        assert [(one.producer_id, one.first_offset, one.last_offset) for one in aborted] == [
            (8, 1, 2)
        ]
        assert log.aborted_transactions(Offset(3), log.end_offset) == []
        assert log.last_stable_offset(log.end_offset) == log.end_offset
        world.restart(clean=False)
        log = world.log()
    world.close()


def test_a_transaction_that_began_in_the_range_is_listed_whenever_it_was_aborted() -> None:
    """The one that began last is aborted first: its entry does not end the search."""
    world = World()
    log = world.log()
    append(log, b"0", producer=(8, 0, 0), transactional=True)
    append(log, b"1", producer=(9, 0, 0), transactional=True)
    append_marker(log, 9, commit=False)
    append(log, b"3" * 900, producer=(7, 0, 0), transactional=True)
    append_marker(log, 8, commit=False)
    append_marker(log, 7, commit=False)
    assert len(log.segments) > 1

    def listed(start: int, end: int) -> list[int]:
        found = log.aborted_transactions(Offset(start), Offset(end))
        return [one.producer_id for one in found]

    assert [listed(0, end) for end in range(1, 7)] == [
        [8], [9, 8], [9, 8], [9, 8, 7], [9, 8, 7], [9, 8, 7],
    ]  # fmt: skip
    assert [listed(start, 6) for start in range(6)] == [
        [9, 8, 7], [9, 8, 7], [9, 8, 7], [8, 7], [8, 7], [7],
    ]  # fmt: skip
    assert [listed(at, at + 1) for at in range(6)] == [
        [8], [9, 8], [9, 8], [8, 7], [8, 7], [7],
    ]  # fmt: skip
    world.close()


# --- flushing -----------------------------------------------------------------------------------


def test_one_flush_serves_everybody_who_waits_and_the_next_gathers_meanwhile() -> None:
    world = World()
    logs = [world.log(TopicPartition("t", at)) for at in range(3)]
    world.settle()
    before = world.directory.flusher.flushes
    for log in logs:
        append(log, b"x")
        world.directory.flusher.flush_soon(log)
    world.clock.turn()
    for log in logs:
        append(log, b"y")
        world.directory.flusher.flush_soon(log)
        world.directory.flusher.flush_soon(log)
    assert world.clock.turn() == 0
    world.settle()
    assert world.directory.flusher.flushes == before + 2
    assert [log.flushed_offset for log in logs] == [2, 2, 2]
    world.close()


def test_flushed_offset_never_passes_what_was_written_when_the_flush_began() -> None:
    world = World()
    log = world.log()
    told: list[int] = []
    log.listen(FlushListener(told.append))
    append(log, b"x")
    world.directory.flusher.flush_soon(log)
    world.clock.turn()
    append(log, b"y")
    world.settle()
    assert told[-1] == 1
    world.close()


def test_flush_messages_asks_for_a_flush_by_itself() -> None:
    world = World(config=LogConfig(flush_messages=3))
    log = world.log()
    world.settle()
    before = world.directory.flusher.flushes
    for _ in range(7):
        append(log, b"x")
        world.settle()
    assert world.directory.flusher.flushes == before + 2
    assert log.flushed_offset == 6
    world.close()
