"""Tables by other readers, while a batch is being written: they see what is committed."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pyarrow.dataset as ds
import pytest

from tests.support.spark.tables import Run, read, rows


def by_pyarrow(path: Path, kind: str) -> list[int]:
    return sorted(read(path, kind).column("offset").to_pylist())


def by_duckdb(path: Path, kind: str) -> list[int]:
    """Delta and Iceberg through Arrow: duckdb's own readers of them are downloads."""
    connection = duckdb.connect()
    if kind == "parquet":
        query = (
            f"select \"offset\" from read_parquet('{path}/**/*.parquet', hive_partitioning=true)"
        )
        return sorted(row[0] for row in connection.execute(query).fetchall())
    connection.register("held", read(path, kind))
    return sorted(row[0] for row in connection.execute('select "offset" from held').fetchall())


def by_polars(path: Path, kind: str) -> list[int]:
    if kind == "parquet":
        frame = polars.scan_parquet(f"{path}/**/*.parquet", hive_partitioning=True).collect()
    elif kind == "delta":
        frame = polars.read_delta(str(path))
    else:
        frame = polars.DataFrame(read(path, kind))
    return sorted(frame["offset"].to_list())


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("reader", [by_pyarrow, by_duckdb, by_polars])
def test_readers_see_what_is_committed_and_no_more(
    tmp_path: Path, kind: str, reader: Callable[[Path, str], list[int]]
) -> None:
    run = Run(tmp_path, kind, partitionBy="partition,day(timestamp)")
    run.batch(0, 0, 60, days=3)
    run.plan(1, 80)
    prepared = run.tasks(1, rows(60, 20))
    assert reader(run.path, kind) == list(range(60))
    assert prepared.commit()
    assert reader(run.path, kind) == list(range(80))


def test_a_directory_is_read_with_its_partitions(tmp_path: Path) -> None:
    run = Run(tmp_path, "parquet", partitionBy="day(timestamp)")
    run.batch(0, 0, 60, days=3)
    table = ds.dataset(run.path, format="parquet", partitioning="hive").to_table()
    assert set(table.column("timestamp_day").to_pylist()) == {
        "1970-01-01", "1970-01-02", "1970-01-03",
    }  # fmt: skip
