"""Rows per second from a topic into tables: Parquet, Delta, Iceberg, beside Spark's own Parquet.

    python -m bench.spark_tables 127.0.0.1:9092 scan

The topic is one that `python -m bench.spark_scan fill` has filled. Each round writes all of it as
one batch, each kind of table in turn; the first round, in which the JVM compiles, is not counted.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import headrace.spark
from bench.spark_scan import CORES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = ("spark-parquet", "parquet", "delta", "iceberg")


def tables(bootstrap: str, topic: str, rounds: int = 3) -> dict[str, Any]:
    """Return the rows of the topic, and rows/s and seconds by kind of table."""
    spark = headrace.spark.session("tables", **{"spark.master": f"local[{CORES}]"})
    try:
        reader = spark.read.format("headrace").option("kafka.bootstrap.servers", bootstrap)
        records = reader.option("subscribe", topic).load()
        rows = records.count()
        seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(1 + rounds):
            for kind in KINDS:
                seconds[kind].append(_write(records, kind))
    finally:
        spark.stop()
    rates = {kind: round(rows / median(taken[1:])) for kind, taken in seconds.items()}
    return {"rows": rows, "rows/s": rates, "seconds": seconds}


def _write(records: "DataFrame", kind: str) -> float:
    directory = Path(tempfile.mkdtemp(prefix="headrace-tables-"))
    try:
        started = time.perf_counter()
        if kind == "spark-parquet":
            records.write.option("compression", "zstd").parquet(str(directory / "table"))
        else:
            writer = records.write.format("headrace-table").option("tableFormat", kind)
            if kind == "iceberg":
                writer = writer.option("table", "bench.scan")
            writer.mode("append").save(str(directory / "table"))
        return round(time.perf_counter() - started, 3)
    finally:
        shutil.rmtree(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description="Rows per second from a topic into tables")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(json.dumps(tables(given.bootstrap, given.topic, given.rounds)))


if __name__ == "__main__":
    main()
