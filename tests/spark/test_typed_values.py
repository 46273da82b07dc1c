"""`valueSchema` on a real Spark: typed rows in batch and streaming reads."""

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.record.batch import Record
from tests.spark.kit import TIME_MS, Topics

DDL = (
    "id BIGINT NOT NULL, price DECIMAL(12,2), at TIMESTAMP, day DATE, tags ARRAY<STRING>,"
    " size STRUCT<w: INT, h: DOUBLE>, counts MAP<STRING, SMALLINT>, raw BINARY"
)


def record(number: int) -> bytes:
    row = {
        "id": number, "price": f"{number}.50", "at": "2026-11-28T10:00:00.25+02:00",
        "day": "2026-11-28", "tags": ["a", None], "size": {"w": number, "h": 0.1},
        "counts": {"x": 1}, "raw": "aGk=",
    }  # fmt: skip
    return json.dumps(row).encode()


@pytest.fixture
def topic(topics: Topics) -> str:
    """A topic of two sound records, a malformed one and a tombstone."""
    name = topics.create()
    values = [record(1), b'{"id":"x"}', record(2), None]
    topics.append(name, 0, [Record(at, TIME_MS, None, value) for at, value in enumerate(values)])
    return name


def reader(source: Any, topics: Topics, topic: str, **options: str) -> Any:
    named = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, **options}
    return source.format("headrace").options(valueSchema=DDL, **named)


def test_every_type_reaches_spark(spark: SparkSession, topics: Topics, topic: str) -> None:
    frame = reader(spark.read, topics, topic, mode="DROPMALFORMED").load()
    first, second, tombstone = frame.orderBy("_offset").collect()
    assert (first["id"], second["id"], tombstone["id"]) == (1, 2, None)
    assert first["price"] == Decimal("1.50")
    assert (
        first["at"].timestamp()
        == datetime.fromisoformat("2026-11-28T08:00:00.25+00:00").timestamp()
    )
    assert first["day"].isoformat() == "2026-11-28"
    assert first["tags"] == ["a", None]
    assert first["size"].asDict() == {"w": 1, "h": 0.1}
    assert first["counts"] == {"x": 1}
    assert bytes(first["raw"]) == b"hi"
    assert [row["_offset"] for row in (first, second, tombstone)] == [0, 2, 3]
    assert first["_partition"] == 0


def test_failfast_ends_the_query_and_names_the_record(
    spark: SparkSession, topics: Topics, topic: str
) -> None:
    with pytest.raises(PySparkException, match=f"{topic}-0@1: id: expected an integer"):
        reader(spark.read, topics, topic).load().collect()


def test_a_stream_gives_typed_rows_and_quotes_refused_ones(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    options = {
        "mode": "PERMISSIVE", "startingOffsets": "earliest", "columns": "offset",
        "valueSchema": "id BIGINT, _corrupt_record STRING",
    }  # fmt: skip
    stream = reader(spark.readStream, topics, topic).options(**options).load()
    query = (
        stream.writeStream.format("memory").queryName("typed").trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path)).start()
    )  # fmt: skip
    query.awaitTermination()
    rows = spark.sql("SELECT * FROM typed ORDER BY _offset").collect()
    assert [tuple(row) for row in rows] == [
        (1, None, 0), (None, '{"id":"x"}', 1), (2, None, 2), (None, None, 3),
    ]  # fmt: skip
