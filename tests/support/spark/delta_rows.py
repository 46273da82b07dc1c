"""Delta tables with a column of each type, and the differences of two of them."""

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from headrace.pipeline.diffs.compare import DiffSettings, compare
from headrace.pipeline.diffs.table_diff import TableDiff
from headrace.spark.tables.delta_parts.snapshot import snapshot_of

OTHER_NAN: float = struct.unpack("d", struct.pack("Q", 0xFFF8000000000001))[0]
NAN = float("nan")
AT = datetime(2026, 11, 24, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("day", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("flag", pa.bool_()),
        ("amount", pa.float64()),
        ("ratio", pa.float32()),
        ("price", pa.decimal128(12, 2)),
        ("wide", pa.decimal128(38, 10)),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("born", pa.date32()),
        ("inner", pa.struct([("x", pa.float64()), ("y", pa.list_(pa.int64()))])),
        ("list", pa.list_(pa.float64())),
        ("map", pa.map_(pa.string(), pa.float64())),
    ]
)


def row(offset: int, **values: Any) -> dict[str, Any]:
    """A row; every third one has nulls, every fourth one NaN."""
    empty, odd = offset % 3 == 0, NAN if offset % 4 == 0 else offset / 7
    found = {
        "day": f"d{offset % 2}",
        "_partition": offset % 2,
        "_offset": offset,
        "flag": offset % 2 == 0,
        "amount": odd,
        "ratio": odd,
        "price": Decimal(offset) / 100,
        "wide": Decimal("1234567890123456789012345678.0000000001"),
        "name": f"n{offset}",
        "raw": bytes([offset % 256, 0]),
        "at": AT,
        "local": AT.replace(tzinfo=None),
        "born": date(2026, 11, 24),
        "inner": {"x": odd, "y": [offset, None]},
        "list": [odd, None, 0.0],
        "map": [("a", odd), ("b", None)],
    }
    if empty:
        found |= dict.fromkeys(SCHEMA.names[3:])
    return found | values


def table(path: Path, *files: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> Path:
    """A Delta table, partitioned by day if it has one, a commit for each list of rows."""
    for rows in files:
        partition_by = ["day"] if "day" in schema.names else None
        write_deltalake(
            path,
            pa.Table.from_pylist(rows, schema=schema),
            mode="append",
            partition_by=partition_by,
        )
    return path


def diff(before: Path, after: Path, **settings: Any) -> TableDiff:
    return compare(snapshot_of(before), snapshot_of(after), DiffSettings(**settings))


def changes(found: TableDiff) -> dict[str, int]:
    return {column.name: column.changed for column in found.columns if column.changed}
