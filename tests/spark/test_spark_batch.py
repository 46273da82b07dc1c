"""Batch reads: every record once, in the connector's shape, between the offsets asked for."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.arrow.read.columns import COLUMNS, NEVER_NULL, schema
from headrace.record.batch import Codec, Record
from headrace.spark.source.columns import row_schema
from tests.spark.kit import TIME_MS, Topics, values_of


def read(spark: SparkSession, topics: Topics, **options: Any) -> DataFrame:
    named = {name: str(value) for name, value in options.items()}
    reader = spark.read.format("headrace").option("kafka.bootstrap.servers", topics.bootstrap)
    return reader.options(**named).load()


def test_arrow_and_spark_schemas_are_the_same() -> None:
    columns = (*COLUMNS, "headers", "amqp")
    spark_schema = to_arrow_schema(row_schema(columns), timezone="UTC")
    assert spark_schema == schema(columns, required=NEVER_NULL)
    assert spark_schema != schema(columns)


def test_only_what_a_record_may_lack_is_nullable(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    topics.append(topic, 0, [Record(0, TIME_MS, None, None)])
    frame = read(spark, topics, subscribe=topic, includeHeaders="true", includeAmqp="true")
    nullable = [column.name for column in frame.schema if column.nullable]
    assert nullable == ["key", "value", "headers", "amqp"]
    (row,) = frame.collect()
    assert [row[name] for name in nullable] == [None] * 4


@pytest.mark.parametrize(
    "columns",
    ["value binary, offset bigint", "value binary, offset bigint NOT NULL"],
)
def test_a_schema_that_is_given_says_what_may_be_null(
    spark: SparkSession, topics: Topics, columns: str
) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 3)
    reader = spark.read.format("headrace").schema(columns).option("subscribe", topic)
    frame = reader.option("kafka.bootstrap.servers", topics.bootstrap).load()
    assert frame.schema["offset"].nullable == ("NOT NULL" not in columns)
    assert [(int(row["value"]), row["offset"]) for row in frame.orderBy("offset").collect()] == [
        (0, 0), (1, 1), (2, 2),
    ]  # fmt: skip


@pytest.mark.parametrize("codec", list(Codec))
def test_every_record_comes_once_whatever_its_codec(
    spark: SparkSession, topics: Topics, codec: Codec
) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 250, codec)
    topics.number(topic, 1, 250, 150, codec)
    assert values_of(read(spark, topics, subscribe=topic).collect()) == list(range(400))


def test_a_row_is_what_was_written(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    headers = (("trace", b"\x01"), ("none", None), ("trace", b"\x02"))
    records = [Record(0, TIME_MS, None, None), Record(0, TIME_MS + 1, b"k", b"v", headers)]
    topics.append(topic, 0, records)
    frame = read(spark, topics, subscribe=topic, includeHeaders="true").orderBy("offset")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    first, second = frame.collect()
    assert (first["key"], first["value"], first["headers"]) == (None, None, None)
    assert (second["topic"], second["partition"], second["offset"]) == (topic, 0, 1)
    assert second["timestamp"].astimezone(UTC) == datetime.fromtimestamp((TIME_MS + 1) / 1000, UTC)
    assert second["timestampType"] == 0
    assert [tuple(header) for header in second["headers"]] == list(headers)


def test_offsets_bound_a_read(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 100)
    topics.number(topic, 1, 100, 100)
    frame = read(
        spark, topics, subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 95, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "1": 3}}),
    )  # fmt: skip
    assert values_of(frame.collect()) == [95, 96, 97, 98, 99, 100, 101, 102]


def test_timestamps_bound_a_read(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 100)
    topics.number(topic, 1, 100, 100)
    both = {
        "startingTimestamp": TIME_MS + 98,
        "endingOffsetsByTimestamp": json.dumps({topic: {"0": TIME_MS + 10**9, "1": TIME_MS + 102}}),
    }
    frame = read(spark, topics, subscribe=topic, **both)
    assert values_of(frame.collect()) == [98, 99, 100, 101]
    late = {"startingTimestamp": TIME_MS + 150, "subscribe": topic}
    with pytest.raises(PySparkException, match=f"no record of {topic}-0 is as late as"):
        read(spark, topics, **late).collect()
    frame = read(spark, topics, **late, startingOffsetsByTimestampStrategy="latest")
    assert values_of(frame.collect()) == list(range(150, 200))


def test_partitions_may_be_assigned_and_topics_matched(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(partitions=2)
    other = topics.create(name=topic + "-more")
    topics.number(topic, 0, 0, 10)
    topics.number(topic, 1, 10, 10)
    topics.number(other, 0, 20, 10)
    frame = read(spark, topics, assign=json.dumps({topic: [1], other: [0]}))
    assert values_of(frame.collect()) == list(range(10, 30))
    assert values_of(read(spark, topics, subscribePattern=topic + ".*").collect()) == list(
        range(30)
    )
    assert values_of(read(spark, topics, subscribePattern=topic).collect()) == list(range(20))
    assert read(spark, topics, subscribePattern="nothing-like-it").collect() == []
    with pytest.raises(PySparkException, match=f"there is no partition {topic}-7"):
        read(spark, topics, assign=json.dumps({topic: [7]})).collect()


def test_large_partitions_are_split_into_tasks(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.number(topic, 0, 0, 300)
    topics.number(topic, 1, 300, 10)
    frame = read(spark, topics, subscribe=topic, minPartitions=4)
    assert frame.rdd.getNumPartitions() >= 4
    assert values_of(frame.collect()) == list(range(310))
    frame = read(spark, topics, subscribe=topic, maxRecordsPerPartition=70)
    assert frame.rdd.getNumPartitions() == 6
    assert values_of(frame.collect()) == list(range(310))


def test_columns_may_be_left_out(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 3)
    frame = read(spark, topics, subscribe=topic, columns="offset, value")
    assert [tuple(row) for row in frame.collect()] == [(0, b"0"), (1, b"1"), (2, b"2")]
    reader = spark.read.format("headrace").schema(
        "value binary, headers array<struct<key string, value binary>>"
    )
    reader = reader.option("kafka.bootstrap.servers", topics.bootstrap).option("subscribe", topic)
    assert [tuple(row) for row in reader.load().collect()] == [
        (bytearray(b"0"), None), (bytearray(b"1"), None), (bytearray(b"2"), None),
    ]  # fmt: skip


def test_offsets_beyond_the_end_are_data_loss(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    topics.number(topic, 0, 0, 10)
    bounds = {
        "startingOffsets": json.dumps({topic: {"0": 5}}),
        "endingOffsets": json.dumps({topic: {"0": 5000}}),
        "kafkaConsumer.pollTimeoutMs": "1500",
    }
    beyond = bounds | {"startingOffsets": json.dumps({topic: {"0": 4000}})}
    with pytest.raises(PySparkException, match=f"{topic}-0 is to end at 5000, its log ends at 10"):
        read(spark, topics, subscribe=topic, **beyond).collect()
    assert read(spark, topics, subscribe=topic, failOnDataLoss="false", **beyond).collect() == []
    with pytest.raises(PySparkException, match=f"{topic}-0 is to end at 5000, its log ends at 10"):
        read(spark, topics, subscribe=topic, **bounds).collect()


def test_what_is_wrong_is_said_in_one_line(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(
        PySparkException, match="subscribbe: no such option; did you mean subscribe"
    ):
        read(spark, topics, subscribbe="t")
    with pytest.raises(
        PySparkException, match="there is no such topic: surely-not-there; create it, or correct"
    ) as missing:
        read(spark, topics, subscribe="surely-not-there").collect()
    assert "Traceback" not in str(missing.value)
    nobody = {"kafka.bootstrap.servers": "127.0.0.1:1", "fetchOffset.numRetries": "0"}
    with pytest.raises(PySparkException, match=r"cannot connect to 127\.0\.0\.1:1"):
        read(spark, topics, subscribe="t", **nobody).collect()
