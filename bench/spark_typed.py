"""A topic of JSON as columns in Spark: decoded by our source, or by Spark's `from_json`.

What is timed is one job, from the call that reads the topic to the end of the write.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import headrace.spark
from bench.json_lines import DDL, FIELDS
from bench.process_tree import cpu_seconds, process_tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

VALUE_SCHEMA, FROM_JSON = "valueSchema", "from_json"
CORRUPT = "_corrupt_record"
OURS_TABLE, SPARK_PARQUET = "headrace-table", "parquet"
ROW_BYTES_MAX = 1024
"""More than a row of `json_lines` has in Arrow."""


def typed(reader: "DataFrameReader | DataStreamReader", parser: str, mode: str = "") -> "DataFrame":
    """Return the fields of a topic's values and the records' positions.

    `mode`: of refused values, by Spark's names; empty: the parser's default. With PERMISSIVE there
    is a column for their text.
    """
    ddl = f"{DDL}, {CORRUPT} STRING" if mode == "PERMISSIVE" else DDL
    if parser == VALUE_SCHEMA:
        reader = reader.option("valueSchema", ddl)
        return (reader.option("mode", mode) if mode else reader).load()
    options = f", map('mode', '{mode}')" if mode else ""
    row = f"from_json(string(value), '{ddl}'{options}) row"
    positions = ("partition", "offset", "timestamp")
    return reader.load().selectExpr(row, *positions).selectExpr("row.*", *positions)


def _batch(
    spark: "SparkSession", source: str, bootstrap: str, topic: str, parser: str, mode: str = ""
) -> "DataFrame":
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap)
    return typed(reader.option("subscribe", topic), parser, mode)


def digest(
    spark: "SparkSession", source: str, bootstrap: str, topic: str, parser: str
) -> list[str]:
    """Return the rows' number and the sum of their hashes: equal for the same rows."""
    return _digest(_batch(spark, source, bootstrap, topic, parser))


def _digest(rows: "DataFrame") -> list[str]:
    hashes = f"sum(cast(xxhash64({', '.join(FIELDS)}) AS DECIMAL(38, 0)))"
    found = rows.selectExpr("count(*)", hashes).collect()[0]
    return [str(figure) for figure in found]


def scan(
    spark: "SparkSession", source: str, bootstrap: str, topic: str, parser: str, mode: str = ""
) -> tuple[float, float]:
    """Read all columns into the noop sink; seconds, and CPU seconds of all processes."""

    def job() -> None:
        rows = _batch(spark, source, bootstrap, topic, parser, mode)
        rows.write.format("noop").mode("overwrite").save()

    return _timed(job)


def declare_rows(spark: "SparkSession", row_bytes_max: int) -> None:
    """Declare the largest row in bytes, as docs/spark.md has it; 0: leave Spark's own limits."""
    from headrace.spark.sessions import row_bound

    for name in (row_bound.ROW_BYTES_MAX, row_bound.ROWS_PER_BATCH, row_bound.BYTES_PER_BATCH):
        spark.conf.unset(name)
    if row_bytes_max:
        declared = {row_bound.ROW_BYTES_MAX: row_bytes_max}
        headrace.spark.builder("bench", **declared).getOrCreate()


def write(
    spark: "SparkSession", source: str, bootstrap: str, topic: str, parser: str, sink: str
) -> tuple[float, float, list[str]]:
    """Write a topic into Parquet; seconds, CPU seconds, and the digest of what the files hold."""
    directory = tempfile.mkdtemp(prefix="bench-typed-")

    def job() -> None:
        rows = _batch(spark, source, bootstrap, topic, parser)
        writer = rows.write.format(sink).option("compression", "zstd").mode("append")
        if sink == OURS_TABLE:
            writer = writer.option("tableFormat", "parquet")
        writer.save(f"{directory}/table")

    try:
        return *_timed(job), _digest(spark.read.parquet(f"{directory}/table"))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _timed(job: Callable[[], None]) -> tuple[float, float]:
    cpu, began = cpu_seconds(process_tree(os.getpid())), time.perf_counter()
    job()
    seconds = time.perf_counter() - began
    return seconds, cpu_seconds(process_tree(os.getpid())) - cpu
