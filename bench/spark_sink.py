"""Rows per second of a Spark write into a topic, and the median of exactly-once micro-batches.

    python -m bench.spark_sink 127.0.0.1:9092 --records 2000000 --rounds 3

Rows are of 100-byte values with a 16-byte key, made by Spark. The first round, in which the JVM
compiles, is not counted. The micro-batches are of 1,000 rows, from Spark's rate source.
"""

import argparse
import json
import tempfile
import time
import uuid
from statistics import median
from typing import TYPE_CHECKING

from bench.spark_scan import CORES
from headrace.client.admin import create_topic
from headrace.client.sync import connect, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 2
BATCH_ROWS = 1000
BATCHES = 30
ROW = ("lpad(string(id), 16, 'k') key", "rpad(string(id), 100, 'v') value")


def main() -> None:
    """Print the figures as JSON, a line for each way of delivery and one for micro-batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    import headrace.spark

    spark = headrace.spark.session("bench", **{"spark.master": f"local[{CORES}]"})
    try:
        rates: dict[str, list[float]] = {"exactly_once": [], "at_least_once": []}
        for number in range(given.rounds + 1):
            for delivery, found in rates.items():
                rate = write(spark, given.bootstrap, given.records, delivery)
                if number:
                    found.append(rate)
        for delivery, found in rates.items():
            print(json.dumps({"delivery": delivery, "rows/s": round(median(found))}))
        print(json.dumps({"micro-batch p50 ms": micro_batches(spark, given.bootstrap)}))
    finally:
        spark.stop()


def _new_topic(bootstrap: str) -> str:
    topic = f"sink-{uuid.uuid4().hex[:8]}"
    with connect(bootstrap, client_id="bench") as client:
        run(create_topic(client, topic, partitions=PARTITIONS))
        run(client.leaders([topic]))
    return topic


def _options(bootstrap: str, topic: str, delivery: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "topic": topic,
        "delivery": delivery,
        "pipeline": topic,
        "kafka.compression.type": "lz4",
    }


def write(spark: "SparkSession", bootstrap: str, records: int, delivery: str) -> float:
    """Write so many rows in one job; rows per second."""
    rows = spark.range(0, records, 1, CORES).selectExpr(*ROW)
    options = _options(bootstrap, _new_topic(bootstrap), delivery)
    began = time.perf_counter()
    rows.write.format("headrace").options(**options).mode("append").save()
    return records / (time.perf_counter() - began)


def micro_batches(spark: "SparkSession", bootstrap: str) -> float:
    """Return the median duration of an exactly-once micro-batch, in ms."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS).load()
    options = _options(bootstrap, _new_topic(bootstrap), "exactly_once")
    with tempfile.TemporaryDirectory() as checkpoint:
        rows = stream.selectExpr("string(value) key", "rpad(string(value), 100, 'v') value")
        writer = rows.writeStream.format("headrace").options(**options)
        query = writer.option("checkpointLocation", checkpoint).start()
        durations: dict[int, float] = {}
        while len(durations) < BATCHES and query.isActive:
            time.sleep(0.2)
            for progress in query.recentProgress:
                durations[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
        query.stop()
    if not query.isActive and len(durations) < BATCHES:
        raise RuntimeError(f"the query ended early: {query.exception()}")
    return median(durations[batch] for batch in sorted(durations)[5:])


if __name__ == "__main__":
    main()
