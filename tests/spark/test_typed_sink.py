"""`valueSchema` of the sink on a real Spark and broker: what is written is read back equal."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from tests.spark.kit import Topics

DDL = (
    "id BIGINT NOT NULL, flag BOOLEAN, tiny TINYINT, small SMALLINT, n INT, price DECIMAL(12,2),"
    " ratio DOUBLE, part FLOAT, name STRING, raw BINARY, day DATE, at TIMESTAMP,"
    " since TIMESTAMP COMMENT 'epoch ms', local TIMESTAMP_NTZ, tags ARRAY<STRING>,"
    " size STRUCT<w: INT, h: DOUBLE>, counts MAP<STRING, SMALLINT>"
)
ROWS = """
    SELECT id, id % 2 = 0 AS flag, CAST(id AS TINYINT) AS tiny, CAST(id AS SMALLINT) AS small,
      CAST(id AS INT) AS n, CAST(id / 3 AS DECIMAL(12,2)) AS price, id / 7 AS ratio,
      CAST(id / 11 AS FLOAT) AS part, concat('quote " ', id) AS name, unhex('FF00') AS raw,
      date_add(DATE'2026-11-28', CAST(id AS INT)) AS day,
      timestamp_micros(id * 1234567) AS at, timestamp_micros(id * 7654321) AS since,
      CAST('2026-11-28 10:00:00.5' AS TIMESTAMP_NTZ) AS local,
      IF(id = 3, NULL, array('a', NULL, CAST(id AS STRING))) AS tags,
      IF(id = 4, NULL, named_struct('w', CAST(id AS INT), 'h', 0.1D)) AS size,
      map('x', CAST(id AS SMALLINT), 'y', NULL) AS counts
    FROM range(10)
"""


def sinks(topics: Topics, topic: str, **options: str) -> dict[str, str]:
    named = {"kafka.bootstrap.servers": topics.bootstrap, "topic": topic, "pipeline": topic}
    return named | {"valueSchema": DDL} | options


def read_back(
    spark: SparkSession, topics: Topics, topic: str, ddl: str = DDL
) -> list[tuple[object, ...]]:
    source = spark.read.format("headrace").option("kafka.bootstrap.servers", topics.bootstrap)
    frame = source.option("subscribe", topic).option("valueSchema", ddl).load()
    return [tuple(row)[:-3] for row in frame.orderBy("_offset").collect()]


def test_every_type_is_read_back_as_it_was_written(spark: SparkSession, topics: Topics) -> None:
    topic, copy = topics.create(), topics.create()
    rows = spark.sql(ROWS).coalesce(1)
    rows.write.format("headrace").options(**sinks(topics, topic)).mode("append").save()
    expected = [tuple(row) for row in rows.orderBy("id").collect()]
    assert read_back(spark, topics, topic) == expected
    # What the source reads is written again, without the columns of the record that it adds.
    source = spark.read.format("headrace").option("kafka.bootstrap.servers", topics.bootstrap)
    typed = source.option("subscribe", topic).option("valueSchema", DDL).load().coalesce(1)
    typed.write.format("headrace").options(**sinks(topics, copy)).mode("append").save()
    assert read_back(spark, topics, copy) == expected


def test_stream_writes_structs_and_tombstones_with_keys(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    source, topic = topics.create(), topics.create()
    ids = spark.range(4).select(sf.col("id").cast("string").alias("value")).coalesce(1)
    ids.write.format("headrace").options(
        **{"kafka.bootstrap.servers": topics.bootstrap, "topic": source, "pipeline": source}
    ).mode("append").save()
    number = sf.struct(sf.col("key").cast("int").alias("n"))
    stream = (
        spark.readStream.format("headrace").option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", source).option("startingOffsets", "earliest").load()
        .select(sf.col("value").cast("string").alias("key"))
        .select("key", sf.when(sf.col("key") != "2", number).alias("value"))
    )  # fmt: skip
    query = (
        stream.writeStream.format("headrace").trigger(availableNow=True)
        .options(**sinks(topics, topic, valueSchema="n INT", checkpointLocation=str(tmp_path)))
        .start()
    )  # fmt: skip
    query.awaitTermination()
    found = spark.read.format("headrace").option("kafka.bootstrap.servers", topics.bootstrap)
    records = found.option("subscribe", topic).load().orderBy("offset").collect()
    assert {bytes(row["key"]): row["value"] and bytes(row["value"]) for row in records} == {
        b"0": b'{"n":0}', b"1": b'{"n":1}', b"2": None, b"3": b'{"n":3}',
    }  # fmt: skip


def test_value_that_does_not_fit_fails_the_write_and_nothing_is_written(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.create()
    rows = spark.range(300).select(sf.col("id").alias("n"))
    with pytest.raises(PySparkException, match="n: a value does not fit TINYINT"):
        rows.write.format("headrace").options(**sinks(topics, topic, valueSchema="n TINYINT")).mode(
            "append"
        ).save()
    assert read_back(spark, topics, topic, "n TINYINT") == []
