"""Micro-batches as they are planned, on a broker but without Spark; the same when repeated."""

import json
import logging
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from headrace.client.calls.metadata import Metadata
from headrace.client.client import Client
from headrace.model.nouns import TopicPartition
from headrace.spark.errors import DataLossError, SourceError
from headrace.spark.source.batch_reader import BatchReader
from headrace.spark.source.columns import row_schema
from headrace.spark.source.offsets import Position
from headrace.spark.source.options import parse_options
from headrace.spark.source.read import RangePartition
from headrace.spark.source.stream_reader import StreamReader
from tests.spark.kit import TIME_MS, Topics
from tests.spark.waiting import eventually

SCHEMA = row_schema(("offset", "value"))
ALL = ReadAllAvailable()


@pytest.fixture
def readers(topics: Topics) -> Iterator["Readers"]:
    made = Readers(topics)
    yield made
    for reader in made.made:
        reader.stop()


class Readers:
    """Makes readers, each as a start of a query has it."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.made: list[StreamReader] = []

    def start(self, topic: str, *, commits: bool = True, **options: Any) -> StreamReader:
        named = {"kafka.bootstrap.servers": self.topics.bootstrap, "subscribe": topic}
        named |= {"startingOffsets": "earliest"}
        options = {name.replace("__", "."): value for name, value in options.items()}
        reader = StreamReader(
            parse_options(named | options, streaming=True), SCHEMA, commits=commits
        )
        self.made.append(reader)
        return reader


def next_batch(
    reader: StreamReader, start: dict[str, Any], limit: Any = ALL
) -> tuple[dict[str, Any], list[RangePartition]]:
    end = json.loads(json.dumps(reader.latestOffset(start, limit)))
    return end, tasks(reader, start, end)


def tasks(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[RangePartition]:
    planned = pickle.loads(pickle.dumps(list(reader.partitions(start, end))))
    assert all(isinstance(task, RangePartition) for task in planned)
    return planned  # type: ignore[no-any-return]


def spans(planned: list[RangePartition]) -> list[tuple[int, int, int]]:
    return [(task.partition, task.begin, task.end) for task in planned]


def test_a_repeated_batch_is_cut_as_it_was_whatever_the_options_are_now(
    topics: Topics, readers: Readers
) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 300)
    topics.number(topic, 1, 0, 100)
    reader = readers.start(topic, minPartitions="4")
    start = reader.initialOffset()
    end, planned = next_batch(reader, start)
    assert spans(planned) == [(0, 0, 100), (0, 100, 200), (0, 200, 300), (1, 0, 100)]
    others: list[dict[str, Any]] = [{}, {"minPartitions": "9"}, {"maxRecordsPerPartition": "10"}]
    for options in others:
        again = readers.start(topic, **options)
        assert spans(tasks(again, start, end)) == spans(planned)
    one = readers.start(topic)
    end, planned = next_batch(one, start)
    assert spans(tasks(readers.start(topic, minPartitions="9"), start, end)) == spans(planned)


def test_a_batch_of_an_older_checkpoint_is_cut_by_the_options(
    topics: Topics, readers: Readers
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 100)
    reader = readers.start(topic, minPartitions="2")
    start = Position(topics.bootstrap, {TopicPartition(topic, 0): 0}).to_json()
    end = Position(topics.bootstrap, {TopicPartition(topic, 0): 100}).to_json()
    assert spans(tasks(reader, start, end)) == [(0, 0, 50), (0, 50, 100)]
    assert (
        reader.latestOffset(end, ALL) == end or "parts" in reader.latestOffset(end, ALL)["headrace"]
    )


def test_hot_partitions_are_cut_by_bytes(topics: Topics, readers: Readers) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 1000)
    topics.number(topic, 1, 0, 10)
    reader = readers.start(topic, maxBytesPerPartition="2000")
    start = reader.initialOffset()
    end, planned = next_batch(reader, start)
    counts = [sum(task.partition == number for task in planned) for number in (0, 1)]
    assert counts[0] >= 3
    assert counts[1] == 1
    assert end["headrace"]["parts"] == {topic: {"0": counts[0]}}
    topics.number(topic, 1, 10, 10)
    assert len(next_batch(reader, end)[1]) == 1
    options = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic}
    options |= {"maxBytesPerPartition": "2000"}
    batch = BatchReader(parse_options(options, streaming=False), SCHEMA).partitions()
    assert sum(task.partition == 0 for task in batch) == counts[0]  # type: ignore[attr-defined]


def test_a_start_by_time_on_every_start_skips_what_is_older_and_says_so(
    topics: Topics, readers: Readers, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 100)
    first = readers.start(topic)
    begin = first.initialOffset()
    end, _ = next_batch(first, begin, ReadMaxRows(10))
    assert end["offsets"] == {topic: {"0": 10, "1": 0}}
    always: dict[str, Any] = {
        "startingTimestamp": str(TIME_MS + 60),
        "startingTimestampOn": "everyStart",
    }
    second = readers.start(topic, **always)
    with caplog.at_level(logging.WARNING):
        after, planned = next_batch(second, end, ReadMaxRows(15))
    assert spans(planned) == [(0, 60, 75)]
    assert after["headrace"]["skipped"] == {topic: {"0": [10, 60]}}
    assert f"offsets 10 to 59 of {topic}-0 are skipped" in caplog.text
    assert spans(tasks(readers.start(topic), end, after)) == [(0, 60, 75)]
    last, planned = next_batch(second, after)
    assert spans(planned) == [(0, 75, 100)]
    assert "skipped" not in last["headrace"]
    # Nothing is read a second time by it, and where all is older nothing is an error.
    earlier = always | {"startingTimestamp": str(TIME_MS)}
    assert readers.start(topic, **earlier).latestOffset(last, ALL) == last
    later = always | {"startingTimestamp": str(TIME_MS + 10**9)}
    skipped, planned = next_batch(readers.start(topic, **later), after)
    assert (skipped["offsets"][topic]["0"], planned) == (100, [])


def test_a_start_by_time_counts_at_the_first_start_alone_unless_asked(
    topics: Topics, readers: Readers
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 100)
    start = readers.start(topic).initialOffset()
    reader = readers.start(topic, startingTimestamp=str(TIME_MS + 60))
    assert spans(next_batch(reader, start)[1]) == [(0, 0, 100)]


def test_a_trigger_reads_the_metadata_once(
    topics: Topics, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 100)
    reader = readers.start(topic, maxBytesPerTrigger="100", commits=False)
    start = reader.initialOffset()
    reads = 0
    fetch = Client._fetch_metadata

    async def counted(self: Client, *args: Any, **more: Any) -> Metadata:
        nonlocal reads
        reads += 1
        return await fetch(self, *args, **more)

    monkeypatch.setattr(Client, "_fetch_metadata", counted)
    end, planned = next_batch(reader, start, reader.getDefaultReadLimit())
    assert reads == 1
    assert planned[0].leader is not None
    next_batch(reader, end, reader.getDefaultReadLimit())
    assert reads == 2


def test_a_batch_waits_for_the_least_of_offsets_but_not_for_ever(
    topics: Topics, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 10)
    reader = readers.start(topic, minOffsetsPerTrigger="20", maxTriggerDelay="1h")
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    assert limit == ReadMinRows(20)
    assert reader.latestOffset(start, limit) == start
    assert reader.latestOffset(start, ALL) != start  # Trigger.Once
    started = time.monotonic()
    monkeypatch.setattr(
        "headrace.spark.source.stream_reader.time.monotonic", lambda: started + 3601
    )
    assert reader.latestOffset(start, limit)["offsets"] == {topic: {"0": 10}}
    monkeypatch.undo()
    topics.number(topic, 0, 10, 10)
    again = readers.start(topic, minOffsetsPerTrigger="20", maxTriggerDelay="1h")
    assert again.latestOffset(start, limit)["offsets"] == {topic: {"0": 20}}


def test_a_read_from_earliest_does_not_miss_what_retention_took_before_its_first_batch(
    topics: Topics, readers: Readers
) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 10)
    reader = readers.start(topic)
    start = reader.initialOffset()
    end, planned = next_batch(reader, start)
    assert [task.from_earliest for task in planned] == [True]
    topics.number(topic, 0, 10, 10)
    topics.grow(topic, 3)
    topics.number(topic, 2, 0, 10)
    _, planned = next_batch(reader, end)
    assert [(task.partition, task.from_earliest) for task in planned] == [(0, False), (2, True)]
    given = readers.start(topic, startingOffsets=json.dumps({topic: {"0": 3, "1": -2, "2": -2}}))
    _, planned = next_batch(given, given.initialOffset())
    assert not any(task.from_earliest for task in planned)


def test_only_the_first_part_of_a_range_begins_where_the_log_did(
    topics: Topics, readers: Readers
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 10)
    reader = readers.start(topic, minPartitions="2")
    _, planned = next_batch(reader, reader.initialOffset())
    assert [task.from_earliest for task in planned] == [True, False]


def test_tasks_read_the_topic_that_was_planned_when_a_batch_is_repeated(
    topics: Topics, readers: Readers
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 10)
    reader = readers.start(topic)
    start = reader.initialOffset()
    end, planned = next_batch(reader, start)
    topics.delete(topic)
    assert eventually(lambda: topics.created(topic))
    topics.number(topic, 0, 100, 10)
    again = readers.start(topic)
    repeated = tasks(again, start, end)
    assert [task.topic_id for task in repeated] == [task.topic_id for task in planned]
    with pytest.raises(DataLossError, match=f"{topic} was deleted and made again since the batch"):
        list(again.read(repeated[0]))
    with pytest.raises(DataLossError, match=f"{topic} was deleted and made again since it was re"):
        again.latestOffset(end, ALL)


def test_a_checkpoint_of_other_topics_or_another_cluster_is_one_error(
    topics: Topics, readers: Readers
) -> None:
    topic, other = topics.create(), topics.create()
    end, _ = next_batch(readers.start(topic), readers.start(topic).initialOffset())
    for fail in ("true", "false"):
        reader = readers.start(other, failOnDataLoss=fail)
        with pytest.raises(SourceError, match=f"of {topic} and the query reads {other}: give the"):
            reader.latestOffset(end, ALL)
    assert end["headrace"]["cluster"]
    end["headrace"]["cluster"] = "elsewhere"
    assert readers.start(topic).latestOffset(end, ALL) == end  # the same topic, carried over
    end["headrace"]["ids"] = {topic: "8PHy8_T19vf4-fr7_P3-_w"}
    with pytest.raises(SourceError, match="of cluster elsewhere and"):
        readers.start(topic).latestOffset(end, ALL)


def test_a_topic_no_longer_subscribed_to_is_no_loss(
    topics: Topics, readers: Readers, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = topics.create(), topics.create()
    both = readers.start(f"{one},{two}")
    end, _ = next_batch(both, both.initialOffset())
    with caplog.at_level(logging.WARNING):
        after = readers.start(one).latestOffset(end, ALL)
    assert list(after["offsets"]) == [one]
    assert f"no longer subscribes to {two}-0" in caplog.text


def test_what_was_read_is_shown_without_being_waited_for(topics: Topics, readers: Readers) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 30)
    group = f"group-{topic}"
    reader = readers.start(topic, kafka__group__id=group)
    end, _ = next_batch(reader, reader.initialOffset())
    reader.commit(end)
    assert eventually(lambda: topics.committed(group) == {TopicPartition(topic, 0): 30})
    topics.number(topic, 0, 30, 5)
    after, _ = next_batch(reader, end)
    reader.commit(after)
    reader.stop()  # waits for what was shown last
    assert topics.committed(group) == {TopicPartition(topic, 0): 35}


def test_where_a_listener_commits_the_reader_does_not(topics: Topics, readers: Readers) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 30)
    group = f"group-{topic}"
    reader = readers.start(topic, commits=False, kafka__group__id=group)
    end, _ = next_batch(reader, reader.initialOffset())
    reader.commit(end)
    reader.stop()
    assert topics.committed(group) == {}
