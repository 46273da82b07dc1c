"""Tables with rules, features or formats that a commit of files does not keep: one error each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, TableFeatures
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from headrace.spark.tables.errors import TableError
from headrace.spark.tables.table import Table
from tests.support.spark.tables import (
    FORMATS,
    Run,
    held,
    iceberg_table,
    offsets,
    parquet_files,
    read,
    rows,
    write,
)


def refused(run: Run, batch: int, why: str) -> None:
    """A batch that is planned, and ends with this error; nothing of it is in the table."""
    before = held(run)
    with pytest.raises(TableError, match=why):
        run.batch(batch, 10, 10)
    assert held(run) == before


def test_rules_that_commits_of_files_would_not_keep_are_refused_with_their_names(
    tmp_path: Path,
) -> None:
    run = Run(tmp_path, "delta")
    run.batch(0, 0, 10)
    run.plan(1, 20)
    prepared = run.tasks(1, rows(10, 10))
    DeltaTable(str(run.path)).alter.add_constraint({"positive": "offset >= 0"})
    with pytest.raises(TableError, match=r"rules .*: delta.constraints.positive. Take them off"):
        prepared.commit()
    refused(run, 1, "delta.constraints.positive")
    DeltaTable(str(run.path)).alter.drop_constraint("positive")
    assert prepared.commit()
    assert offsets(run.path, "delta") == list(range(20))


@pytest.mark.parametrize(
    ("configuration", "metadata", "why"),
    [
        ({"delta.columnMapping.mode": "name"}, {}, "rules .*: delta.columnMapping.mode"),
        ({}, {"delta.invariants": "{}"}, "rules .*: delta.invariants of offset"),
        ({}, {"delta.generationExpression": "1"}, "rules .*: delta.generationExpression of off"),
        ({"delta.columnMapping.mode": "none"}, {"comment": "ours"}, ""),
    ],
)
def test_columns_that_are_not_written_as_they_are_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    configuration: dict[str, str],
    metadata: dict[str, str],
    why: str,
) -> None:
    run = Run(tmp_path, "delta")
    run.batch(0, 0, 10)
    field = Field("offset", PrimitiveType("long"), metadata=metadata)
    fields = [
        field if each.name == "offset" else each for each in DeltaTable(run.path).schema().fields
    ]
    # deltalake itself makes no such table: Spark does.
    monkeypatch.setattr(DeltaTable, "schema", lambda table: Schema(fields))
    made = DeltaTable.metadata
    monkeypatch.setattr(DeltaTable, "metadata", lambda table: Altered(made(table), configuration))
    if why:
        refused(run, 1, why)
    else:
        assert run.batch(1, 10, 10)


class Altered:
    """A table's metadata with more in its configuration."""

    def __init__(self, metadata: Any, more: dict[str, str]) -> None:
        self.partition_columns = metadata.partition_columns
        self.configuration = {**metadata.configuration, **more}


def test_a_feature_that_deltalake_does_not_write_is_named_and_not_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tmp_path, "delta")
    run.batch(0, 0, 10)
    DeltaTable(str(run.path)).alter.add_feature(
        TableFeatures.RowTracking, allow_protocol_versions_increase=True
    )
    refused(run, 1, r"deltalake does not write what the table has \(.*RowTracking.* DROP FEATURE")
    assert not caplog.records


def test_rows_that_may_be_null_are_refused_where_the_table_takes_none(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta")
    some = pa.record_batch([pa.array([1])], pa.schema([pa.field("offset", pa.int64(), False)]))
    DeltaTable.create(str(run.path), Schema.from_arrow(some.schema))
    refused(run, 0, "offset takes no nulls")
    other = pa.record_batch([pa.array([1])], pa.schema([pa.field("other", pa.int64(), False)]))
    with pytest.raises(TableError, match="offset takes no nulls"):
        write(run, 0, other)
    maybe = some.cast(pa.schema([pa.field("offset", pa.int64())]))
    with pytest.raises(TableError, match="offset takes no nulls, and the query may have some"):
        write(run, 0, maybe)
    write(run, 0, some)
    assert offsets(run.path, "delta") == [1]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_that_is_made_for_rows_without_nulls_takes_them_later(
    tmp_path: Path, kind: str
) -> None:
    run = Run(tmp_path, kind, mergeEvery=2)  # files of both go into one
    schema = pa.schema([pa.field("offset", pa.int64(), False)])
    write(run, 0, pa.record_batch([pa.array([1])], schema))
    write(run, 1, pa.record_batch([pa.array([None], pa.int64())], names=["offset"]))
    assert read(run.path, kind).column("offset").null_count == 1


def test_icebergs_third_format_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    run = Run(tmp_path, "iceberg")
    run.batch(0, 0, 10)
    newest = Path(iceberg_table(run.path).metadata_location.removeprefix("file://"))
    upgraded = json.loads(newest.read_text()) | {"format-version": 3, "next-row-id": 10}
    newest.write_text(json.dumps(upgraded))  # as Spark does; pyiceberg does not
    before = parquet_files(run.path)
    refused(run, 1, "sales.orders has format-version 3, and pyiceberg writes 2")
    assert parquet_files(run.path) == before


@pytest.mark.parametrize("kind", FORMATS)
def test_table_that_another_run_makes_at_the_same_time_is_written_to(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, kind)
    run.batch(0, 0, 10)
    asked: list[bool] = []

    def not_yet(_: Table) -> bool:
        asked.append(True)
        return len(asked) > 1  # this run's look came before the other had made it

    monkeypatch.setattr(type(run.table), "exists", not_yet)
    assert run.batch(1, 10, 10)
    assert offsets(run.path, kind) == list(range(20))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_commit_that_makes_a_table_too_late_is_no_error(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, kind)

    def make_first(error: Exception) -> Callable[..., Any]:
        def make(*_: Any, **__: Any) -> None:
            monkeypatch.undo()
            Run(tmp_path, kind).tasks(0)  # another run is faster
            raise error

        return make

    if kind == "delta":
        monkeypatch.setattr(DeltaTable, "create", make_first(CommitFailedError("version 0")))
    else:
        late = make_first(CommitFailedException("the table exists"))
        monkeypatch.setattr(Catalog, "create_table_transaction", late)
        monkeypatch.setattr(SqlCatalog, "create_table_transaction", late)
    assert run.batch(0, 0, 10)
    assert offsets(run.path, kind) == list(range(10))
