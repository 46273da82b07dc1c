"""Rows with a column of every type that our sink writes, and whether a reader found the same."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isnan
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from headrace.spark.source.columns import row_schema
from headrace.spark.tables.errors import TableError
from headrace.spark.tables.sink import arrow_schema
from tests.outside.spark_tables.values import plain
from tests.support.spark.tables import Run, write

Row = dict[str, Any]
REGIONS = ("eu", "a/b c%=ü", None, "")
SOURCE = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_MORE = st.StructType([
    st.StructField("region", st.StringType()),
    st.StructField("tiny", st.ByteType()),
    st.StructField("small", st.ShortType()),
    st.StructField("float", st.FloatType()),
    st.StructField("double", st.DoubleType()),
    st.StructField("flag", st.BooleanType()),
    st.StructField("date", st.DateType()),
    st.StructField("price", st.DecimalType(20, 2)),
    st.StructField("local", st.TimestampNTZType()),
    st.StructField("tags", st.MapType(st.StringType(), st.IntegerType())),
    st.StructField("item", st.StructType([st.StructField("name", st.StringType())])),
    st.StructField("text", st.StringType()),
    st.StructField("nothing", st.StringType()),
])  # fmt: skip
SCHEMA = arrow_schema(st.StructType([*row_schema(SOURCE), *_MORE]))
COLUMNS = ", ".join(f"`{name}`" for name in SCHEMA.names)
FILTERS: dict[str, Callable[[Row], bool]] = {
    "offset >= 70": lambda row: row["offset"] >= 70,
    "double < 0.2": lambda row: row["double"] is not None and row["double"] < 0.2,
    "isnan(double)": lambda row: row["double"] is not None and isnan(row["double"]),
    "double = double('infinity')": lambda row: row["double"] == float("inf"),
    "price >= 70.25": lambda row: row["price"] is not None and row["price"] >= Decimal("70.25"),
    "text = ''": lambda row: row["text"] == "",
    "text > 'x'": lambda row: row["text"] is not None and row["text"] > "x",
    "flag": lambda row: row["flag"] is True,
    "nothing is null": lambda row: True,
    "key = binary('k41')": lambda row: row["key"] == b"k41",
    "date >= date'2026-01-30'": lambda row: row["date"] >= date(2026, 1, 30),
    "timestamp > timestamp'1970-01-03 00:00:00.000040'": (
        lambda row: row["timestamp"] > datetime(1970, 1, 3, 0, 0, 0, 40, UTC)
    ),
    "local <= timestamp_ntz'2026-01-01 00:00:00.000009'": (
        lambda row: row["local"] <= datetime(2026, 1, 1, 0, 0, 0, 9)
    ),
}
"""Which rows a reader should find by what: it leaves files out by their statistics."""


def rows(first: int, count: int) -> pa.RecordBatch:
    """Rows of these offsets, over three days and four regions, with nulls in most columns."""
    found = [_row(offset) for offset in range(first, first + count)]
    return pa.record_batch(
        [pa.array([row[field.name] for row in found], field.type) for field in SCHEMA], SCHEMA
    )


def moved_by(offsets: int) -> str:
    """All columns of a table's rows, at other offsets."""
    return COLUMNS.replace("`offset`", f"offset + {offsets}")


def _row(offset: int) -> Row:
    headers = [{"key": "h", "value": b"\x00\xff"}, {"key": "none", "value": None}]
    number = float("nan") if offset % 11 == 3 else float("inf") if offset == 60 else offset / 100
    return {
        "key": None if offset % 5 == 0 else b"k%d" % offset,
        "value": None if offset % 7 == 0 else b"\x00\xff%d" % offset,
        "topic": "orders",
        "partition": offset % 2,
        "offset": offset,
        "timestamp": datetime(1970, 1, 1 + offset % 3, tzinfo=UTC) + timedelta(microseconds=offset),
        "timestampType": 0,
        "headers": (None, [], headers)[offset % 3],
        "region": REGIONS[offset % 4],
        "tiny": offset % 200 - 100,
        "small": None if offset % 3 == 0 else -offset,
        "float": number,
        "double": None if offset % 13 == 0 else number,
        "flag": (True, False, None)[offset % 3],
        "date": date(2026, 1, 1) + timedelta(days=offset),
        "price": None if offset % 9 == 0 else Decimal(offset) + Decimal("0.25"),
        "local": datetime(2026, 1, 1) + timedelta(microseconds=offset),
        "tags": (None, [], [("a", None)], [("b", offset)])[offset % 4],
        "item": None if offset % 4 == 0 else {"name": None if offset % 4 == 1 else f"i{offset}"},
        "text": (None, "", "zoë 😀" * 40, f"t{offset}")[offset % 4],
        "nothing": None,
    }


def listed(parts: Iterable[pa.RecordBatch]) -> list[Row]:
    """The rows of some parts."""
    return [row for part in parts for row in part.to_pylist()]


def refused(run: Run, part: pa.RecordBatch, why: str) -> None:
    """AssertionError unless the next batch ends with one error that says why."""
    said = "written"
    try:
        write(run, 9, part)
    except TableError as error:
        said = str(error)
    assert why in said, said


def same(found: Sequence[Sequence[Any]], written: Iterable[Row], names: Sequence[str]) -> None:
    """AssertionError, with the first row that differs, unless the rows found are those written."""
    came = sorted((dict(zip(names, row, strict=True)) for row in found), key=_offset)
    went = sorted(({name: plain(row[name]) for name in names} for row in written), key=_offset)
    for one, other in zip(came, went, strict=False):
        differing = [(name, one[name], other[name]) for name in names if one[name] != other[name]]
        assert not differing, f"at offset {other['offset']}: (column, found, written) {differing}"
    offsets = [row["offset"] for row in came]
    assert len(came) == len(went), f"{len(came)} rows for {len(went)}: {offsets}"


def _offset(row: Row) -> int:
    return int(row["offset"])
