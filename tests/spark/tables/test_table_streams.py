"""Streaming queries and batch jobs of a real Spark into tables of each format."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.kit import Topics
from tests.spark.long import long_only
from tests.support.spark.tables import FORMATS, fill, offsets, parquet_files, read

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

every_format = pytest.mark.parametrize(
    "kind", ["delta", *(pytest.param(kind, marks=long_only) for kind in FORMATS if kind != "delta")]
)


class Query:
    """A topic of two partitions into one table, by runs that end when all is written."""

    def __init__(self, spark: SparkSession, topics: Topics, directory: Path, kind: str) -> None:
        self.spark, self.topics, self.directory, self.kind = spark, topics, directory, kind
        self.topic = topics.create(2)
        self.path = directory / "table"

    def fill(self, first: int, count: int) -> None:
        for partition in (0, 1):
            self.topics.number(self.topic, partition, first, count)

    @property
    def records(self) -> DataFrame:
        reader = self.spark.readStream.format("headrace")
        reader = reader.option("kafka.bootstrap.servers", self.topics.bootstrap)
        return reader.options(subscribe=self.topic, startingOffsets="earliest").load()

    def start(self, **options: Any) -> "StreamingQuery":
        table = {"table": "sales.orders"} if self.kind == "iceberg" else {}
        return (
            self.records.writeStream.format("headrace-table")
            .queryName(f"orders-{self.topic}")
            .options(tableFormat=self.kind, **table, **options)
            .option("checkpointLocation", str(self.directory / "check"))
            .trigger(availableNow=True)
            .start(str(self.path))
        )

    def run(self, **options: Any) -> None:
        query = self.start(**options)
        query.awaitTermination(120)
        assert not query.isActive

    def refused(self, why: str) -> None:
        """Run, to end with this error."""
        with pytest.raises(StreamingQueryException, match=why):
            self.run()

    @property
    def offsets(self) -> list[int]:
        return offsets(self.path, self.kind)


@every_format
def test_a_topic_is_in_the_table_once_also_when_sparks_commit_file_is_lost(
    spark: SparkSession, topics: Topics, tmp_path: Path, kind: str
) -> None:
    query = Query(spark, topics, tmp_path, kind)
    query.fill(0, 300)
    query.run(partitionBy="topic,day(timestamp)", sortBy="key,offset")
    assert query.offsets == sorted([*range(300)] * 2)
    # As if the driver had been killed between the table's commit and Spark's.
    for name in ("0", ".0.crc"):
        (tmp_path / "check" / "commits" / name).unlink(missing_ok=True)
    files = parquet_files(query.path)
    query.fill(300, 100)
    query.run(partitionBy="topic,day(timestamp)", sortBy="key,offset")
    assert query.offsets == sorted([*range(400)] * 2)
    assert files <= parquet_files(query.path)
    assert set(read(query.path, kind).column("topic").to_pylist()) == {query.topic}


@long_only
@pytest.mark.parametrize("kind", FORMATS)
def test_a_disk_that_fills_is_one_error_and_the_batch_is_whole_afterwards(
    spark: SparkSession, topics: Topics, tmp_path: Path, small_disk: Path, kind: str
) -> None:
    query = Query(spark, topics, tmp_path, kind)
    query.path = small_disk / "table"
    query.fill(0, 100)
    query.run()
    query.fill(100, 100)
    fill(small_disk / "filler", leave=0)
    query.refused("no space is left at .*: nothing of this batch is in the table; make room")
    (small_disk / "filler").unlink()
    query.run()
    assert query.offsets == sorted([*range(200)] * 2)


@long_only
@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_that_has_gone_is_one_error_until_it_is_brought_back(
    spark: SparkSession, topics: Topics, tmp_path: Path, kind: str
) -> None:
    query = Query(spark, topics, tmp_path, kind)
    query.fill(0, 100)
    query.run()
    query.fill(100, 100)
    away = query.path.rename(tmp_path / "away")
    query.refused("there is no table at .* any more: bring it back and start the query again")
    assert not query.path.exists()
    away.rename(query.path)
    query.run()
    assert query.offsets == sorted([*range(200)] * 2)


@every_format
def test_a_job_with_a_number_is_written_once_and_one_without_as_often_as_it_runs(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    rows = spark.range(10).withColumnRenamed("id", "offset")
    table = {"table": "sales.orders"} if kind == "iceberg" else {}
    path = tmp_path / "table"

    def write(mode: str = "append", **options: Any) -> None:
        writer = rows.write.format("headrace-table").options(tableFormat=kind, **table, **options)
        writer.mode(mode).save(str(path))

    write(txnAppId="backfill", txnVersion=1)
    write(txnAppId="backfill", txnVersion=1)
    assert offsets(path, kind) == [*range(10)]
    write(txnAppId="backfill", txnVersion=2)
    write(shared="true")
    assert offsets(path, kind) == sorted([*range(10)] * 3)
    write("overwrite", txnAppId="backfill", txnVersion=3)
    assert offsets(path, kind) == [*range(10)]
