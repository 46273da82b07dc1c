"""The demo's tables, on files instead of a topic: what lands where, and when windows close."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.access_log import tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.slow

NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)


class Record(NamedTuple):
    """A record as a source row wants it, its place left out."""

    value: bytes | None
    timestamp: datetime


def line(at: datetime, client: str = "192.0.2.1", status: int = 200, took: float = 0.01) -> Record:
    text = (
        f"{client} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "
        f'"GET /docs/?page=1 HTTP/1.1" {status} 100 "-" "Test/1" {at.timestamp():.3f} {took:.3f}'
    )
    return Record(text.encode(), at)


class Topic:
    """A directory of Parquet files that grows like a topic, and the pipeline on it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._source = folder / "topic"
        self._source.mkdir()
        self._out = folder / "out"
        self._end = 0

    def append(self, *records: Record) -> None:
        """Add records to partition 0."""
        rows = [
            {"topic": "t", "partition": 0, "offset": self._end + i, **record._asdict()}
            for i, record in enumerate(records)
        ]
        file = self._source / f"{self._end:08}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file)
        self._end += len(rows)

    def run(self, table: str) -> list[Row]:
        """Let the query of `table` take what there is; all rows the table holds then."""
        schema = self._spark.read.parquet(str(self._source)).schema
        records = self._spark.readStream.schema(schema).parquet(str(self._source))
        query = tables.start(table, records, self._out, live=False)
        query.awaitTermination()
        if not any((self._out / table).rglob("*.parquet")):
            return []
        written = self._spark.read.parquet(str(self._out / table))
        return written.orderBy(written.columns[0]).collect()


@pytest.fixture
def topic(spark: SparkSession, tmp_path: Path) -> Iterator[Topic]:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield Topic(spark, tmp_path)
    spark.conf.set("spark.sql.session.timeZone", zone or "UTC")


def test_a_line_goes_to_requests_or_to_the_quarantine_and_a_heartbeat_to_neither(
    topic: Topic,
) -> None:
    topic.append(line(NOON), Record(b"\xff junk", NOON), Record(None, NOON), line(NOON, status=404))
    assert [row.status for row in topic.run("requests")] == [200, 404]
    (refused,) = topic.run("quarantine")
    assert (refused.topic, refused.partition, refused.offset) == ("t", 0, 1)
    assert bytes(refused.raw) == b"\xff junk"
    assert refused.reason == "no client address at byte 0"


def test_the_last_window_is_written_when_a_heartbeat_says_that_time_has_passed(
    topic: Topic,
) -> None:
    topic.append(line(NOON), line(NOON + timedelta(seconds=59)))
    assert topic.run("windows") == []
    topic.append(Record(None, NOON + timedelta(minutes=4)))
    (window,) = topic.run("windows")
    assert (window.window_start.minute, window.requests) == (0, 2)


def test_a_damaged_line_does_not_move_event_time_to_its_arrival(topic: Topic) -> None:
    topic.append(line(NOON), Record(b"junk", NOON + timedelta(days=30)))
    assert topic.run("windows") == []
    topic.append(line(NOON + timedelta(seconds=30)), Record(None, NOON + timedelta(minutes=4)))
    (window,) = topic.run("windows")
    assert window.requests == 2


def test_a_window_tells_errors_latency_bytes_paths_and_the_noisy_client(topic: Topic) -> None:
    quiet = [line(NOON, f"192.0.2.{i}", took=0.5 if i == 9 else 0.02) for i in range(2, 10)]
    loud = [line(NOON, "203.0.113.9", status=429)] * tables.NOISY_REQUESTS_MIN
    failed = [line(NOON, status=502)] * 2
    topic.append(*quiet, *loud, *failed, Record(None, NOON + timedelta(minutes=4)))
    (window,) = topic.run("windows")
    assert window.requests == len(quiet) + len(loud) + len(failed)
    assert (window.client_errors, window.server_errors) == (len(loud), len(failed))
    assert (window.p50_ms, window.p99_ms, window.clients) == (10, 20, 10)
    assert window.bytes == 100 * window.requests
    assert [(top.path, top.requests) for top in window.top_paths] == [("/docs/", window.requests)]
    assert [one.client for one in window.noisy_clients] == ["203.0.113.9"]
    assert (str(window.date), window.hour) == ("2026-11-20", 12)
