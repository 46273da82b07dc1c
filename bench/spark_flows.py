"""Streaming queries of typed topics into Parquet in one session, all at once.

Each query has a topic of its own and batches of 1,000 rows without a pause between them, so what
its batches take is the share of the processors that the other queries leave.
"""

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median, quantiles
from typing import TYPE_CHECKING

from bench.process_tree import memory_megabytes, named, process_tree, resident_megabytes
from bench.spark_batches import progress_of
from bench.spark_scan import CORES
from bench.spark_typed import OURS_TABLE, typed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS = 1000
WARM_BATCHES = 5


def measure(
    spark: "SparkSession", source: str, bootstrap: str, topics: Sequence[str], parser: str,
    sink: str, batches: int,
) -> dict[str, float]:  # fmt: skip
    """Run a query for each topic; p50 and p95 of `batches` batches of each, and memory.

    Memory is that of the driver, which is this process and its JVM, and of all processes of the
    session (what they share counts once), while the queries run.
    """
    taken: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-flows-", ignore_cleanup_errors=True) as place,
        ExitStack() as stack,
    ):
        queries = []
        for topic in topics:
            query = _start(spark, source, bootstrap, topic, parser, sink, f"{place}/{topic}")
            stack.callback(query.stop)
            queries.append(query)
        for query in queries:
            for progress in progress_of(query, WARM_BATCHES, batches):
                # The connector rounds each partition's share.
                if abs(progress["numInputRows"] - ROWS) > CORES:
                    raise RuntimeError(f"a batch of {progress['numInputRows']} rows")
                taken.append(progress["durationMs"]["triggerExecution"])
        found = process_tree(os.getpid())
        driver = [os.getpid(), *named(found, "java")]
        return {
            "p50 ms": median(taken),
            "p95 ms": quantiles(taken, n=20)[-1],
            "driver RSS MB": resident_megabytes(driver),
            "all processes MB": memory_megabytes(found),
        }


def _start(
    spark: "SparkSession", source: str, bootstrap: str, topic: str, parser: str, sink: str,
    directory: str,
) -> "StreamingQuery":  # fmt: skip
    reader = (
        spark.readStream.format(source).option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic).option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS)
    )  # fmt: skip
    writer = typed(reader, parser).writeStream.format(sink).queryName(topic)
    writer = writer.option("checkpointLocation", f"{directory}/checkpoint")
    writer = writer.option("compression", "zstd")
    if sink == OURS_TABLE:
        writer = writer.option("tableFormat", "parquet")
    return writer.start(f"{directory}/table")
