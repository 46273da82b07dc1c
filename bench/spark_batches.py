"""Milliseconds of a micro-batch of 1,000 rows into the noop sink.

The empty source has as many tasks and the same columns as ours, and its tasks yield nothing: what
it takes is Spark's own. The first batches of each round are not counted, nor is the first round:
the JVM compiles for some hundred batches, and who is measured second would gain by it.
"""

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from bench.spark_scan import CORES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS = 1000
WARM_BATCHES = 50
ROUND_SECONDS_MAX = 300
EMPTY = "empty"
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
        return EMPTY

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802
        return EmptyReader()


def measure(
    spark: "SparkSession", source: str, bootstrap: str, topic: str, batches: int,
    async_progress: bool,
) -> dict[str, float]:  # fmt: skip
    """p50 and p95 of `batches` micro-batches from this format."""
    if source == EMPTY:
        spark.dataSource.register(EmptySource)
        frame = spark.readStream.format(EMPTY).load()
    else:
        frame = (
            spark.readStream.format(source).option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic).option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", ROWS).load()
        )  # fmt: skip
    taken = []
    for progress in _batches(frame, batches, async_progress=async_progress):
        # The connector rounds each partition's share.
        if source != EMPTY and abs(progress["numInputRows"] - ROWS) > CORES:
            raise RuntimeError(f"a batch of {progress['numInputRows']} rows")
        taken.append(progress["durationMs"]["triggerExecution"])
    return {"p50 ms": median(taken), "p95 ms": quantiles(taken, n=20)[-1]}


def _batches(frame: "DataFrame", count: int, *, async_progress: bool) -> list[dict[str, Any]]:
    """The progress of `count` batches after those that warm up."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        writer = frame.writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(Path(directory) / "checkpoint"))
        if async_progress:
            writer = writer.option("asyncProgressTrackingEnabled", "true")
        query = writer.start()
        try:
            return progress_of(query, WARM_BATCHES, count)
        finally:
            query.stop()


def progress_of(query: "StreamingQuery", first: int, count: int) -> list[dict[str, Any]]:
    """Return the progress of `count` batches from batch `first` on, when they are over."""
    deadline = time.monotonic() + ROUND_SECONDS_MAX
    # The last one alone: pyspark asks the JVM a hundred things of each that it returns.
    while (query.lastProgress or {"batchId": -1})["batchId"] < first + count - 1:
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"ended or too slow: {query.exception()}")
        time.sleep(0.2)
    by_batch = {progress["batchId"]: progress for progress in query.recentProgress}
    return [json.loads(by_batch[batch].json) for batch in range(first, first + count)]
