"""Upserts: the table holds the last value of each key, and no key whose last value is null."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.spark.errors import OptionError
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.options import Upsert
from headrace.spark.tables.upserts.changes import changes_of, deleted_columns
from headrace.spark.tables.upserts.deleted_keys import NO_FILE, read_deleted_keys
from tests.support.spark.tables import SCHEMA, Run, parquet_files, read

UPSERT = Upsert(("key",), "offset", "value")


def records(first: int, *pairs: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    count = len(pairs)
    return pa.record_batch(
        [
            [key for key, _ in pairs],
            [value for _, value in pairs],
            pa.array([0] * count, pa.int32()),
            range(first, first + count),
            pa.array([0] * count, SCHEMA[4].type),
        ],
        schema=SCHEMA,
    )


def newest(rows: pa.Table, upsert: Upsert = UPSERT) -> list[dict[str, Any]]:
    """Return the newest change of each key in a batch of a table without deleted keys."""
    nothing = read_deleted_keys(Path(), NO_FILE, deleted_columns(upsert, rows.schema), 0)
    found: list[dict[str, Any]] = changes_of(rows, upsert, nothing, 0).rows.to_pylist()
    return found


def table_of(run: Run) -> dict[bytes, bytes]:
    found = read(run.path, "delta")
    keys, values = found.column("key").to_pylist(), found.column("value").to_pylist()
    assert len(keys) == len(set(keys))
    return dict(zip(keys, values, strict=True))


def test_the_last_value_of_each_key_is_kept_and_tombstones_delete(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta", upsertBy="key")
    run.plan(0, 4)
    first = [
        records(0, (b"a", b"1"), (b"b", b"1")),
        records(2, (b"a", b"2"), (b"c", None)),
    ]
    assert run.tasks(0, *first).commit()
    assert table_of(run) == {b"a": b"2", b"b": b"1"}
    run.plan(1, 9)
    second = [records(5, (b"b", None), (b"c", b"3"), (b"a", None), (b"a", b"4"))]
    assert run.tasks(1, *second).commit()
    assert table_of(run) == {b"a": b"4", b"c": b"3"}


def test_a_batch_that_is_repeated_is_not_merged_again(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta", upsertBy="key")
    run.plan(0, 1)
    assert run.tasks(0, records(0, (b"a", b"1"))).commit()
    files = parquet_files(run.path)
    assert not run.tasks(0, records(0, (b"a", b"1"))).commit()
    assert parquet_files(run.path) == files
    assert run.tasks(0, records(0, (b"a", b"1"))).run.table.last_marker() is not None


def test_files_of_a_merged_batch_are_swept(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta", upsertBy="key")
    run.plan(0, 1)
    prepared = run.tasks(0, records(0, (b"a", b"1")))
    assert prepared.commit()
    assert not (run.path / prepared.files[0].path).exists()


def test_of_two_runs_at_once_one_merges(tmp_path: Path) -> None:
    from tests.unit.spark.tables.test_table_commits import Racing

    run = Run(tmp_path, "delta", upsertBy="key")
    run.plan(0, 1)
    run.tasks(0, records(0, (b"a", b"1"))).commit()
    run.plan(1, 2)
    first = run.tasks(1, records(1, (b"a", b"2")))
    second = run.tasks(1, records(1, (b"a", b"2")))
    racing = Racing(run.table, first)
    assert not second.commit(racing.table)
    assert racing.lost
    assert table_of(run) == {b"a": b"2"}


def test_rows_without_a_key_are_refused_not_dropped(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta", upsertBy="key")
    run.plan(0, 1)
    with pytest.raises(TableError, match="1 rows of the batch have no key"):
        run.tasks(0, records(0, (b"a", b"1"), (None, b"x"))).commit()
    assert table_of(run) == {}


def test_a_column_of_truths_deletes_too() -> None:
    flags = pa.table({"key": ["a", "b"], "offset": [1, 2], "gone": [True, None]})
    upsert = Upsert(("key",), "offset", "gone")
    assert [row["_headrace_deleted"] for row in newest(flags, upsert)] == [True, False]


def test_the_highest_order_counts_whichever_comes_first() -> None:
    mixed = pa.table({"key": ["a", "a", "a"], "offset": [2, 9, 3], "value": ["x", None, "y"]})
    last = newest(mixed)
    assert [(row["offset"], row["_headrace_deleted"]) for row in last] == [(9, True)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"upsertBy": "nokey"}, "upsertBy: there is no column 'nokey'"),
        ({"upsertBy": "key", "upsertOrder": "age"}, "upsertOrder: there is no column"),
        ({"upsertBy": "key", "partitionBy": "key"}, "leave partitionBy out"),
        ({"deleteWhen": "gone"}, "needs upsertBy"),
        ({"deleteRetentionMs": "5"}, "needs upsertBy"),
    ],
)
def test_what_cannot_be_merged_is_refused(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        Run(tmp_path, "delta", **options).batch(0, 0, 10)
