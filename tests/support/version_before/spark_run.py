"""A driver: copies a topic exactly once into a topic and three tables, until all is written.

    python -m tests.support.version_before.spark_run BOOTSTRAP PLACE

Run again it goes on from the checkpoints below PLACE. It runs with either version's Python.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace.spark

SOURCE, TARGET, PIPELINE = "s-in", "s-out", "golden"
DECISIONS = f"{PIPELINE}.sink.decisions"
FORMATS = ("parquet", "delta", "iceberg")
TABLE = "sales.orders"
"""Iceberg's name of the table."""


def writers(records: Any, bootstrap: str, place: Path) -> Iterator[tuple[str, Any]]:
    """Each query's name with its writer."""
    sink = records.select("key", "value").writeStream.format("headrace")
    given = {"kafka.bootstrap.servers": bootstrap, "pipeline": PIPELINE, "topic": TARGET}
    yield "sink", sink.options(**given)
    for kind in FORMATS:
        table = records.writeStream.format("headrace-table").option("tableFormat", kind)
        table = table.option("path", str(place / kind))
        yield kind, table.option("table", TABLE) if kind == "iceberg" else table


def main() -> None:
    """Run each query until it has read all there is."""
    bootstrap, place = sys.argv[1], Path(sys.argv[2])
    spark = headrace.spark.session("golden", **{"spark.master": "local[2]"})
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": SOURCE}
    options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
    records = spark.readStream.format("headrace").options(**options).load()
    for name, writer in writers(records, bootstrap, place):
        writer = writer.queryName(f"golden-{name}").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(place / f"check-{name}")).start()
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
