"""Seconds to write a topic into a table as one batch, and Parquet as Spark itself writes it."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("parquet", "delta", "iceberg")
SPARK_PARQUET = "spark-parquet"


def write(spark: "SparkSession", source: str, bootstrap: str, topic: str, kind: str) -> float:
    """Write the topic into a table of this kind, made for it; seconds."""
    reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap)
    records = reader.option("subscribe", topic).load()
    directory = Path(tempfile.mkdtemp(prefix="headrace-tables-"))
    try:
        started = time.perf_counter()
        if kind == SPARK_PARQUET:
            records.write.option("compression", "zstd").parquet(str(directory / "table"))
        else:
            writer = records.write.format("headrace-table").option("tableFormat", kind)
            if kind == "iceberg":
                writer = writer.option("table", "bench.scan")
            writer.mode("append").save(str(directory / "table"))
        return time.perf_counter() - started
    finally:
        shutil.rmtree(directory)
