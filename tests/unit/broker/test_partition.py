"""What one partition answers, and when: acknowledgements, duplicates, readers, failures."""

from functools import partial
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.config.log_config import LogConfig
from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.state_files import durable_read_bounds
from headrace.log.log import Log, ReadResult
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, LeaderEpoch, Offset, TopicPartition
from headrace.record.batch import ControlType, Record, build, build_marker, parse_header
from headrace.testing.clock import SimClock, SimRandom
from headrace.testing.disk import SimDisk
from tests.support.processes.broker import append

NOW = 1_780_000_000_000
TOPIC_ID = bytes(range(16))


def leading(log: Log, epoch: int, directory: LogDirectory, **how: Any) -> Partition:
    """The partition of `log`, led without other replicas."""
    partition = Partition(log, flusher=directory.flusher, **how)
    partition.role.lead(LeaderEpoch(epoch))
    return partition


class Place:
    """One partition on a simulated disk."""

    def __init__(self, topic: str = "t", config: LogConfig | None = None, **how: Any) -> None:
        self.clock = SimClock(NOW)
        self.disk = SimDisk(self.clock.wall_ms)
        self.directory = LogDirectory.open(
            self.disk, self.clock, SimRandom(), "/data", broker_id=0, cluster_id="c"
        )
        log = self.directory.create_log(TopicPartition(topic, 0), TOPIC_ID, config or LogConfig())
        self.flush()
        self.partition = leading(log, 5, self.directory, **how)

    def flush(self) -> None:
        """End the turn and let the disk finish."""
        self.clock.turn()
        self.disk.settle()

    def read(self, offset: int = 0, **how: Any) -> list[int]:
        """Base offsets of what a reader sees."""
        found = self.partition.read(Offset(offset), 1 << 20, **how)
        assert isinstance(found, ReadResult)
        offsets, at = [], 0
        while at < len(found.data):
            header = parse_header(found.data, at)
            offsets.append(header.base_offset)
            at += header.batch_length + 12
        return offsets


def told(partition: Partition, commit_offset: int) -> list[ApiError | None]:
    """What a waiter hears."""
    heard: list[ApiError | None] = []
    partition.when_committed(Offset(commit_offset), heard.append)
    return heard


def test_an_append_is_committed_and_readable_only_after_its_flush() -> None:
    place = Place()
    appended = append(place.partition)
    assert (appended.base_offset, appended.commit_offset, appended.duplicate) == (0, 1, False)
    heard = told(place.partition, appended.commit_offset)
    place.clock.turn()
    assert heard == []
    assert place.read() == []
    place.disk.settle()
    assert heard == [None]
    assert place.read() == [0]
    assert place.partition.high_watermark == place.partition.log.high_watermark == 1


def test_without_flush_on_ack_an_append_is_committed_and_readable_at_once() -> None:
    place = Place(flush_on_ack=False)
    appended = append(place.partition)
    assert told(place.partition, appended.commit_offset) == [None]
    assert place.read() == [0]
    assert place.partition.log.flushed_offset == 0


def test_waiters_are_told_in_the_order_of_asking() -> None:
    place = Place()
    order: list[str] = []

    def heard(name: str, error: ApiError | None) -> None:
        assert error is None
        order.append(name)

    for name in "abc":
        appended = append(place.partition)
        place.partition.when_committed(appended.commit_offset, partial(heard, name))
    place.flush()
    assert order == ["a", "b", "c"]


def test_who_has_an_answer_finds_all_of_its_flush_in_the_files() -> None:
    place = Place()
    log = place.directory.create_log(TopicPartition("t", 1), TOPIC_ID, LogConfig())
    second = leading(log, 5, place.directory)
    for partition in (place.partition, second):
        append(partition)  # the first one of an epoch writes the epochs, too
    place.flush()
    found: list[tuple[int | None, int]] = []

    def answered(_: ApiError | None) -> None:
        for partition in (place.partition, second):
            at = partition.topic_partition
            end = durable_read_bounds.read_bound(place.disk, "/data", at, TOPIC_ID).end
            found.append((end, partition.high_watermark))

    writes = sum(one.kind == "write" for one in place.disk.ops)
    for partition in (place.partition, second):
        append(partition)
        partition.when_committed(Offset(2), answered)
    place.flush()
    assert found == [(2, 2)] * 4
    written = sum(one.kind == "write" for one in place.disk.ops) - writes
    assert written == 2 + 1, "a batch each, and one write for the bounds of both"


def test_a_waiter_may_append_and_wait_again_from_its_callback() -> None:
    place = Place()
    heard: list[int] = []

    def again(error: ApiError | None) -> None:
        heard.append(place.partition.high_watermark)
        if len(heard) < 3:
            place.partition.when_committed(append(place.partition).commit_offset, again)

    again(None)
    for _ in range(3):
        place.flush()
    assert heard == [0, 1, 2]


def test_a_duplicate_gets_the_first_answer_and_waits_for_the_first_flush() -> None:
    place = Place()
    who: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    first = append(place.partition, **who)
    again = append(place.partition, **who)
    assert (again.base_offset, again.commit_offset, again.duplicate) == (0, 1, True)
    assert place.partition.log.end_offset == 1
    heard = told(place.partition, again.commit_offset)
    assert heard == []
    place.flush()
    assert heard == [None]
    assert first.append_time_ms == again.append_time_ms == -1


def test_a_retry_with_acks_all_asks_for_the_flush_that_acks_1_left_for_later() -> None:
    place = Place()
    who: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    raw = build([Record(0, NOW, None, b"v", ())], **who)
    for acks in (1, -1):
        view = memoryview(bytearray(raw))
        again = place.partition.append(view, parse_header(view), now_ms=NOW, required_acks=acks)
    assert again.duplicate
    heard = told(place.partition, again.commit_offset)
    place.flush()
    assert heard == [None]


def test_a_gap_and_an_old_epoch_are_refused_and_nothing_is_written() -> None:
    place = Place()
    append(place.partition, producer_id=9, producer_epoch=1, base_sequence=0)
    for epoch, sequence, code in (
        (1, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (0, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        with pytest.raises(ApiError) as caught:
            append(place.partition, producer_id=9, producer_epoch=epoch, base_sequence=sequence)
        assert caught.value.code is code
    assert place.partition.log.end_offset == 1


def test_markers_of_an_older_coordinator_are_fenced_and_of_the_same_or_a_newer_one_taken() -> None:
    place = Place()

    def mark(coordinator_epoch: int) -> None:
        place.partition.append_marker(
            9, 0, commit=True, coordinator_epoch=coordinator_epoch, now_ms=NOW
        )

    for newest in (0, 3, 3):
        mark(newest)
    for older in (0, 2):
        with pytest.raises(ApiError) as caught:
            mark(older)
        assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert place.partition.log.end_offset == 3
    place.flush()
    mark(4)
    with pytest.raises(ApiError, match="TRANSACTION_COORDINATOR_FENCED"):
        mark(3)
    assert place.partition.log.producers.coordinator_epoch(9) == 4


def test_transactional_batches_are_refused_outside_of_a_transaction() -> None:
    place = Place()
    with pytest.raises(ApiError, match="INVALID_TXN_STATE"):
        append(
            place.partition, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True
        )
    assert place.partition.log.end_offset == 0


def test_internal_topics_are_closed_to_clients_and_open_to_coordinators() -> None:
    place = Place(OFFSETS_TOPIC)
    with pytest.raises(ApiError, match="INVALID_TOPIC_EXCEPTION"):
        append(place.partition)
    batch = build([Record(0, NOW, b"k", b"v", ())])
    appended = place.partition.append_internal(batch)
    assert parse_header(batch).base_offset == 0
    heard = told(place.partition, appended.commit_offset)
    place.flush()
    assert heard == [None]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, None),
        (5, None),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_client_with_another_leader_epoch_is_told(epoch: int, code: ErrorCode | None) -> None:
    place = Place()
    if code is None:
        place.partition.check_epoch(epoch)
        return
    with pytest.raises(ApiError) as caught:
        place.partition.check_epoch(epoch)
    assert caught.value.code is code


def test_epochs_end_where_the_next_begins_even_before_anything_was_appended_under_it() -> None:
    place = Place()
    append(place.partition)
    append(place.partition)
    place.flush()
    later = leading(place.partition.log, 8, place.directory)
    expected = {4: (4, 0), 5: (5, 2), 6: (5, 2), 7: (5, 2), 8: (8, 2), 9: (-1, -1), -1: (-1, -1)}
    for epoch, answer in expected.items():
        assert later.end_offset_for_epoch(LeaderEpoch(epoch)) == answer, epoch


def test_an_empty_log_that_knows_of_no_epoch_ends_each_earlier_one_where_it_stands() -> None:
    """Else who follows with an epoch of what was deleted would be out of range for ever."""
    place = Place()
    expected = {4: (4, 0), 5: (5, 0), 6: (-1, -1), -1: (-1, -1)}
    for epoch, answer in expected.items():
        assert place.partition.end_offset_for_epoch(LeaderEpoch(epoch)) == answer, epoch


@pytest.mark.parametrize("offset", [-1, 3, 1 << 62])
def test_reading_outside_the_log_is_out_of_range(offset: int) -> None:
    place = Place()
    append(place.partition)
    append(place.partition)
    with pytest.raises(ApiError, match="OFFSET_OUT_OF_RANGE"):
        place.read(offset)


def test_between_high_watermark_and_end_there_is_nothing_to_read_yet() -> None:
    place = Place()
    append(place.partition)
    place.flush()
    append(place.partition)
    assert place.read(1) == place.read(2) == []


def test_readers_of_committed_data_end_before_an_open_transaction() -> None:
    place = Place()
    append(place.partition)
    txn: dict[str, Any] = {
        "producer_id": 7,
        "producer_epoch": 0,
        "base_sequence": 0,
        "transactional": True,
    }
    place.partition.append_internal(build([Record(0, NOW, None, b"t", ())], **txn))
    append(place.partition)
    place.flush()
    assert place.partition.last_stable_offset == 1
    assert place.read(read_committed=True) == [0]
    assert place.read() == [0, 1, 2]
    marker = build_marker(ControlType.COMMIT, 0, producer_id=7, producer_epoch=0, timestamp=NOW)
    place.partition.append_internal(marker)
    assert place.partition.last_stable_offset == 1
    place.flush()
    assert place.partition.last_stable_offset == 4
    assert place.read(read_committed=True) == [0, 1, 2, 3]


def test_watchers_are_woken_when_more_is_readable_until_they_cancel() -> None:
    place = Place()
    woken: list[int] = []

    def wake() -> None:
        woken.append(place.partition.high_watermark)

    place.partition.watch(wake)
    append(place.partition)
    place.flush()
    append(place.partition)
    place.flush()
    place.partition.unwatch(wake)
    place.partition.unwatch(wake)
    append(place.partition)
    place.flush()
    assert woken == [1, 2]


@pytest.mark.parametrize("fault", ["fail_syncs", "fail_writes"])
def test_after_a_failed_disk_nothing_is_acknowledged_and_nothing_appended(fault: str) -> None:
    place = Place()
    partition = place.partition
    failures: list[OSError] = []

    def failed(error: OSError) -> None:
        failures.append(error)
        partition.close(ErrorCode.KAFKA_STORAGE_ERROR)

    place.directory.on_failure(failed)
    heard = told(partition, append(partition).commit_offset)
    woken: list[bool] = []
    partition.watch(lambda: woken.append(True))
    getattr(place.disk, fault)()
    if fault == "fail_writes":
        with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
            append(partition)
    place.flush()
    place.disk.heal()
    place.flush()
    assert len(failures) == 1
    assert [error.code for error in heard if error] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert woken == [True]
    assert partition.high_watermark == 0
    for call in (lambda: append(partition), lambda: place.read()):
        with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
            call()
    late = told(partition, 0)
    assert [error.code for error in late if error] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_partition_opened_on_an_unflushed_log_flushes_it_and_shows_it_only_then() -> None:
    place = Place(flush_on_ack=False)
    append(place.partition)
    assert place.partition.log.flushed_offset == 0
    place.partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    careful = leading(place.partition.log, 6, place.directory)
    assert careful.high_watermark == 0
    place.flush()
    assert careful.high_watermark == 1


def test_turning_flush_on_ack_on_never_takes_the_high_watermark_back() -> None:
    place = Place(flush_on_ack=False)
    append(place.partition)
    place.partition.role.flush_on_ack(wanted=True)
    assert place.partition.high_watermark == 1
    append(place.partition)
    assert place.partition.high_watermark == 1
    place.flush()
    assert place.partition.high_watermark == 2


def test_deleted_records_are_out_of_range_and_nothing_beyond_the_high_watermark_goes() -> None:
    place = Place()
    for _ in range(3):
        append(place.partition)
    place.flush()
    append(place.partition)
    assert place.partition.delete_records(2) == 2
    with pytest.raises(ApiError, match="OFFSET_OUT_OF_RANGE"):
        place.read(1)
    assert place.read(2) == [2]
    with pytest.raises(ApiError, match="OFFSET_OUT_OF_RANGE"):
        place.partition.delete_records(4)
    assert place.partition.delete_records(-1) == 3
    place.partition.reconfigure(LogConfig(cleanup_policy=frozenset({"compact"})))
    with pytest.raises(ApiError, match="POLICY_VIOLATION"):
        place.partition.delete_records(3)
