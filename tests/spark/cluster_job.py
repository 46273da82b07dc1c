"""A program whose executors are elsewhere: a topic into a topic and into a table. Prints JSON."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import headrace.spark

EXECUTORS = 2


def main(master: str, bootstrap: str, topic: str, copy: str, directory: Path) -> dict[str, Any]:
    """Return what was counted, and the processes that tasks ran in."""
    spark = headrace.spark.session(
        "cluster", **{"spark.master": master, "spark.executor.memory": "512m"}
    )
    try:
        context: Any = spark.sparkContext
        waits: Any = context._jsc.sc()
        while waits.getExecutorMemoryStatus().size() < 1 + EXECUTORS:
            time.sleep(0.5)
        # Of each task, the daemon that forked its worker: an executor has one.
        daemons = context.parallelize(range(16), 16).map(lambda _: os.getppid()).collect()
        reader = spark.read.format("headrace").option("kafka.bootstrap.servers", bootstrap)
        rows = reader.option("subscribe", topic).load().count()
        stream = spark.readStream.format("headrace").option("kafka.bootstrap.servers", bootstrap)
        records = stream.options(subscribe=topic, startingOffsets="earliest").load()
        copied = (
            records.select("key", "value")
            .writeStream.format("headrace")
            .options(topic=copy, pipeline=copy)
            .option("kafka.bootstrap.servers", bootstrap)
        )
        table = records.writeStream.format("headrace-table").options(
            tableFormat="delta", pipeline=copy, path=str(directory / "table")
        )
        for name, writer in (("copy", copied), ("table", table)):
            checkpoint = str(directory / f"check-{name}")
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            query.start().awaitTermination()
        return {"executors": len(set(daemons)), "own": os.getpid() in daemons, "rows": rows}
    finally:
        spark.stop()


if __name__ == "__main__":
    given_master, given_bootstrap, given_topic, given_copy, given_directory = sys.argv[1:]
    counted = main(given_master, given_bootstrap, given_topic, given_copy, Path(given_directory))
    print(json.dumps(counted))
