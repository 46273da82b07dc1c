"""Partition columns: split rows of a batch by partition, and name its directory.

`partitionBy` names columns, or `day(column)`: the UTC date of a timestamp, which Delta and Parquet
store as a column `<column>_day` and Iceberg as a hidden partition.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.spark.errors import OptionError
from headrace.spark.tables.errors import TableError

Key = tuple[str | None, ...]
"""A partition's values as strings; null as None."""
NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
"""Directory name of a null value, as Hive, Spark and Delta write it."""
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_PLAIN = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_date32,
          pa.types.is_boolean)  # fmt: skip


class PartitionField(NamedTuple):
    """A partition column."""

    column: str
    """Source column in the written rows."""
    by_day: bool = False

    @property
    def name(self) -> str:
        """Name of the table's partition column: `column`, with `_day` appended if `by_day`."""
        return f"{self.column}_day" if self.by_day else self.column


def parse_fields(text: str) -> tuple[PartitionField, ...]:
    """Parse partition columns such as "region, day(timestamp)". Raises OptionError."""
    fields = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(?:(day)\s*\(\s*)?([^()\s]+)(\s*\))?", word)
        if match is None or bool(match[1]) != bool(match[3]):
            raise OptionError(f"partitionBy: {word!r} is neither a column nor day(column)")
        fields.append(PartitionField(match[2], bool(match[1])))
    if len({field.name for field in fields}) < len(fields):
        raise OptionError(f"partitionBy: {text!r} names a column twice")
    return tuple(fields)


def check_fields(fields: Sequence[PartitionField], schema: pa.Schema) -> None:
    """Raise OptionError unless rows of this schema can be partitioned by these fields."""
    for field in fields:
        if field.column not in schema.names:
            columns = ", ".join(schema.names)
            raise OptionError(f"partitionBy: there is no column {field.column!r} in {columns}")
        kind = schema.field(field.column).type
        if field.by_day and not pa.types.is_timestamp(kind):
            raise OptionError(f"partitionBy: day({field.column}) needs a timestamp, not {kind}")
        if not field.by_day and not any(accepts(kind) for accepts in _PLAIN):
            raise OptionError(
                f"partitionBy: {field.column} is {kind}; partition by a text, integer, date or "
                "boolean column, or by day(…) of a timestamp"
            )
        if field.by_day and field.name in schema.names:
            raise OptionError(f"partitionBy: day({field.column}) makes {field.name}, a column too")


def directory_of(fields: Sequence[PartitionField], key: Key) -> str:
    """Return a partition's directory, such as "region=eu/timestamp_day=2026-11-23"; "" without
    fields."""
    return "/".join(
        f"{field.name}={NULL_DIRECTORY if value is None else _escaped(value)}"
        for field, value in zip(fields, key, strict=True)
    )


def _escaped(text: str) -> str:
    """Escape a value as Hive does in paths; Spark would unescape any other %xx."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def split(
    batch: pa.RecordBatch, fields: Sequence[PartitionField]
) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """Yield each partition's key and rows, in their original order."""
    if not fields:
        yield (), batch
        return
    if not batch.num_rows:
        return
    codes = np.zeros(batch.num_rows, np.int64)
    dictionaries = []
    for field in fields:
        encoded = _values(batch.column(field.column), field).dictionary_encode("encode")
        dictionaries.append(_values_of(encoded.dictionary, field))
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    sorted_codes = codes[order]
    starts = np.flatnonzero(np.diff(sorted_codes, prepend=sorted_codes[0] - 1))
    whole = len(starts) == 1
    ends = [*starts[1:], len(order)]
    for start, end in zip(starts, ends, strict=True):
        key: list[str | None] = []
        code = int(sorted_codes[start])
        for dictionary in reversed(dictionaries):
            code, place = divmod(code, len(dictionary))
            key.append(_text(dictionary[place]))
        yield tuple(reversed(key)), batch if whole else batch.take(pa.array(order[start:end]))


def _values_of(dictionary: pa.Array, field: PartitionField) -> list[Any]:
    try:
        values: list[Any] = dictionary.to_pylist()
    except OverflowError:
        raise TableError(
            f"partitionBy: {field.name} of some rows is outside of the years 1 to 9999, and names "
            "no partition; filter these rows out, or partition by another column"
        ) from None
    return values


def _values(column: pa.Array, field: PartitionField) -> pa.Array:
    if not field.by_day:
        return column
    # Convert to UTC first: Arrow casts to a date in the column's time zone.
    utc = column.cast(pa.timestamp("us", "UTC")) if column.type.tz else column
    return pc.floor_temporal(utc, unit="day").cast(pa.timestamp("us")).cast(pa.date32())


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)
