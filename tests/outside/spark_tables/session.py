"""A Spark with the jars of Delta and Iceberg, asked for SQL and streams line by line.

    python -m tests.outside.spark_tables.session JARS WAREHOUSE

Its Python has pyspark and nothing of ours.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

from tests.outside.spark_tables.values import plain
from tests.support.net.line_process import answers_alone, serve

STREAM_SECONDS_MAX = 120
_ERROR_CHARACTERS_MAX = 1500


class Session:
    """What is asked for, by its name."""

    def __init__(self, jars: str, warehouse: Path) -> None:
        settings = {
            "spark.jars": jars,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            # Statements of some rows: compiling code for each takes longer than all of them.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # The catalog that our sink keeps beside the warehouse, by the name it has there.
            "spark.sql.catalog.headrace": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.headrace.type": "jdbc",
            "spark.sql.catalog.headrace.uri": f"jdbc:sqlite:{warehouse}/catalog.db",
            "spark.sql.catalog.headrace.warehouse": f"file://{warehouse}",
            # Else what others commit is seen half a minute later.
            "spark.sql.catalog.headrace.cache-enabled": "false",
        }
        builder = SparkSession.builder.appName("tables").master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()

    def version(self) -> str:
        """Spark's release."""
        return self._spark.version

    def sql(self, text: str) -> list[Any]:
        """Rows of a statement, each a list of plain values."""
        return [
            [plain(_of_spark(value)) for value in row] for row in self._spark.sql(text).collect()
        ]

    def stream(self, kind: str, table: str, directory: str) -> list[Any]:
        """Offsets that a stream from the table has read when it is at the end, of all its runs."""
        rows = self._spark.readStream.format(kind)
        read = rows.load(table) if kind == "delta" else rows.table(table)
        query = (
            read.select("offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", f"{directory}/check")
            .trigger(availableNow=True)
            .start(f"{directory}/read")
        )
        query.awaitTermination(STREAM_SECONDS_MAX)
        found = self._spark.read.parquet(f"{directory}/read").collect()
        return sorted(row.offset for row in found)

    def answer(self, asked: Sequence[Any]) -> dict[str, Any]:
        """What is asked for, or the error."""
        name, *arguments = asked
        try:
            return {"found": getattr(self, name)(*arguments)}
        except Exception as error:  # noqa: BLE001 - whoever asked will judge it
            return {"error": f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS_MAX]}

    def stop(self) -> None:
        self._spark.stop()


def _of_spark(value: Any) -> Any:
    """Rows as objects and maps as pairs, as Arrow has them."""
    if isinstance(value, Row):
        return {name: _of_spark(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return [[_of_spark(key), _of_spark(each)] for key, each in value.items()]
    return [_of_spark(each) for each in value] if isinstance(value, list) else value


def main() -> None:
    answers = answers_alone()
    session = Session(sys.argv[1], Path(sys.argv[2]))
    try:
        serve(answers, session.answer)
    finally:
        session.stop()


if __name__ == "__main__":
    main()
