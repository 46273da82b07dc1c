"""Whether rows of one schema can be written to a table of another."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from headrace.spark.tables.errors import TableError

_SMALL = {
    pa.large_binary(): pa.binary(),
    pa.large_string(): pa.string(),
}


def fits(rows: pa.DataType, column: pa.DataType) -> bool:
    """Return whether a table's column can store these values without loss.

    A struct may lack fields of the table's struct, but may not have additional ones.
    """
    rows, column = _SMALL.get(rows, rows), _SMALL.get(column, column)
    if rows == column:
        return True
    if pa.types.is_signed_integer(rows) and pa.types.is_signed_integer(column):
        return bool(rows.bit_width <= column.bit_width)
    if pa.types.is_struct(rows) and pa.types.is_struct(column):
        return all(
            column.get_field_index(field.name) >= 0
            and fits(field.type, column.field(field.name).type)
            for field in rows
        )
    pairs = list(_pairs_inside(rows, column))
    return bool(pairs) and all(fits(inside.type, there.type) for inside, there, *_ in pairs)


def nullable(columns: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of a new table, in which all columns and nested fields are nullable.

    A later query may have nulls, and below a null struct its fields are null.
    """
    return pa.schema([_nullable_field(column) for column in columns])


def _nullable_field(field: pa.Field) -> pa.Field:
    return field.with_type(nullable_inside(field.type)).with_nullable(True)


def nullable_inside(kind: pa.DataType) -> pa.DataType:
    """Return the type with nullable nested values; keys of maps stay not null."""
    if pa.types.is_struct(kind):
        return pa.struct([_nullable_field(field) for field in kind])
    if is_list(kind):
        item = _nullable_field(kind.value_field)
        return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(nullable_inside(kind.key_type))
        return pa.map_(key, _nullable_field(kind.item_field))
    return kind


def check_nulls(table: str, rows: pa.Field, column: pa.Field) -> None:
    """Raise TableError if rows may be null, at any depth, where the table's column is not
    nullable."""
    path = null_refused(rows, column)
    if path is not None:
        raise TableError(
            f"{table}: {path} takes no nulls, and the query may have some: "
            f"ALTER TABLE … ALTER COLUMN {path} DROP NOT NULL, or let the query coalesce them"
        )


def null_refused(rows: pa.Field, column: pa.Field) -> str | None:
    """Return the path of the first field that is nullable in the rows and not in the table; else
    None.

    A null struct has null fields, so a table that refuses these refuses the struct.
    """
    return _null_refused(rows, column, column.name, above=False)


def _null_refused(rows: pa.Field, column: pa.Field, path: str, *, above: bool) -> str | None:
    above = above or rows.nullable
    if above and not column.nullable:
        return path
    for inside, there, name, optional in _pairs_inside(rows.type, column.type):
        found = _null_refused(inside, there, f"{path}.{name}", above=above and not optional)
        if found is not None:
            return found
    return None


def _pairs_inside(
    rows: pa.DataType, column: pa.DataType
) -> Iterator[tuple[pa.Field, pa.Field, str, bool]]:
    """Yield (field in rows, field in column, name, is_item) of nested fields that both types have.

    `is_item`: it is a list's element or a map's key or value, of which a null parent has none.
    """
    if pa.types.is_struct(rows) and pa.types.is_struct(column):
        for field in rows:
            if column.get_field_index(field.name) >= 0:
                yield field, column.field(field.name), field.name, False
    elif is_list(rows) and is_list(column):
        yield rows.value_field, column.value_field, "element", True
    elif pa.types.is_map(rows) and pa.types.is_map(column):
        yield rows.key_field, column.key_field, "key", True
        yield rows.item_field, column.item_field, "value", True


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is a list type."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
