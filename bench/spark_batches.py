"""Milliseconds of a micro-batch of 1,000 rows into the noop sink, beside an empty Python source's.

The empty source has as many tasks and the same columns, and its tasks yield nothing: what it takes
is Spark's own. Both run in one session, in turn. The first batches of each round are not counted.

    python -m bench.spark_scan fill 127.0.0.1:9092 batches --records 1000000
    python -m bench.spark_batches 127.0.0.1:9092 batches

`--async-progress`: with Spark's asynchronous progress tracking, to be compared with its like.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
ROWS = 1000
WARM_BATCHES = 15
ROUND_SECONDS_MAX = 300
COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp,"
    " timestampType int"
)


class EmptyReader(DataSourceStreamReader):
    """Offsets that move on, tasks that yield nothing."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"at": 0}

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: N802
        return {"at": start["at"] + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(CORES)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(())


class EmptySource(DataSource):
    """`format("empty")`."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        return EmptyReader()


def measure(
    bootstrap: str, topic: str, *, batches: int = 100, rounds: int = 3, async_progress: bool = False
) -> dict[str, Any]:
    """p50 and p95 of `batches` micro-batches in each of `rounds`, ours and the empty source's."""
    spark = _session()
    spark.dataSource.register(EmptySource)
    ours = (
        spark.readStream.format("headrace").option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic).option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS)
    )  # fmt: skip
    taken: dict[str, list[float]] = {"headrace": [], "empty": []}
    parts: dict[str, list[dict[str, int]]] = {"headrace": [], "empty": []}
    try:
        for _ in range(rounds):
            for name in taken:
                frame = ours.load() if name == "headrace" else _empty(spark)
                for progress in _batches(frame, batches, async_progress=async_progress):
                    if name == "headrace" and progress["numInputRows"] != ROWS:
                        raise RuntimeError(f"a batch of {progress['numInputRows']} rows")
                    taken[name].append(progress["durationMs"]["triggerExecution"])
                    parts[name].append(progress["durationMs"])
    finally:
        spark.stop()
    return {
        name: {
            "p50 ms": median(taken[name]),
            "p95 ms": quantiles(taken[name], n=20)[-1],
            "of which": {
                part: median(one.get(part, 0) for one in parts[name]) for part in parts[name][0]
            },
        }
        for name in taken
    }


def _session() -> "SparkSession":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    import headrace.spark

    return headrace.spark.session(
        "batches",
        **{
            "spark.master": f"local[{CORES}]",
            "spark.driver.memory": "2g",
            "spark.sql.streaming.numRecentProgressUpdates": 100_000,
        },
    )


def _empty(spark: "SparkSession") -> "DataFrame":
    return spark.readStream.format("empty").load()


def _batches(frame: "DataFrame", count: int, *, async_progress: bool) -> list[dict[str, Any]]:
    """The progress of `count` batches after those that warm up."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        writer = frame.writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(Path(directory) / "checkpoint"))
        if async_progress:
            writer = writer.option("asyncProgressTrackingEnabled", "true")
        query = writer.start()
        deadline = time.monotonic() + ROUND_SECONDS_MAX
        try:
            while len(query.recentProgress) < WARM_BATCHES + count:
                if query.exception() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the query ended early: {query.exception()}")
                time.sleep(0.2)
            every = query.recentProgress[WARM_BATCHES : WARM_BATCHES + count]
            return [json.loads(progress.json) for progress in every]
        finally:
            query.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="Milliseconds of micro-batches of 1,000 rows")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--async-progress", action="store_true")
    given = parser.parse_args()
    figures = measure(
        given.bootstrap, given.topic, batches=given.batches, rounds=given.rounds,
        async_progress=given.async_progress,
    )  # fmt: skip
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
