"""A Spark driver to be killed: all that topics hold, into topics and into a table at once.

python -m tests.spark_kills.live_driver BOOTSTRAP PLACE TASKS TABLE_FORMAT SOURCES TARGETS QUERIES
    SETTINGS (those of the session that differ, as JSON)
"""

import json
import sys
from pathlib import Path
from typing import Any

import headrace.spark
from tests.spark_kills.live_points import PlantedTable, PlantedTopicSink

OFFSETS_A_BATCH = 150


def main() -> int:
    """Run both queries until all is written; 1 and what went wrong where one of them fails."""
    bootstrap, place, tasks, kind, sources, targets, queries, more = sys.argv[1:9]
    directory = Path(place)
    settings = {
        "spark.master": "local[2,4]",  # a task may fail three times
        "spark.local.dir": str(directory / "blocks"),
        "spark.sql.shuffle.partitions": 3,
        **json.loads(more),
    }
    spark = headrace.spark.session("kills", **settings)
    spark.dataSource.register(PlantedTopicSink)
    spark.dataSource.register(PlantedTable)
    records = (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", sources)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", OFFSETS_A_BATCH)
        .load()
    )
    first, second = targets.split(",")
    pipeline = f"live-{first}"  # a broker remembers pipelines by name: each story has its own
    rows = records.selectExpr(f"if(offset % 2 = 0, '{first}', '{second}') topic", "value")
    started = []
    if "topic" in queries:
        started.append(_topic(rows.repartition(int(tasks)), bootstrap, directory, pipeline))
    if "table" in queries:
        started.append(_table(records.repartition(int(tasks)), kind, directory, pipeline))
    for query in started:
        try:
            query.awaitTermination()
        except Exception as error:  # noqa: BLE001 - it is told
            print(error, flush=True)
    failed = any(query.exception() for query in started)
    spark.stop()
    return int(failed)


def _topic(rows: Any, bootstrap: str, directory: Path, pipeline: str) -> Any:
    return (
        rows.writeStream.format("planted")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("pipeline", pipeline)
        .option("checkpointLocation", str(directory / "topic-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def _table(records: Any, kind: str, directory: Path, pipeline: str) -> Any:
    writer = records.writeStream.format("planted-table").queryName(pipeline)
    if kind == "iceberg":
        writer = writer.option("table", "sales.orders")
    return (
        writer.option("tableFormat", kind)
        .option("mergeEvery", 1)
        .option("checkpointLocation", str(directory / "table-checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "table"))
    )


if __name__ == "__main__":
    sys.exit(main())
