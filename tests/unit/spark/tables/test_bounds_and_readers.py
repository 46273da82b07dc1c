"""Filters on tables of ours find the rows that they find where nothing is passed over.

Readers pass over files and row groups by least and greatest values. Each reader filters the table,
and filters all rows of it in memory: both must be the same rows.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, QueryBuilder

from headrace.spark.tables import files
from tests.support.spark.tables import Run, iceberg_table, read, write

NAN, INFINITE = float("nan"), float("inf")
NAME = "\U00020bb7\u91ce"
BIG = Decimal("12345678901234567890.12345678")
COLUMNS: dict[str, tuple[pa.DataType, list[list[Any]]]] = {
    # Two files of three rows each: those of the second are greater.
    "number": (pa.int64(), [[1, 2, None], [10, 11, 12]]),
    "small": (pa.int8(), [[-1, 0, 1], [None, 100, 127]]),
    "price": (pa.float64(), [[12.5, None, 1e-300], [1e300, 13.5, 14.0]]),
    "nan": (pa.float64(), [[1.0, NAN, 2.0], [5.0, 6.0, None]]),
    "only_nan": (pa.float64(), [[NAN, NAN, NAN], [1.0, 2.0, 3.0]]),
    "weight": (pa.float32(), [[0.1, 1.5, None], [2.5, INFINITE, 1.0]]),
    "zero": (pa.float64(), [[0.0, -0.0, 0.0], [-0.0, -0.0, -0.0]]),
    "note": (pa.string(), [[None, None, None], ["x", None, "y"]]),
    "void": (pa.string(), [[None, None, None], [None, None, None]]),
    "name": (pa.string(), [[NAME, "\uffff", "a"], ["\U0010ffff" * 2, "\ud7ff" * 70, ""]]),
    "body": (pa.string(), [["x" * 300, "y" * 64, "y" * 65], ["z" * 5000, "{", None]]),
    "paid": (pa.bool_(), [[True, True, None], [False, True, False]]),
    "share": (pa.decimal128(10, 8), [[Decimal(0), Decimal(0), None], [Decimal("1.5")] * 3]),
    "amount": (pa.decimal128(38, 8), [[Decimal(0), -BIG, None], [BIG, BIG, Decimal(1)]]),
    "day": (pa.date32(), [[date(1960, 1, 1), date(1, 1, 1), None], [date(9999, 12, 31)] * 3]),
    "moment": (
        pa.timestamp("us", "UTC"),
        [
            [datetime(1960, 1, 1, 0, 0, 0, 999_999, UTC), None, datetime(1, 1, 1, tzinfo=UTC)],
            [datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)] * 3,
        ],
    ),
    "local": (
        pa.timestamp("us"),
        [
            [datetime(2020, 1, 1, 0, 0, 0, 1), None, datetime(1970, 1, 1)],
            [datetime(2026, 1, 1)] * 3,
        ],
    ),
    "code": (pa.binary(), [[b"k", b"", None], [b"\xff" * 20, b"\x00", b"z" * 5000]]),
    "part": (
        pa.struct([("a", pa.int64()), ("f", pa.float64()), ("t", pa.string())]),
        [[{"a": 1, "f": NAN, "t": NAME}, None, {"a": 2, "f": 1.0, "t": None}],
         [{"a": 9, "f": 9.0, "t": "z" * 5000}, {"a": None, "f": None, "t": None}, None]],
    ),
    "items": (pa.list_(pa.float32()), [[[1.0, NAN], None, []], [[2.0], [None], None]]),
    "named": (pa.map_(pa.string(), pa.float64()), [[[("k", NAN)], None, []], [[("k", 1.0)]] * 3]),
    "a.dot": (pa.string(), [["a", "b", "c"], ["d", "e", None]]),
}  # fmt: skip
NOT_FILTERED_BY_PYICEBERG = ("items", "named", "a.dot")
FULL_PART = {"part": [[{"a": 1, "f": 1.0, "t": "b"}] * 3, [{"a": 9, "f": 2.0, "t": "c"}] * 3]}
"""Structs that are never null."""


def batches(names: list[str], values: dict[str, list[list[Any]]]) -> Iterator[pa.RecordBatch]:
    """The rows of each file, with a number of their own."""
    for at in range(2):
        columns = [pa.array(values[name][at], COLUMNS[name][0]) for name in names]
        numbers = pa.array(range(3 * at, 3 * at + 3), pa.int64())
        yield pa.RecordBatch.from_arrays([numbers, *columns], names=["id", *names])


def made(path: Path, kind: str, names: list[str], **other: list[list[Any]]) -> Path:
    """A table of these columns, of a file a batch."""
    run = Run(path, kind)
    values = {name: COLUMNS[name][1] for name in names} | other
    for number, batch in enumerate(batches(names, values)):
        write(run, number, batch)
    return run.path


def literals(name: str) -> list[Any]:
    """The values that a column has, and some between."""
    kind, (first, second) = COLUMNS[name]
    found = [value for value in [*first, *second] if value is not None]
    if pa.types.is_floating(kind):
        found = [*(value for value in found if value == value), 5.0, -1.0]
    return list({str(value): value for value in found}.values())


def expressions(name: str) -> Iterator[tuple[str, ds.Expression]]:
    """Filters of Arrow's on a column."""
    field, kind = ds.field(name), COLUMNS[name][0]
    yield "null", field.is_null()
    yield "valid", field.is_valid()
    if pa.types.is_nested(kind):
        return
    if pa.types.is_floating(kind):
        yield "nan", field.is_nan()
    for value in literals(name):
        scalar = pa.scalar(value, kind)
        yield f"= {value!r}", field == scalar
        yield f"> {value!r}", field > scalar
        yield f"<= {value!r}", field <= scalar
        yield f"= {value!r} or id = 5", (field == scalar) | (ds.field("id") == 5)


def conditions(name: str) -> Iterator[tuple[str, list[Any]]]:
    """Filters of SQL on a column, with what stands for their question marks."""
    yield f'"{name}" is null', []
    yield f'"{name}" is not null', []
    if pa.types.is_nested(COLUMNS[name][0]):
        return
    if pa.types.is_floating(COLUMNS[name][0]):
        yield f'isnan("{name}")', []
    for value in literals(name):
        for operator in ("=", ">", "<="):
            yield f'"{name}" {operator} ?', [value]
        yield f'"{name}" = ? or id = 5', [value]


def polars_filters(name: str) -> Iterator[tuple[str, polars.Expr]]:
    """Filters of Polars on a column."""
    column, kind = polars.col(name), COLUMNS[name][0]
    yield "null", column.is_null()
    yield "valid", column.is_not_null()
    if pa.types.is_nested(kind):
        if name == "part":
            yield "a = 1", column.struct.field("a") == 1
            yield "f > 5", column.struct.field("f") > 5
        return
    if pa.types.is_floating(kind):
        yield "nan", column.is_nan()
    series = polars.Series(pa.array(literals(name), kind))
    for at, value in enumerate(series):
        literal = polars.lit(value, series.dtype)
        yield f"= {value!r}", column == literal
        yield f"> {value!r}", column > literal
        yield f"<= {value!r}", column <= literal
        yield f"= {value!r} or id = 5 {at}", (column == literal) | (polars.col("id") == 5)


def ids(table: Any) -> list[int]:
    return sorted(table.column("id").to_pylist())


def compare_arrow(dataset: ds.Dataset, name: str) -> None:
    whole = dataset.to_table()
    for label, expression in expressions(name):
        assert ids(dataset.to_table(filter=expression)) == ids(whole.filter(expression)), label


def compare_duckdb(dataset: ds.Dataset, name: str) -> None:
    connection = duckdb.connect()
    connection.register("held", dataset)
    connection.register("whole", dataset.to_table())
    for condition, values in conditions(name):
        found = [
            connection.execute(f"select id from {table} where {condition} order by id", values)
            .fetchall()
            for table in ("held", "whole")
        ]  # fmt: skip
        assert found[0] == found[1], (condition, values)


def compare_polars(scan: polars.LazyFrame, whole: polars.DataFrame, name: str) -> None:
    for label, expression in polars_filters(name):
        found = sorted(scan.filter(expression).select("id").collect()["id"].to_list())
        assert found == sorted(whole.filter(expression)["id"].to_list()), label


DELTA_TABLES: list[tuple[str, list[str], dict[str, Any]]] = [
    *((name, [name], {}) for name in COLUMNS),
    ("all", list(COLUMNS), {}),
    ("sound", ["number", "price", "note", "void", "body", "share", "paid", "moment"], {}),
    ("full structs", ["number", "part", "note"], FULL_PART),
]


@pytest.fixture(scope="module", params=DELTA_TABLES, ids=[name for name, *_ in DELTA_TABLES])
def delta(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    _, names, other = request.param
    path = made(tmp_path_factory.mktemp("delta"), "delta", names, **other)
    return path, names


def test_pyarrow_finds_all_rows_of_a_delta_table(delta: tuple[Path, list[str]]) -> None:
    path, names = delta
    for name in names:
        compare_arrow(DeltaTable(str(path)).to_pyarrow_dataset(), name)


def test_duckdb_finds_all_rows_of_a_delta_table(delta: tuple[Path, list[str]]) -> None:
    path, names = delta
    for name in names:
        compare_duckdb(DeltaTable(str(path)).to_pyarrow_dataset(), name)


def test_polars_finds_all_rows_of_a_delta_table(delta: tuple[Path, list[str]]) -> None:
    path, names = delta
    whole = polars.read_delta(str(path))
    for name in names:
        compare_polars(polars.scan_delta(str(path)), whole, name)


def test_datafusion_finds_all_rows_of_a_delta_table(delta: tuple[Path, list[str]]) -> None:
    path, names = delta
    builder = QueryBuilder().register("held", DeltaTable(str(path)))
    whole = read(path, "delta")
    for name in names:
        kind = COLUMNS[name][0]
        for condition, expression in (
            (f'"{name}" is null', ds.field(name).is_null()),
            (f'"{name}" is not null', ds.field(name).is_valid()),
        ):
            found = pa.table(builder.execute(f"select id from held where {condition}").read_all())
            assert ids(found) == ids(whole.filter(expression)), condition
        if not (pa.types.is_string(kind) or pa.types.is_float64(kind)):
            continue
        for value in literals(name):
            for operator, function in (("=", pc.equal), (">", pc.greater)):
                text = "'" + value + "'" if isinstance(value, str) else f"cast('{value}' as double)"
                query = f'select id from held where "{name}" {operator} {text}'
                found = pa.table(builder.execute(query).read_all())
                wanted = function(whole[name], pa.scalar(value, kind))
                if operator == ">" and not isinstance(value, str):  # NaN is the greatest in SQL
                    wanted = pc.or_(wanted, pc.is_nan(whole[name]))
                assert ids(found) == ids(whole.filter(wanted)), query


def test_files_without_a_column_of_the_delta_table_are_found(tmp_path: Path) -> None:
    path = made(tmp_path, "delta", ["number", "price", "note", "paid"])
    run = Run(tmp_path, "delta", pipeline="other", shared=True)
    write(run, 2, pa.record_batch([pa.array([6, 7])], names=["id"]))
    for name in ("number", "price", "note", "paid"):
        compare_arrow(DeltaTable(str(path)).to_pyarrow_dataset(), name)
        compare_polars(polars.scan_delta(str(path)), polars.read_delta(str(path)), name)


def test_columns_beyond_those_that_readers_index_are_found(tmp_path: Path) -> None:
    names = ["id", *(f"c{number}" for number in range(40))]
    run = Run(tmp_path, "delta")
    for number in range(2):
        columns = [pa.array([number * 10.0 + at for at in range(3)]) for _ in names]
        write(run, number, pa.RecordBatch.from_arrays(columns, names=names))
    dataset = DeltaTable(str(run.path)).to_pyarrow_dataset()
    for name in names:
        assert dataset.to_table(filter=ds.field(name) > 9).num_rows == 3, name


@pytest.fixture(scope="module", params=["nan", "body", "name", "part", "all"])
def names_of_columns(request: pytest.FixtureRequest) -> list[str]:
    return list(COLUMNS) if request.param == "all" else [request.param]


@pytest.fixture
def one_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is a row group of its own: what one lacks, others may have."""
    monkeypatch.setattr(files, "ROW_GROUP_BYTES", 1)
    original = files.FileWriter._write

    def by_rows(writer: Any, key: Any, rows: pa.RecordBatch) -> None:
        for at in range(rows.num_rows):
            original(writer, key, rows.slice(at, 1))

    monkeypatch.setattr(files.FileWriter, "_write", by_rows)


@pytest.mark.usefixtures("one_row_groups")
def test_readers_find_all_rows_of_a_delta_tables_row_groups(
    tmp_path: Path, names_of_columns: list[str]
) -> None:
    path = made(tmp_path, "delta", names_of_columns)
    for name in names_of_columns:
        compare_arrow(DeltaTable(str(path)).to_pyarrow_dataset(), name)
        compare_polars(polars.scan_delta(str(path)), polars.read_delta(str(path)), name)


@pytest.mark.usefixtures("one_row_groups")
def test_readers_find_all_rows_of_parquet_files(
    tmp_path: Path, names_of_columns: list[str]
) -> None:
    path = made(tmp_path, "parquet", names_of_columns)
    connection = duckdb.connect()
    connection.register("whole", read(path, "parquet"))
    for name in names_of_columns:
        compare_arrow(ds.dataset(path, format="parquet"), name)
        compare_polars(
            polars.scan_parquet(f"{path}/*.parquet"),
            polars.DataFrame(read(path, "parquet")),
            name,
        )
        for condition, values in conditions(name):
            found = [
                sorted(connection.execute(f"select id from {table} where {condition}", values)
                .fetchall())
                for table in (f"'{path}/*.parquet'", "whole")
            ]  # fmt: skip
            assert found[0] == found[1], (condition, values)


@pytest.mark.usefixtures("one_row_groups")
def test_readers_find_all_rows_of_an_iceberg_table(
    tmp_path: Path,
    names_of_columns: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: Any = pytest.importorskip("pyiceberg.expressions")
    names = [name for name in names_of_columns if name not in NOT_FILTERED_BY_PYICEBERG]
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # its other one is a download
    path = made(tmp_path, "iceberg", names_of_columns)
    assert not [record for record in caplog.records if "statistics" in record.getMessage()]
    table = iceberg_table(path)
    whole = table.scan().to_arrow()
    assert whole.num_rows == 6
    for name in names:
        kind, field = COLUMNS[name][0], ds.field(name)
        filters: list[tuple[Any, Any]] = [
            (said.IsNull(name), field.is_null()),
            (said.NotNull(name), field.is_valid()),
        ]
        if pa.types.is_floating(kind):
            filters.append((said.IsNaN(name), field.is_nan()))
        if not pa.types.is_nested(kind) and not pa.types.is_boolean(kind):
            for value in pa.array(literals(name), kind).to_pylist():
                if value == INFINITE:  # beyond a float to pyiceberg, so never equal
                    continue
                scalar = pa.scalar(value, kind)
                filters += [
                    (said.EqualTo(name, value), field == scalar),
                    (said.GreaterThan(name, value), field > scalar),
                    (said.LessThanOrEqual(name, value), field <= scalar),
                ]
        for expression, in_memory in filters:
            found = table.scan(row_filter=expression).to_arrow()
            assert ids(found) == ids(whole.filter(in_memory)), expression
        compare_polars(polars.scan_iceberg(table), polars.scan_iceberg(table).collect(), name)
