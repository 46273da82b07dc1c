"""Rows per second of a Spark write into a topic, and milliseconds of a sink's micro-batches.

Rows are of 100-byte values with a 16-byte key, made by Spark, written with lz4. The micro-batches
are of 1,000 rows, from Spark's rate source.
"""

import tempfile
import time
from statistics import median, quantiles
from typing import TYPE_CHECKING

from bench.spark_batches import progress_of
from bench.spark_scan import CORES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_ROWS = 1000
WARM_BATCHES = 10
ROW = ("lpad(string(id), 16, 'k') key", "rpad(string(id), 100, 'v') value")


def _options(bootstrap: str, topic: str, delivery: str) -> dict[str, str]:
    """Options of either sink; `delivery` empty: the connector's, which has but one."""
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "kafka.compression.type": "lz4",
    }
    return options | ({"delivery": delivery, "pipeline": topic} if delivery else {})


def write(
    spark: "SparkSession", sink: str, bootstrap: str, topic: str, delivery: str, records: int
) -> float:
    """Write so many rows in one job; seconds."""
    rows = spark.range(0, records, 1, CORES).selectExpr(*ROW)
    options = _options(bootstrap, topic, delivery)
    began = time.perf_counter()
    rows.write.format(sink).options(**options).mode("append").save()
    return time.perf_counter() - began


def micro_batches(
    spark: "SparkSession", sink: str, bootstrap: str, topic: str, delivery: str, batches: int
) -> dict[str, float]:
    """p50 and p95 of `batches` micro-batches into this sink."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS).load()
    rows = stream.selectExpr("string(value) key", "rpad(string(value), 100, 'v') value")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = rows.writeStream.format(sink).options(**_options(bootstrap, topic, delivery))
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            counted = [
                progress["durationMs"]["triggerExecution"]
                for progress in progress_of(query, WARM_BATCHES, batches)
            ]
        finally:
            query.stop()
    return {"p50 ms": median(counted), "p95 ms": quantiles(counted, n=20)[-1]}
