"""A file's statistics in Delta's log format, such that no reader skips a file with matching rows.

Delta allows any statistic to be missing. But `DeltaTable.to_pyarrow_dataset()` compares with null,
and skips the rows, if a file has bounds of some columns and lacks those of another. So a file has
bounds of all columns that may have them, or of none. Arrow's JSON readers join escaped surrogates
wrongly, so strings are not escaped; decimals are numbers with all digits, as Spark writes them.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from headrace.spark.tables.files import WrittenFile
from headrace.spark.tables.statistics import Statistics, Value, may_have_bounds


def log_statistics(file: WrittenFile, columns: Sequence[pa.Field]) -> str:
    """Return a file's statistics as JSON. `columns`: the table's, without partition columns.

    A column that the file lacks is null in all its rows.
    """
    lacking = Statistics(None, None, file.rows)
    found = {
        column.name: file.statistics.get(column.name, lacking)
        for column in columns
        if may_have_bounds(column.type)
    }
    said = {
        "numRecords": str(file.rows),
        "nullCount": _object(
            {name: str(each.nulls) for name, each in found.items() if each.nulls is not None}
        ),
    }
    if _is_complete(file, columns, found):
        bounded = {name: each for name, each in found.items() if each.least is not None}
        said["minValues"] = _object({name: _text(each.least) for name, each in bounded.items()})
        said["maxValues"] = _object({name: _text(each.greatest) for name, each in bounded.items()})
    return _object(said)


def _is_complete(
    file: WrittenFile, columns: Sequence[pa.Field], found: Mapping[str, Statistics]
) -> bool:
    """Return whether the file may have bounds: each column must have them or be all null.

    Structs get no bounds, and `to_pyarrow_dataset()` then misreads null structs, so none may be
    null.
    """
    without_null_structs = all(
        column.name in file.full_structs for column in columns if pa.types.is_struct(column.type)
    )
    return without_null_structs and all(
        each.least is not None or each.nulls == file.rows for each in found.values()
    )


def _object(members: Mapping[str, str]) -> str:
    inside = ",".join(f"{_text(name)}:{value}" for name, value in members.items())
    return f"{{{inside}}}"


def _text(value: Value | None) -> str:
    """Encode a value as JSON."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        utc = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        value = utc.isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
    elif isinstance(value, date):
        value = value.isoformat()
    return json.dumps(value, ensure_ascii=False)
