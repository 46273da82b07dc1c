"""A Spark driver to be killed: a topic into a topic and a table, with a check and quarantines.

python -m tests.spark_kills.live_quarantine_driver, with the arguments of `live_driver`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import headrace.spark
from headrace.spark.checks.check import Check, Outcome
from headrace.spark.checks.options import RowChecks
from headrace.spark.checks.with_failed import with_failed
from tests.spark_kills.live_quarantine_points import PlantedSource, PlantedTable

OFFSETS_A_BATCH = 40
CHECKS = (Check("no fifth", "id % 5 <> 0", Outcome.QUARANTINE),)


def main() -> int:
    """Run the queries until all is written; 1 and what went wrong where one of them fails."""
    bootstrap, place, tasks, kind, source, targets, queries, more = sys.argv[1:9]
    directory = Path(place)
    settings = {
        "spark.master": "local[2,4]",
        "spark.local.dir": str(directory / "blocks"),
        "spark.sql.shuffle.partitions": 3,
        **json.loads(more),
    }
    spark = headrace.spark.session("kills", **settings)
    spark.dataSource.register(PlantedSource)
    spark.dataSource.register(PlantedTable)
    target = targets.partition(",")[0]
    started = []
    for flow in queries.split(","):
        given = _Given(bootstrap, directory, f"live-{target}", flow, source)
        rows = with_failed(given.rows(spark).repartition(int(tasks)), CHECKS)
        started.append(given.to_topic(rows, target) if flow == "topic" else given.to(rows, kind))
    for query in started:
        try:
            query.awaitTermination()
        except Exception as error:  # noqa: BLE001 - it is told
            print(error, flush=True)
    failed = any(query.exception() for query in started)
    spark.stop()
    return int(failed)


class _Given:
    """The options of a flow's source and sinks."""

    def __init__(
        self, bootstrap: str, directory: Path, pipeline: str, flow: str, source: str
    ) -> None:
        self._place, self._topic = directory, source
        self._brokers = {"kafka.bootstrap.servers": bootstrap}
        self._quarantine = {
            "quarantineSpool": str(directory / "spool"),
            "quarantineFlow": flow,
            "quarantinePipeline": pipeline,
        }
        self._sink = {
            **self._brokers,
            **self._quarantine,
            **RowChecks(CHECKS, source, None, "aa").to_option(),
            "pipeline": f"{pipeline}-{flow}",
            "checkpointLocation": str(directory / f"{flow}-checkpoint"),
        }

    def rows(self, spark: Any) -> Any:
        options = {
            **self._brokers,
            **self._quarantine,
            "subscribe": self._topic,
            "startingOffsets": "earliest",
            "valueSchema": "id BIGINT NOT NULL",
            "mode": "QUARANTINE",
            "maxOffsetsPerTrigger": str(OFFSETS_A_BATCH),
        }
        return spark.readStream.format("planted").options(**options).load()

    def to_topic(self, rows: Any, topic: str) -> Any:
        rows = rows.selectExpr("CAST(id AS STRING) value", "_partition", "_offset", "_failed")
        writer = rows.writeStream.format("planted").options(**self._sink, topic=topic)
        return writer.trigger(availableNow=True).start()

    def to(self, rows: Any, kind: str) -> Any:
        writer = rows.writeStream.format("planted-table").options(**self._sink, tableFormat=kind)
        return writer.trigger(availableNow=True).start(str(self._place / "table"))


if __name__ == "__main__":
    sys.exit(main())
