"""The table `accounts` of a database as a Delta table: `python -m examples.cdc.accounts DIRECTORY`.

Rows are upserted by key in the order of the database's log, not in the order of arrival: an older
change that arrives late, after a retry or from another partition, neither replaces a newer row nor
brings a deleted one back. A change that does not fit the columns ends the program: a table without
it would not be the database's.
"""

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import headrace.spark
from examples.cdc.changes import TOPIC

ROW = "STRUCT<id: BIGINT, name: STRING, balance: DECIMAL(12,2)>"
CHANGE = f"before {ROW}, after {ROW}, op STRING NOT NULL, source STRUCT<lsn: BIGINT> NOT NULL"
BATCH_RECORDS_MAX = 100_000
"""A batch is merged in the driver's memory."""


def changes(spark: SparkSession, bootstrap: str) -> DataFrame:
    """Return the changes of the topic. Of a tombstone, which compaction needs, all are null."""
    return (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH_RECORDS_MAX)
        .option("valueSchema", CHANGE)
        .load()
    )


def rows_of(events: DataFrame) -> DataFrame:
    """Return the row behind each change: the new one, or the key of a deleted one."""
    return events.where("op IN ('c', 'u', 'd', 'r')").selectExpr(
        "coalesce(after.id, before.id) AS id",
        "after.name AS name",
        "after.balance AS balance",
        "source.lsn AS lsn",
        "op = 'd' AS deleted",
    )


def start(spark: SparkSession, bootstrap: str, directory: Path, *, once: bool) -> StreamingQuery:
    """Start the query that keeps the table up to date; `once`: for the changes that there are."""
    writer = (
        rows_of(changes(spark, bootstrap))
        .writeStream.format("headrace-table")
        .queryName("accounts")
        .option("tableFormat", "delta")
        .option("upsertBy", "id")
        .option("upsertOrder", "lsn")
        .option("deleteWhen", "deleted")
        .option("checkpointLocation", str(directory / "checkpoints" / "accounts"))
    )
    trigger = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="10 s")
    return trigger.start(str(directory / "accounts"))


def main() -> None:
    """Keep the table up to date."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-b", "--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--once", action="store_true", help="end after the changes that there are")
    parser.add_argument("directory", type=Path)
    given = parser.parse_args()
    spark = headrace.spark.session("accounts")
    query = start(spark, given.bootstrap, given.directory.absolute(), once=given.once)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
