"""Micro-batches planned against a cluster of the test's: what moves on, waits and is kept."""

import logging
import pickle
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from headrace.client.calls.offsets import EARLIEST
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import DataLossError, SourceError
from headrace.spark.source import batch_reader, stream_reader
from headrace.spark.source.batch_reader import BatchReader
from headrace.spark.source.offsets import Ends, Position
from headrace.spark.source.options import Bound, Strategy, Subscription, parse_options
from headrace.spark.source.read import RangePartition
from headrace.spark.source.stream_reader import StreamReader

SCHEMA = StructType([StructField("offset", LongType())])
ALL = ReadAllAvailable()
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = "AAECAwQFBgcICQoLDA0ODw"


class Brokers:
    """One cluster, as `Cluster` shows it; all of them are this one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.starts: Ends = {T0: 0}
        self.stable: Ends = {T0: 100}
        self.high: Ends = {T0: 100}
        self.first_of_time: Ends = {}
        self.ids = {"t": ID}
        self.looked_back: list[Ends] = []
        self.closed = 0
        for module in (stream_reader, batch_reader):
            monkeypatch.setattr(module, "Cluster", lambda *_: self)

    def __enter__(self) -> "Brokers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed += 1

    def look(self, subscription: Any) -> Any:
        ids = dict(self.ids)
        return SimpleNamespace(
            partitions=lambda: sorted(self.stable), ids=lambda: ids, leaders=dict, cluster_id="c"
        )

    def ends(
        self,
        partitions: Iterable[TopicPartition],
        which: int,
        view: Any = None,
        *,
        read_committed: bool | None = None,
    ) -> Ends:
        known = self.high if read_committed is False else self.stable
        return {at: (self.starts if which == EARLIEST else known)[at] for at in partitions}

    def resolve(self, bound: Bound, partitions: Iterable[TopicPartition]) -> Ends:
        if bound.timestamp is not None:
            return dict(self.first_of_time)
        if isinstance(bound.offsets, int):
            return self.ends(partitions, bound.offsets)
        return {at: max(bound.offsets[at.topic][at.partition], 0) for at in partitions}

    def not_before(self, bound: Bound, partitions: Iterable[TopicPartition]) -> Ends:
        return dict(self.first_of_time)

    def record_bytes(self, begin: Ends, view: Any) -> dict[TopicPartition, float]:
        self.looked_back.append(dict(begin))
        return dict.fromkeys(begin, 10.0)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


def reader(**options: str) -> StreamReader:
    named = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "startingOffsets": "earliest"}
    return StreamReader(parse_options(named | options, streaming=True), SCHEMA, commits=False)


def spans(one: StreamReader, start: Any, end: Any) -> list[tuple[int, int, int, bool]]:
    return [
        (task.partition, task.begin, task.end, task.from_earliest)
        for task in one.partitions(start, end)
        if isinstance(task, RangePartition)
    ]


def ends_of(end: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = end["offsets"]["t"]
    return found


# --- what moves on --------------------------------------------------------------------------------


def test_a_query_stays_where_it_is_until_something_came(brokers: Brokers) -> None:
    one = reader()
    start = one.initialOffset()
    end = one.latestOffset(start, ALL)
    assert ends_of(end) == {"0": 100}
    assert one.latestOffset(end, ALL) is end
    brokers.stable[T0] = 101
    assert ends_of(one.latestOffset(end, ALL)) == {"0": 101}


def test_readers_that_are_held_back_do_not_go_back(brokers: Brokers) -> None:
    one = reader()
    end = one.latestOffset(one.initialOffset(), ALL)
    brokers.stable[T0] = 60  # a transaction was begun below what an uncommitted reading has read
    assert one.latestOffset(end, ALL) is end


def test_a_new_partition_without_records_is_a_batch_all_the_same(brokers: Brokers) -> None:
    one = reader()
    end = one.latestOffset(one.initialOffset(), ALL)
    brokers.stable[T1] = brokers.high[T1] = brokers.starts[T1] = 0
    after = one.latestOffset(end, ALL)
    assert (ends_of(after), after["headrace"]["added"]) == ({"0": 100, "1": 0}, {"t": {"1": 0}})


def test_replayed_records_that_were_deleted_unread_are_loss_unless_that_is_accepted(
    brokers: Brokers,
) -> None:
    retry = TopicPartition("shop.t.retry", 0)
    for accepted in (False, True):
        one = reader(failOnDataLoss="false" if accepted else "true")
        end = one.latestOffset(one.initialOffset(), ALL)
        brokers.stable[retry], brokers.high[retry], brokers.starts[retry] = 9, 9, 5
        one._quarantine._subscription = Subscription(Strategy.SUBSCRIBE, ("t", retry.topic))
        if accepted:
            assert one.latestOffset(end, ALL)["headrace"]["added"] == {retry.topic: {"0": 5}}
        else:
            with pytest.raises(DataLossError, match="below offset 5 before the query read them"):
                one.latestOffset(end, ALL)
        del brokers.stable[retry]


def test_a_topics_id_that_becomes_known_is_written_down(brokers: Brokers) -> None:
    one = reader()
    brokers.ids = {}
    end = one.latestOffset(one.initialOffset(), ALL)
    assert "ids" not in end["headrace"]
    brokers.ids = {"t": ID}
    assert one.latestOffset(end, ALL)["headrace"]["ids"] == {"t": ID}


def test_what_is_there_at_an_available_now_is_all_that_is_read(brokers: Brokers) -> None:
    one = reader(minOffsetsPerTrigger="1000")
    start = one.initialOffset()
    one.prepareForTriggerAvailableNow()
    brokers.stable[T0] = 200
    end = one.latestOffset(start, ReadMaxRows(70))
    assert ends_of(end) == {"0": 70}
    end = one.latestOffset(end, ReadMaxRows(70))
    assert ends_of(end) == {"0": 100}, "and does not wait for the least of a trigger"
    assert one.latestOffset(end, ReadMaxRows(70)) is end


def test_the_group_of_a_checkpoint_is_kept(brokers: Brokers) -> None:
    first = reader(groupIdPrefix="p")
    start = first.initialOffset()
    again = reader(groupIdPrefix="p")
    group = start["headrace"]["group"]
    assert group.startswith("p-")
    assert again.latestOffset(start, ALL)["headrace"]["group"] == group


def test_group_that_is_named_later_is_shown_from_then_on(brokers: Brokers) -> None:
    start = reader().initialOffset()
    assert "group" not in start["headrace"]
    assert reader(**{"kafka.group.id": "g"}).latestOffset(start, ALL)["headrace"]["group"] == "g"


# --- what waits -----------------------------------------------------------------------------------


def test_the_least_of_a_trigger_is_enough_and_the_delay_is_of_each_batch(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(stream_reader, "time", SimpleNamespace(monotonic=lambda: now))
    one = reader(minOffsetsPerTrigger="100", maxTriggerDelay="60s")
    limit = one.getDefaultReadLimit()
    start = one.initialOffset()
    brokers.stable[T0] = 99
    assert one.latestOffset(start, limit) is start
    brokers.stable[T0] = 100
    now += 59
    end = one.latestOffset(start, limit)
    assert ends_of(end) == {"0": 100}
    brokers.stable[T0] = 101
    now += 59
    assert one.latestOffset(end, limit) is end, "the delay is counted from the last batch"
    now += 2
    assert ends_of(one.latestOffset(end, limit)) == {"0": 101}


# --- limits ---------------------------------------------------------------------------------------


def test_rows_and_bytes_hold_together_and_each_batch_is_weighed_once(brokers: Brokers) -> None:
    one = reader(maxOffsetsPerTrigger="50", maxBytesPerTrigger="200", maxBytesPerPartition="100")
    end = one.latestOffset(one.initialOffset(), one.getDefaultReadLimit())
    assert ends_of(end) == {"0": 20}
    assert end["headrace"]["parts"] == {"t": {"0": 2}}
    assert brokers.looked_back == [{T0: 0}]
    one.latestOffset(end, one.getDefaultReadLimit())
    assert brokers.looked_back == [{T0: 0}, {T0: 20}]


def test_a_limit_of_bytes_alone_is_one(brokers: Brokers) -> None:
    one = reader()
    assert ends_of(one.latestOffset(one.initialOffset(), ReadMaxBytes(300))) == {"0": 30}


# --- what is skipped, missed, made again ----------------------------------------------------------


def test_a_query_that_starts_by_a_time_skips_what_is_older_once_each_start(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.first_of_time = {T0: 40}
    always = {"startingTimestamp": "1", "startingTimestampOn": "everyStart"}
    start = Position("h:1", {T0: 10}, ids={"t": ID}, cluster="c").to_json()
    one = reader(**always)
    with caplog.at_level(logging.WARNING):
        end = one.latestOffset(start, ReadMaxRows(5))
    assert "offsets 10 to 39 of t-0 are skipped" in caplog.text
    assert spans(one, start, end) == [(0, 40, 45, False)]
    brokers.first_of_time = {T0: 90}
    after = one.latestOffset(end, ReadMaxRows(5))
    assert spans(one, end, after) == [(0, 45, 50, False)]
    first = reader(**always)
    brokers.first_of_time = {T0: 20}
    begin = first.initialOffset()
    brokers.first_of_time = {T0: 90}
    assert ends_of(first.latestOffset(begin, ReadMaxRows(5))) == {"0": 25}


def test_only_a_start_at_the_earliest_is_where_the_logs_began(brokers: Brokers) -> None:
    brokers.first_of_time = {T0: 0}
    for options, earliest in (
        ({}, True), ({"startingTimestamp": "1"}, False), ({"startingOffsets": "latest"}, False),
    ):  # fmt: skip
        start = reader(**options).initialOffset()
        assert start["headrace"].get("earliest", False) is earliest
    one = reader()
    start = one.initialOffset()
    end = one.latestOffset(start, ALL)
    assert spans(one, start, end) == [(0, 0, 100, True)]
    made_again = Position.of_json(end)
    made_again = replace(made_again, added={T0: 3})
    assert spans(one, start, made_again.to_json()) == [(0, 3, 100, True)]
    skipped = replace(made_again, skipped={T0: (0, 3)})
    assert spans(one, start, skipped.to_json()) == [(0, 3, 100, False)]


def test_a_repeated_batch_reads_the_topic_that_was_planned(brokers: Brokers) -> None:
    one = reader()
    start = one.initialOffset()
    end = one.latestOffset(start, ALL)
    brokers.ids = {"t": "Dw4NDAsKCQgHBgUEAwIBAA"}
    again = reader()
    (task,) = again.partitions(start, end)
    assert isinstance(task, RangePartition)
    assert task.topic_id == bytes(range(16))


def test_a_log_that_is_held_back_by_a_transaction_has_lost_nothing(brokers: Brokers) -> None:
    one = reader(**{"isolation.level": "read_committed"})
    end = one.latestOffset(one.initialOffset(), ALL)
    brokers.stable[T0] = 60
    assert one.latestOffset(end, ALL) is end


def test_a_reader_is_sent_without_what_only_the_driver_has(brokers: Brokers) -> None:
    options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.group.id": "g"}
    one = StreamReader(parse_options(options, streaming=True), SCHEMA)
    one.latestOffset(one.initialOffset(), ALL)
    sent = pickle.loads(pickle.dumps(one))
    for name in ("_cluster", "_view", "_target", "_latest", "_weights", "_commits"):
        assert getattr(sent, name) is None
    one.stop()
    assert brokers.closed == 1
    one.stop()
    assert brokers.closed == 1


# --- batch reads ----------------------------------------------------------------------------------


def batch(**options: str) -> list[tuple[int, int, int, bool]]:
    named = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
    one = BatchReader(parse_options(named | options, streaming=False), SCHEMA)
    return [
        (task.partition, task.begin, task.end, task.from_earliest)
        for task in one.partitions()
        if isinstance(task, RangePartition)
    ]


def test_a_batch_read_may_be_empty_and_may_not_end_before_it_starts(brokers: Brokers) -> None:
    brokers.first_of_time = {T0: 0}
    assert batch(startingOffsets='{"t":{"0":7}}', endingOffsets='{"t":{"0":7}}') == []
    with pytest.raises(SourceError, match="t-0 is to end at 6, before it starts at 7"):
        batch(startingOffsets='{"t":{"0":7}}', endingOffsets='{"t":{"0":6}}')
    with pytest.raises(
        SourceError, match="endingOffsets: t-0 is to end at 101, its log ends at 100"
    ):
        batch(endingOffsets='{"t":{"0":101}}')
    brokers.stable[T0] = 90  # an open transaction holds it back: that is waited for
    assert batch(endingOffsets='{"t":{"0":100}}')[0][2] == 100
    brokers.stable[T0] = 100
    brokers.starts[T0] = 120  # all was deleted, and more, since the end was asked for
    assert batch() == []


def test_what_a_batch_read_begins_at_the_earliest_is_told_to_its_tasks(brokers: Brokers) -> None:
    brokers.stable[T1] = brokers.high[T1] = 50
    brokers.starts[T1] = 0
    brokers.first_of_time = {T0: 0, T1: 0}
    assert [task[3] for task in batch()] == [True, True]
    given = batch(startingOffsets='{"t":{"0":-2,"1":0}}')
    assert [(task[0], task[3]) for task in given] == [(0, True), (1, False)]
    assert [task[3] for task in batch(startingTimestamp="1")] == [False, False]
