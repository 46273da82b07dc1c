"""Bounds and null counts of a file's columns, for the logs of table formats.

Readers skip a file by these bounds, so each bound holds for every reader or is left out. Parquet's
own bounds of floating-point columns ignore NaN, which Spark, DuckDB and Polars sort above all
numbers. So our files omit them and bounds are computed from the rows. Parquet may omit bounds of
strings longer than 4 KiB; for these the rows' first characters are used.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.spark.tables.columns import is_list

TEXT_CHARACTERS = 64
"""Maximum length of a string bound, in characters."""
_LONG_TEXT_BYTES = 4000
"""Length in bytes from which Parquet may omit a string's bounds."""
_SURROGATES = range(0xD800, 0xE000)
_LAST_CHARACTER = 0x10FFFF

Value = int | float | bool | str | Decimal | date | datetime
"""Types of values that may have bounds."""


class Statistics(NamedTuple):
    """The statistics of a column in a file."""

    least: Value | None
    """Lower bound; None: only nulls, or no bound that holds for all readers."""
    greatest: Value | None
    nulls: int | None
    """Number of nulls; None if unknown."""


class RowBounds:
    """The bounds of a file that Parquet's footer lacks, computed from its rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self._floating = [field.name for field in schema if pa.types.is_floating(field.type)]
        self._texts = [field.name for field in schema if is_text(field.type)]
        self.full_structs = {field.name for field in schema if pa.types.is_struct(field.type)}
        """Names of struct columns without a null so far."""
        self.nulls = dict.fromkeys(self._floating, 0)
        self.unbounded: set[str] = set()
        """Columns with NaN or infinity, which get no bounds."""
        self.bounds: dict[str, tuple[Value, Value]] = {}

    def look_at(self, rows: pa.Table) -> None:
        """Include rows in the bounds, before they are written."""
        for name in self._floating:
            values = rows.column(name)
            self.nulls[name] += values.null_count
            if not pc.all(pc.is_finite(values), min_count=0).as_py():
                self.unbounded.add(name)
            else:
                found = pc.min_max(values).as_py()
                self._add(name, _below_zero(found["min"]), _above_zero(found["max"]))
        for name in self._texts:
            longest = pc.max(pc.binary_length(rows.column(name))).as_py() or 0
            if longest >= _LONG_TEXT_BYTES:
                starts = pc.utf8_slice_codeunits(rows.column(name), 0, TEXT_CHARACTERS)
                found = pc.min_max(starts).as_py()
                is_whole = len(found["max"]) < TEXT_CHARACTERS
                greatest = found["max"] if is_whole else _raised(found["max"])
                if greatest is None:
                    self.unbounded.add(name)
                else:
                    self._add(name, found["min"], greatest)

        self.full_structs = {name for name in self.full_structs if not rows.column(name).null_count}

    def _add(self, name: str, least: Value | None, greatest: Value | None) -> None:
        if least is None or greatest is None:
            return
        known = self.bounds.get(name, (least, greatest))
        self.bounds[name] = min(known[0], least), max(known[1], greatest)


def with_footer_bounds(schema: pa.Schema) -> list[str]:
    """Return the Parquet leaf columns whose bounds may be in a footer: all but floating-point
    ones."""
    return [path for field in schema for path, kind in _leaves(field) if not _is_floating(kind)]


def statistics_of(
    footer: pq.FileMetaData, schema: pa.Schema, looked: RowBounds
) -> dict[str, Statistics]:
    """Return a Parquet file's statistics by column, for non-nested columns that may have bounds.

    `looked`: the bounds of all rows of the file, used for floating-point columns.
    """
    found: dict[str, Statistics] = {}
    place = 0
    for field in schema:
        leaves = sum(1 for _ in _leaves(field))
        if _is_floating(field.type):
            found[field.name] = _of_rows(field.name, looked, looked.nulls[field.name])
        elif may_have_bounds(field.type):
            chunks = [
                footer.row_group(group).column(place) for group in range(footer.num_row_groups)
            ]
            found[field.name] = _of_footer(field.name, chunks, looked)
        place += leaves
    return found


def may_have_bounds(kind: pa.DataType) -> bool:
    """Return whether columns of this type get bounds: not binary, nested or null columns."""
    return not (pa.types.is_nested(kind) or _is_bytes(kind) or pa.types.is_null(kind))


def _of_rows(name: str, looked: RowBounds, nulls: int) -> Statistics:
    if name in looked.unbounded or name not in looked.bounds:
        return Statistics(None, None, nulls)
    return Statistics(*looked.bounds[name], nulls)


def _of_footer(
    name: str, chunks: Iterable[pq.ColumnChunkMetaData], looked: RowBounds
) -> Statistics:
    nulls, bounds = 0, [*_pair_of(looked, name)]
    complete = name not in looked.unbounded
    for chunk in chunks:
        known = chunk.statistics
        if known is None or not known.has_null_count:
            return Statistics(None, None, None)
        nulls += known.null_count
        if known.has_min_max:
            try:
                bounds.append((known.min, known.max))
            except OverflowError:  # Timestamps beyond the year 9999.
                complete = False
        elif known.num_values and name not in looked.bounds:
            complete = False
    if not complete or not bounds:
        return Statistics(None, None, nulls)
    least, greatest = min(low for low, _ in bounds), max(high for _, high in bounds)
    low, high = _cut(least, greatest)
    return Statistics(low, high, nulls)


def _pair_of(looked: RowBounds, name: str) -> Iterator[tuple[Value, Value]]:
    if name in looked.bounds:
        yield looked.bounds[name]


def _cut(least: Value, greatest: Value) -> tuple[Value, Value] | tuple[None, None]:
    """Return the bounds, least and greatest, with strings shortened to TEXT_CHARACTERS.

    (None, None) if no shorter string is an upper bound.
    """
    if isinstance(greatest, str) and len(greatest) > TEXT_CHARACTERS:
        raised = _raised(greatest[:TEXT_CHARACTERS])
        if raised is None:
            return None, None
        greatest = raised
    return (least[:TEXT_CHARACTERS] if isinstance(least, str) else least), greatest


def _raised(text: str | None) -> str | None:
    """Return the smallest string above all strings with this prefix; None if no string is."""
    while text:
        following = ord(text[-1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CHARACTER:
            return text[:-1] + chr(following)
        text = text[:-1]
    return None


def _below_zero(least: float | None) -> float | None:
    return -0.0 if least == 0 else least


def _above_zero(greatest: float | None) -> float | None:
    return math.copysign(0.0, 1.0) if greatest == 0 else greatest


def _leaves(field: pa.Field) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the path and type of each Parquet leaf column of a field."""
    kind = field.type
    inside: Mapping[str, pa.Field] = {}
    if pa.types.is_struct(kind):
        inside = {f"{field.name}.{child.name}": child for child in kind}
    elif is_list(kind):
        inside = {f"{field.name}.list.element": kind.value_field}
    elif pa.types.is_map(kind):
        start = f"{field.name}.key_value"
        inside = {f"{start}.key": kind.key_field, f"{start}.value": kind.item_field}
    else:
        yield field.name, kind
    for path, child in inside.items():
        yield from _leaves(child.with_name(path))


def _is_floating(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type is a string type."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
