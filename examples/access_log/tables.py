"""The pipeline: from the topic's records to three tables, each its own streaming query.

    requests     every line that could be read, one row each, by date and hour
    quarantine   every line that could not, with the reason, its bytes and its place in the topic
    windows      one row per minute: requests, errors, latency, bytes, top paths, noisy clients

A window is written once, when the watermark has passed its end: two minutes of event time after it,
in which slower partitions may still bring lines that belong to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from examples.access_log.line import AccessLine, parse
from headrace.pipeline.parse import parse_values, refused, understood

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

WINDOW = "1 minute"
LATENESS = "2 minutes"
TOP_PATHS = 5
NOISY_REQUESTS_MIN = 300  # a minute, from one client: five a second, all minute long
_TYPES = {
    "event_time_us": LongType(),
    "status": IntegerType(),
    "body_bytes": LongType(),
    "request_time_ms": LongType(),
}
FIELDS = StructType(
    [StructField(name, _TYPES.get(name, StringType())) for name in AccessLine._fields]
)


def read_lines(records: DataFrame) -> DataFrame:
    """Parse the values. `event_time` is the line's own, or the record's where there is no line."""
    own = sf.timestamp_micros("event_time_us")
    return parse_values(records, parse, FIELDS).withColumn(
        "event_time", sf.coalesce(own, sf.col("timestamp"))
    )


def requests(records: DataFrame) -> DataFrame:
    """One row per line that could be read."""
    lines = read_lines(records).where(understood())
    return lines.select(
        "event_time",
        *[name for name in AccessLine._fields if name != "event_time_us"],
        *("partition", "offset"),
        *_date_and_hour(sf.col("event_time")),
    )


def quarantine(records: DataFrame) -> DataFrame:
    """One row per line that could not be read; `raw` is exactly what was in the topic."""
    return (
        read_lines(records)
        .where(refused())
        .select(
            "topic", "partition", "offset", sf.col("timestamp").alias("arrived"), "reason", "raw"
        )
    )


def windows(records: DataFrame) -> DataFrame:
    """One row per minute that has ended.

    Refused lines are left out before the watermark: their event time is not known, and the time
    they arrived must not close windows. Heartbeats stay in: they move the watermark, and the window
    they open themselves is never closed by anything, so none of it is written.
    """
    timed = read_lines(records).where(~refused()).withWatermark("event_time", LATENESS)
    minutes = timed.groupBy(sf.window("event_time", WINDOW).alias("minute")).agg(*_measures())
    start = sf.col("minute.start")
    return minutes.select(
        start.alias("window_start"),
        *("requests", "redirects", "client_errors", "server_errors", "bytes", "clients"),
        sf.col("latency_ms")[0].alias("p50_ms"),
        sf.col("latency_ms")[1].alias("p99_ms"),
        _named_counts("top_paths", "path").alias("top_paths"),
        sf.filter(
            _named_counts("top_clients", "client"),
            lambda client: client["requests"] >= NOISY_REQUESTS_MIN,
        ).alias("noisy_clients"),
        *_date_and_hour(start),
    )


TABLES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "requests": requests,
    "quarantine": quarantine,
    "windows": windows,
}


def start(table: str, records: DataFrame, out: Path, *, live: bool) -> StreamingQuery:
    """Start the query that fills `out/table` from the streaming `records`.

    Live, it takes what has come every second until it is stopped; else it takes what there is and
    ends. Its checkpoint is `out/checkpoints/table`: started again, it goes on where it stopped.
    """
    writer = (
        TABLES[table](records)
        .writeStream.queryName(f"access-log-{table}")
        .format("parquet")
        .option("path", str(out / table))
        .option("checkpointLocation", str(out / "checkpoints" / table))
        .outputMode("append")
    )
    if table != "quarantine":
        writer = writer.partitionBy("date", "hour")
    if live:
        return writer.trigger(processingTime="1 second").start()
    return writer.trigger(availableNow=True).start()


def _measures() -> list[Column]:
    status, took = sf.col("status"), sf.col("request_time_ms")
    return [
        sf.count("status").alias("requests"),
        sf.count_if(status.between(300, 399)).alias("redirects"),
        sf.count_if(status.between(400, 499)).alias("client_errors"),
        sf.count_if(status >= 500).alias("server_errors"),
        sf.sum("body_bytes").alias("bytes"),
        sf.approx_count_distinct("client", 0.01).alias("clients"),
        sf.percentile_approx(took, [0.5, 0.99], 10_000).alias("latency_ms"),
        sf.expr(f"approx_top_k(path, {TOP_PATHS})").alias("top_paths"),
        sf.expr("approx_top_k(client, 10)").alias("top_clients"),
    ]


def _named_counts(column: str, name: str) -> Column:
    """approx_top_k calls its parts `item` and `count`; a reader of the table should not have to."""
    return sf.transform(
        sf.filter(column, lambda top: top["item"].isNotNull()),
        lambda top: sf.struct(top["item"].alias(name), top["count"].alias("requests")),
    )


def _date_and_hour(time: Column) -> tuple[Column, Column]:
    return sf.date_format(time, "yyyy-MM-dd").alias("date"), sf.hour(time).alias("hour")
