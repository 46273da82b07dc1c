"""Columns that a query adds on day two, and changes of columns that are refused."""

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.types import LongType

from headrace.spark.tables import attempts
from headrace.spark.tables.errors import TableError
from tests.support.spark.tables import FORMATS, Run, held, iceberg_table, parquet_files, read, write
from tests.unit.spark.tables.test_table_commits import Racing

ITEM = pa.struct([("name", pa.string()), ("count", pa.int32())])
ADDED: list[tuple[str, pa.DataType, Any]] = [
    ("amount", pa.float64(), 2.5),
    ("flag", pa.bool_(), True),
    ("share", pa.decimal128(12, 2), None),
    ("at", pa.timestamp("us", "UTC"), datetime(2026, 11, 28, tzinfo=UTC)),
    ("local", pa.timestamp("us"), datetime(2026, 11, 28)),
    ("item", ITEM, {"name": "a", "count": 3}),
    ("items", pa.list_(ITEM), [{"name": "a", "count": None}, None]),
    ("by_name", pa.map_(pa.string(), pa.int64()), [("k", 1)]),
]


def batch(first: int, *added: tuple[str, pa.DataType, Any], count: int = 4) -> pa.RecordBatch:
    """Rows with these offsets, a region and more columns."""
    columns = {
        "id": pa.array(range(first, first + count), pa.int64()),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "region": pa.array(["eu" if n % 2 else "us" for n in range(count)], pa.string()),
    }
    columns |= {name: pa.array([value] * count, kind) for name, kind, value in added}
    return pa.record_batch(columns)


def rows_of(run: Run, kind: str) -> list[dict[str, Any]]:
    if kind != "parquet":
        return sorted(read(run.path, kind).to_pylist(), key=lambda row: row["offset"])
    files = [pq.read_table(run.path / path, partitioning=None) for path in parquet_files(run.path)]
    whole = pa.concat_tables(files, promote_options="default")
    return sorted(whole.to_pylist(), key=lambda row: row["offset"])


@pytest.mark.parametrize(
    ("kind", "partition"),
    [*zip(FORMATS, ("", "", ""), strict=True), ("delta", "region"), ("iceberg", "region")],
)
def test_a_new_column_is_added_by_the_commit_of_its_batch(
    tmp_path: Path, kind: str, partition: str
) -> None:
    run = Run(tmp_path, kind, partitionBy=partition)
    write(run, 0, batch(0))
    before = DeltaTable(run.path).version() if kind == "delta" else 0
    write(run, 1, batch(4, *ADDED), batch(8, *ADDED))
    found = rows_of(run, kind)
    assert [row["offset"] for row in found] == list(range(12))
    for name, _, value in ADDED:
        assert [row[name] for row in found] == [None] * 4 + [value] * 8, name
    assert [row["region"] for row in found] == ["us", "eu"] * 6
    if kind == "delta":
        assert DeltaTable(run.path).version() == before + 1
        assert DeltaTable(run.path).metadata().configuration["headrace.pipeline"] == "orders"
    assert not run.tasks(1, batch(4, *ADDED)).commit()
    write(run, 2, batch(12, *ADDED))
    assert len(rows_of(run, kind)) == 16


@pytest.mark.parametrize("kind", FORMATS)
def test_a_batch_that_is_not_committed_adds_no_column(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    write(run, 0, batch(0))
    run.plan(1, 1)
    run.tasks(1, batch(4, *ADDED))
    assert set(rows_of(run, kind)[0]) == {"id", "offset", "region"}
    assert "amount" not in run_columns(run)
    run.tasks(1, batch(4, *ADDED)).commit()
    assert "amount" in run_columns(run)


def run_columns(run: Run) -> set[str]:
    table = run.table
    table.reload()
    return set(table.columns())


@pytest.mark.parametrize("kind", FORMATS)
def test_no_file_of_a_batch_with_new_columns_is_left_behind(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    write(run, 0, batch(0))
    write(run, 1, batch(4, *ADDED))
    assert len(parquet_files(run.path)) == 2
    assert not [path for path in run.path.rglob("_headrace/attempts/*") if path.is_file()]


def test_a_driver_that_dies_after_the_commit_leaves_files_to_the_next_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, "delta")
    write(run, 0, batch(0))

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(attempts, "sweep", die)
        with pytest.raises(KeyboardInterrupt):
            write(run, 1, batch(4, *ADDED))
    assert len(parquet_files(run.path)) == 3
    assert not run.tasks(1, batch(4, *ADDED)).commit()
    assert len(parquet_files(run.path)) == 2
    assert len(rows_of(run, "delta")) == 8


@pytest.mark.parametrize("kind", FORMATS)
def test_of_two_runs_that_add_a_column_one_counts(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    write(run, 0, batch(0))
    run.plan(1, 1)
    first, second = run.tasks(1, batch(4, *ADDED)), run.tasks(1, batch(4, *ADDED))
    racing = Racing(run.table, first)
    assert not second.commit(racing.table)
    assert racing.lost
    assert len(rows_of(run, kind)) == 8


@pytest.mark.parametrize("kind", FORMATS)
def test_pipelines_that_add_different_columns_do_not_mix_them(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind, shared=True)
    write(run, 0, batch(0))
    other = Run(tmp_path, kind, "other", shared=True)
    other.options["pipeline"] = "other"
    other.plan(0, 0)
    run.plan(1, 1)
    theirs = other.tasks(0, batch(4, ("theirs", pa.int64(), 5)))
    ours = run.tasks(1, batch(8, ("ours", pa.int64(), 7)))
    racing = Racing(run.table, theirs)
    if kind == "iceberg":
        with pytest.raises(TableError, match="columns were added while the batch was written"):
            ours.commit(racing.table)
        run.tasks(1, batch(8, ("ours", pa.int64(), 7))).commit()
    else:
        assert ours.commit(racing.table)
    found = rows_of(run, kind)
    assert [row["theirs"] for row in found] == [None] * 4 + [5] * 4 + [None] * 4
    assert [row["ours"] for row in found] == [None] * 8 + [7] * 4


@pytest.mark.parametrize("kind", FORMATS)
def test_overwrite_adds_columns_too(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    write(run, 0, batch(0))
    write(run, 1, batch(4, *ADDED[:4]), overwrite=True)
    found = rows_of(run, kind)
    assert [row["offset"] for row in found] == [4, 5, 6, 7]
    assert [row["amount"] for row in found] == [2.5] * 4


def test_upserts_add_columns_too(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta", upsertBy="id", deleteWhen="gone")
    gone = ("gone", pa.bool_(), False)
    write(run, 0, batch(0, gone))
    write(run, 1, batch(2, gone, *ADDED))
    found = sorted(read(run.path, "delta").to_pylist(), key=lambda row: row["id"])
    assert [row["id"] for row in found] == list(range(6))
    for name, _, value in ADDED:
        assert [row[name] for row in found] == [None] * 2 + [value] * 4, name


@pytest.mark.parametrize("kind", FORMATS)
def test_small_files_of_before_and_after_are_merged(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind, mergeEvery=3)
    write(run, 0, batch(0))
    write(run, 1, batch(4, *ADDED))
    write(run, 2, batch(8, *ADDED))
    assert len(parquet_files(run.path) if kind == "parquet" else held(run)) == 1
    # pyiceberg itself reads null lists of structs as empty ones if a file has both.
    location = iceberg_table(run.path).location() if kind == "iceberg" else str(run.path)
    (path,) = parquet_files(run.path) if kind == "parquet" else held(run)
    rows = pq.read_table(Path(location.removeprefix("file://")) / path, partitioning=None)
    found = sorted(rows.to_pylist(), key=lambda row: row["offset"])
    for name, _, value in ADDED:
        assert [row[name] for row in found] == [None] * 4 + [value] * 8, name


@pytest.mark.parametrize("kind", FORMATS)
def test_a_column_of_another_type_is_one_error_that_says_how_to_continue(
    tmp_path: Path, kind: str
) -> None:
    run = Run(tmp_path, kind)
    write(run, 0, batch(0, ("amount", pa.int64(), 5)))
    text = r"amount is int64, not string, .* cast the column in the query, .* startingOffsets"
    with pytest.raises(TableError, match=text):
        write(run, 1, batch(4, ("amount", pa.string(), "5")))
    assert len(rows_of(run, kind)) == 4


@pytest.mark.parametrize("kind", FORMATS)
def test_a_column_that_the_query_no_longer_writes_is_one_error(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    amount, note = ("amount", pa.int64(), 5), ("note", pa.string(), "x")
    write(run, 0, batch(0, amount))
    for columns in ([], [note]):
        with pytest.raises(TableError, match=r"no longer writes: add CAST\(NULL AS …\) AS amount"):
            write(run, 1, batch(4, *columns))
    write(run, 1, batch(4, ("amount", pa.int64(), None)))
    assert [row["amount"] for row in rows_of(run, kind)] == [5] * 4 + [None] * 4


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_null_without_a_type_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    write(run, 0, batch(0, ("amount", pa.int64(), 5)))
    for name in ("amount", "note"):
        with pytest.raises(TableError, match=rf"write CAST\(NULL AS …\) AS {name}"):
            write(run, 1, batch(4, (name, pa.null(), None)))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_columns_that_others_added_are_null_in_later_batches(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    write(run, 0, batch(0))
    if kind == "delta":
        from deltalake import Field
        from deltalake.schema import PrimitiveType

        DeltaTable(run.path).alter.add_columns([Field("theirs", PrimitiveType("long"))])
    else:
        with iceberg_table(run.path).update_schema() as change:
            change.add_column("theirs", LongType())
    write(run, 1, batch(4))
    write(run, 2, batch(8, ("ours", pa.int64(), 1)))
    found = rows_of(run, kind)
    assert [row["theirs"] for row in found] == [None] * 12
    assert [row["ours"] for row in found] == [None] * 8 + [1] * 4


@pytest.mark.parametrize("kind", FORMATS)
def test_a_name_that_differs_by_case_only_is_refused(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    write(run, 0, batch(0))
    with pytest.raises(TableError, match="has a column region, and the query writes Region"):
        write(run, 1, batch(4, ("Region", pa.string(), "x")))


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "lz4", "zstd"])
def test_new_columns_keep_the_compression(tmp_path: Path, codec: str) -> None:
    run = Run(tmp_path, "delta", compression=codec)
    write(run, 0, batch(0))
    before = held(run)
    write(run, 1, batch(4, *ADDED[:1]))
    codecs = [
        pq.read_metadata(run.path / path).row_group(0).column(0).compression
        for path in itertools.chain(before, held(run) - before)
    ]
    assert codecs[0] == codecs[1]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_partition_values_of_any_type_survive_new_columns(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind, partitionBy="region,number,flag,day(at)")
    fields = [("number", pa.int32(), 5), ("flag", pa.bool_(), False), ADDED[3]]
    write(run, 0, batch(0, *fields))
    write(run, 1, batch(4, *fields, ("note", pa.string(), "x")))
    write(
        run,
        2,
        batch(
            8,
            *[(name, each, None) for name, each, _ in fields],
            ADDED[0],
            ("note", pa.string(), None),
        ),
    )
    found = rows_of(run, kind)
    assert [(row["number"], row["flag"], row["at"]) for row in found[4:]] == [
        (5, False, fields[2][2])
    ] * 4 + [(None, None, None)] * 4
