"""Nulls inside of columns: what a table takes, what it refuses, and that it can be read after."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema

from headrace.spark.tables.columns import fits, null_refused, nullable, nullable_inside
from headrace.spark.tables.errors import TableError
from tests.support.spark.tables import FORMATS, Run, iceberg_table, read, write

POINT = pa.struct([pa.field("p", pa.int32(), False), pa.field("q", pa.string(), False)])
ITEMS = pa.list_(pa.field("element", pa.int32(), False))
NAMED = pa.map_(pa.string(), pa.field("value", pa.int32(), False))
DEEPER = pa.list_(pa.field("element", POINT, False))
FILLED: dict[str, tuple[pa.DataType, Any, Any]] = {
    "field of a struct": (POINT, {"p": 1, "q": "x"}, {"p": None, "q": "x"}),
    "struct": (POINT, {"p": 1, "q": "x"}, None),
    "element of an array": (ITEMS, [1], [1, None]),
    "array": (ITEMS, [1], None),
    "value of a map": (NAMED, [("k", 1)], [("k", None)]),
    "deeper": (DEEPER, [{"p": 1, "q": "x"}], [None, {"p": None, "q": None}]),
}
"""A type without nulls inside, a value of it, and one with nulls."""


def batch(kind: pa.DataType, *values: Any, nullable: bool = True) -> pa.RecordBatch:
    """Rows of one column `c`, whose type is taken as Spark gives it: nulls inside or not."""
    column = pa.array(values, nullable_inside(kind))
    rows = pa.record_batch([pa.array(range(len(values))), column], names=["id", "c"])
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("c", kind, nullable)])
    arrays = [rows.column(0), _as(column, kind)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array declared so, as Spark's JVM sends it: below null structs there are nulls."""
    if pa.types.is_struct(kind):
        children = [column.field(at) for at in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())
    return column.cast(kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_null_struct_of_fields_without_nulls_is_written(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind, mergeEvery=2)
    for number in range(2):  # the second merges
        write(run, number, batch(POINT, {"p": number, "q": "x"}, None))
    found = read(run.path, kind).column("c").to_pylist()
    assert sorted(map(str, found)) == sorted(
        map(str, [None, None, {"p": 0, "q": "x"}, {"p": 1, "q": "x"}])
    )


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("inside", FILLED)
def test_table_made_by_rows_without_nulls_inside_takes_them_later(
    tmp_path: Path, kind: str, inside: str
) -> None:
    full, first, later = FILLED[inside]
    run = Run(tmp_path, kind, mergeEvery=2)  # files of both go into one
    write(run, 0, batch(full, first, nullable=False))
    if kind != "parquet":  # its small files wait out of sight until they are merged
        assert read(run.path, kind).num_rows == 1
    write(run, 1, batch(nullable_inside(full), later))
    found = read(run.path, kind).sort_by("id").column("c").to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, [first, later]))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_nulls_inside_are_refused_with_a_path_where_the_table_takes_none(
    tmp_path: Path, kind: str
) -> None:
    run = Run(tmp_path, kind)
    rows = batch(POINT, {"p": 1, "q": "x"}, nullable=False)
    _create_required(run, kind, rows.schema)
    for refused in (batch(POINT, None), batch(nullable_inside(POINT), {"p": None, "q": "x"})):
        with pytest.raises(TableError, match=r"c.* takes no nulls, .* ALTER COLUMN c.* DROP NOT"):
            write(run, 1, refused)
    write(run, 1, rows)
    assert read(run.path, kind).column("c").to_pylist()[0] == {"p": 1, "q": "x"}


def _create_required(run: Run, kind: str, schema: pa.Schema) -> None:
    """Make a table as another program or an older release of ours does: no nulls inside."""
    if kind == "delta":
        run.path.mkdir()
        DeltaTable.create(str(run.path), Schema.from_arrow(schema))
        return
    write(run, 0, batch(POINT, {"p": 0, "q": "x"}))
    table = iceberg_table(run.path)
    newest = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(newest.read_text())
    for field in metadata["schemas"][0]["fields"][1]["type"]["fields"]:
        field["required"] = True
    newest.write_text(json.dumps(metadata))


def test_parquet_directory_of_an_older_release_goes_on(tmp_path: Path) -> None:
    run = Run(tmp_path, "parquet")
    write(run, 0, batch(POINT, {"p": 1, "q": "x"}, nullable=False))
    (entry,) = sorted((run.path / "_headrace/log").glob("*1.json"))[-1:]
    for path in (run.path / "_headrace/log").glob("*.json"):
        text = path.read_text().replace("p: int32", "p: int32 not null")
        path.write_text(text)
    assert "not null" in entry.read_text()
    write(run, 1, batch(POINT, None))
    assert read(run.path, "parquet").num_rows == 2


def test_all_of_a_new_tables_schema_is_nullable_but_keys_of_maps() -> None:
    named = pa.map_(pa.field("key", POINT, False), pa.field("value", DEEPER, False))
    schema = nullable([pa.field("c", named, False)])
    assert str(schema.field("c").type).count("not null") == 0
    kind = schema.field("c").type
    assert schema.field("c").nullable
    assert (kind.key_field.nullable, kind.item_field.nullable) == (False, True)
    assert all(field.nullable for field in kind.key_type)
    assert kind.item_type.value_field.nullable
    assert all(field.nullable for field in kind.item_type.value_type)


@pytest.mark.parametrize(
    ("rows", "column", "path"),
    [
        (pa.field("c", POINT, False), pa.field("c", POINT, False), None),
        (pa.field("c", POINT), pa.field("c", POINT, False), "c"),
        (pa.field("c", POINT), pa.field("c", POINT), "c.p"),
        (pa.field("c", POINT), pa.field("c", nullable_inside(POINT)), None),
        (pa.field("c", nullable_inside(POINT), False), pa.field("c", POINT), "c.p"),
        (pa.field("c", ITEMS), pa.field("c", ITEMS), None),
        (pa.field("c", nullable_inside(ITEMS)), pa.field("c", ITEMS), "c.element"),
        (pa.field("c", NAMED), pa.field("c", NAMED), None),
        (pa.field("c", nullable_inside(NAMED)), pa.field("c", NAMED), "c.value"),
        (pa.field("c", nullable_inside(DEEPER)), pa.field("c", DEEPER), "c.element"),
    ],
)
def test_first_field_that_takes_no_nulls_is_named(
    rows: pa.Field, column: pa.Field, path: str | None
) -> None:
    assert null_refused(rows, column) == path


@pytest.mark.parametrize(
    ("rows", "fit"),
    [
        (pa.struct([("p", pa.int32()), ("q", pa.string())]), True),
        (pa.struct([("p", pa.int16())]), True),
        (pa.struct([("p", pa.string())]), False),
        (pa.struct([("p", pa.int64())]), False),
        (pa.struct([("p", pa.int32()), ("z", pa.int32())]), False),
        (pa.list_(pa.int32()), False),
    ],
)
def test_struct_fits_where_each_of_its_fields_does(rows: pa.DataType, fit: bool) -> None:
    assert fits(rows, POINT) is fit
    assert fits(pa.list_(rows), DEEPER) is fit
    assert fits(pa.map_(pa.string(), rows), pa.map_(pa.string(), POINT)) is fit


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_of_another_type_inside_are_refused_with_a_sentence(tmp_path: Path, kind: str) -> None:
    run = Run(tmp_path, kind)
    write(run, 0, batch(POINT, {"p": 1, "q": "x"}))
    other = pa.struct([("p", pa.string()), ("q", pa.string())])
    with pytest.raises(TableError, match="c is struct"):
        write(run, 1, batch(other, {"p": "1", "q": "x"}))
    assert read(run.path, kind).num_rows == 1


def test_files_take_nulls_inside_whatever_the_query_declares(tmp_path: Path) -> None:
    run = Run(tmp_path, "delta")
    write(run, 0, batch(POINT, {"p": 1, "q": "x"}, nullable=False))
    (path,) = run.path.glob("*.parquet")
    assert all(field.nullable for field in pq.read_schema(path).field("c").type)
