"""Streams: each record in exactly one batch, across restarts; lag shown; loss said."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headrace.model.nouns import TopicPartition
from tests.spark.kit import Topics, values_of
from tests.spark.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Stream:
    """One streaming query into Parquet, started anew as often as wanted."""

    def __init__(self, spark: SparkSession, topics: Topics, path: Path, **options: Any) -> None:
        self.spark, self.topics, self.path = spark, topics, path
        self.options = {"startingOffsets": "earliest"} | options
        self.query: StreamingQuery | None = None

    def frame(self, **more: Any) -> DataFrame:
        reader = self.spark.readStream.format("headrace")
        reader = reader.option("kafka.bootstrap.servers", self.topics.bootstrap)
        named = {name: str(value) for name, value in (self.options | more).items()}
        return reader.options(**named).load()

    def run(self, name: str | None = None, **more: Any) -> list[dict[str, Any]]:
        """Take what is there and end; the progress of each batch."""
        writer = self.frame(**more).writeStream.format("parquet")
        if name:
            writer = writer.queryName(name)
        writer = writer.option("checkpointLocation", str(self.path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(self.path / "rows"))
        self.query = query
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return [json.loads(progress.json) for progress in query.recentProgress]

    def values(self) -> list[int]:
        return values_of(self.spark.read.parquet(str(self.path / "rows")).collect())


def test_a_stream_takes_what_is_there_and_goes_on_where_it_stopped(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(partitions=2)
    stream = Stream(spark, topics, tmp_path, subscribe=topic)
    topics.number(topic, 0, 0, 120)
    topics.number(topic, 1, 120, 80)
    stream.run()
    assert stream.values() == list(range(200))
    stream.run()
    topics.number(topic, 1, 200, 50)
    stream.run(startingOffsets="latest")  # a checkpoint outweighs the option
    assert stream.values() == list(range(250))


def test_batches_are_limited_by_offsets_in_proportion_to_the_backlog(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 300)
    topics.number(topic, 1, 300, 100)
    stream = Stream(spark, topics, tmp_path, subscribe=topic, maxOffsetsPerTrigger=100)
    batches = stream.run()
    sizes = [batch["numInputRows"] for batch in batches if batch["numInputRows"]]
    assert sizes == [100] * 4
    first = json.loads(json.dumps(batches[0]["sources"][0]["endOffset"]))
    assert first["offsets"] == {topic: {"0": 75, "1": 25}}
    assert stream.values() == list(range(400))


def test_batches_are_limited_by_bytes(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 2000)
    batches = Stream(spark, topics, tmp_path, subscribe=topic, maxBytesPerTrigger=8_000)
    sizes = [batch["numInputRows"] for batch in batches.run() if batch["numInputRows"]]
    assert sum(sizes) == 2000
    assert 2 <= len(sizes) <= 12
    assert batches.values() == list(range(2000))


def test_a_named_querys_lag_is_shown_for_the_last_batch_too(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 30)
    topics.number(topic, 1, 30, 20)
    stream = Stream(spark, topics, tmp_path, subscribe=topic, maxOffsetsPerTrigger=20)
    name = f"named-{topic}"
    stream.run(name)
    ends = {TopicPartition(topic, 0): 30, TopicPartition(topic, 1): 20}
    assert eventually(lambda: topics.committed(name) == ends), topics.committed(name)


def test_a_given_group_outweighs_the_querys_name(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 30)
    group = f"group-{topic}"
    stream = Stream(spark, topics, tmp_path, subscribe=topic, **{"kafka.group.id": group})
    stream.run(f"named-{topic}")
    ends = {TopicPartition(topic, 0): 30}
    assert eventually(lambda: topics.committed(group) == ends)
    assert topics.committed(f"named-{topic}") == {}


def test_partitions_that_come_later_are_read_from_their_beginning(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 10)
    stream = Stream(spark, topics, tmp_path, subscribe=topic, maxOffsetsPerTrigger=1000)
    stream.run()
    topics.grow(topic, 3)
    topics.number(topic, 2, 10, 40)
    stream.run()
    assert stream.values() == list(range(50))
    topics.number(topic, 1, 50, 5)
    stream.run()
    assert stream.values() == list(range(55))


def test_a_topic_made_anew_is_data_loss_and_is_read_from_its_beginning_if_asked(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 10)
    stream = Stream(spark, topics, tmp_path, subscribe=topic)
    stream.run()
    topics.delete(topic)
    assert eventually(lambda: topics.created(topic))
    topics.number(topic, 0, 100, 25)
    with pytest.raises(StreamingQueryException, match=f"{topic} was deleted and made again"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert stream.values() == [*range(10), *range(100, 125)]
    topics.number(topic, 0, 125, 5)
    stream.run()
    assert stream.values() == [*range(10), *range(100, 130)]


def test_offsets_that_retention_took_are_data_loss_and_are_stepped_over_if_asked(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    if "HEADRACE_TEST_BOOTSTRAP" in os.environ:
        pytest.skip("another broker looks at retention too seldom to wait for it")
    topic = topics.create(configs={"retention.ms": "-1"})
    topics.number(topic, 0, 0, 10)
    stream = Stream(spark, topics, tmp_path, subscribe=topic)
    stream.run()
    topics.number(topic, 0, 10, 10)
    partition = TopicPartition(topic, 0)
    topics.expire(topic)
    if not eventually(lambda: topics.earliest(partition) >= 20):
        pytest.fail("the broker did not apply retention")
    topics.keep(topic)
    topics.number(topic, 0, 20, 10)
    with pytest.raises(StreamingQueryException, match=f"of {topic}-0 are gone"):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert stream.values() == [*range(10), *range(20, 30)]


def test_a_stream_with_a_least_of_offsets_takes_what_is_there_and_ends(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 30)
    stream = Stream(spark, topics, tmp_path, subscribe=topic, minOffsetsPerTrigger=1000)
    stream.run()
    assert stream.values() == list(range(30))


def test_another_topics_checkpoint_is_one_error(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    one, two = topics.create(), topics.create()
    topics.number(one, 0, 0, 10)
    stream = Stream(spark, topics, tmp_path, subscribe=one)
    stream.run()
    with pytest.raises(StreamingQueryException, match=f"the checkpoint is of {one} and the query"):
        stream.run(subscribe=two)
