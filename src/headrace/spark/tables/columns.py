"""Whether rows of one schema belong into a table of another."""

from collections.abc import Iterable

import pyarrow as pa

_SMALL = {
    pa.large_binary(): pa.binary(),
    pa.large_string(): pa.string(),
}


def fits(rows: pa.DataType, column: pa.DataType) -> bool:
    """Tell whether a column of the table takes these values without loss.

    Of nested types only the kind counts: what is in them is checked when it is written.
    """
    rows, column = _SMALL.get(rows, rows), _SMALL.get(column, column)
    if rows == column:
        return True
    if pa.types.is_signed_integer(rows) and pa.types.is_signed_integer(column):
        return bool(rows.bit_width <= column.bit_width)
    if is_list(rows):
        return is_list(column)
    return pa.types.is_nested(rows) and bool(rows.id == column.id)


def nullable(columns: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of a new table: each column takes nulls, as a later query may have some."""
    return pa.schema([column.with_nullable(True) for column in columns])


def is_list(kind: pa.DataType) -> bool:
    """Tell whether values are lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
