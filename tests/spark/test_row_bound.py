"""`spark.headrace.rowBytesMax`: Spark counts the rows of a batch and does not measure them."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headrace.spark
from bench.spark_typed import declare_rows
from headrace.spark.sessions.row_bound import BYTES_PER_BATCH, ROW_BYTES_MAX, ROWS_PER_BATCH

DECLARED, LARGER = 26_000, 34_000
ROWS_OF_64_MB = (64 << 20) // DECLARED
"""As many rows as declared have 64 MB; larger ones have 88 MB."""


@pytest.fixture
def bounded(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of all tests, with the setting until the end of the test."""
    yield headrace.spark.builder("tests", **{ROW_BYTES_MAX: DECLARED}).getOrCreate()
    for name in (ROW_BYTES_MAX, ROWS_PER_BATCH, BYTES_PER_BATCH):
        spark.conf.unset(name)


def batches_of(spark: SparkSession, rows: int, size: int) -> list[int]:
    """Return the number of rows of each batch that a Python worker gets."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})

    made = spark.range(0, rows, 1, 1).selectExpr(f"repeat('x', {size}) AS text")
    return [row.rows for row in made.mapInArrow(count, "rows LONG").collect()]


def test_spark_measures_the_rows_of_a_batch_by_default(spark: SparkSession) -> None:
    assert batches_of(spark, 2 * ROWS_OF_64_MB, LARGER)[0] < ROWS_OF_64_MB


def test_a_batch_of_declared_rows_is_bounded_by_their_number(bounded: SparkSession) -> None:
    rows = ROWS_OF_64_MB + 10
    assert batches_of(bounded, rows, 10) == [ROWS_OF_64_MB, 10]
    # Rows above the declared size arrive, in a batch above 64 MB.
    assert batches_of(bounded, rows, LARGER) == [ROWS_OF_64_MB, 10]


def test_spark_s_own_settings_win_over_the_declared_size(bounded: SparkSession) -> None:
    headrace.spark.builder("tests", **{ROW_BYTES_MAX: DECLARED, ROWS_PER_BATCH: 7}).getOrCreate()
    assert batches_of(bounded, 15, 10) == [7, 7, 1]


def test_the_benchmark_declares_rows_and_takes_it_back(bounded: SparkSession) -> None:
    names = (ROW_BYTES_MAX, ROWS_PER_BATCH, BYTES_PER_BATCH)
    declare_rows(bounded, 65_536)
    assert [bounded.conf.get(name) for name in names] == ["65536", "1024", "2147483647"]
    declare_rows(bounded, 0)
    assert bounded.conf.get(ROW_BYTES_MAX, "none") == "none"
    assert [bounded.conf.get(name) for name in names[1:]] == ["10000", "67108864b"]
