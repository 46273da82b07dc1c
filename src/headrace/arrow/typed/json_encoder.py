"""Encode rows as JSON by a schema: the reverse of `json_decoder`, column by column.

Each column becomes an array of JSON texts by Arrow's functions; a STRUCT joins those of its fields,
an ARRAY or MAP those of its elements. A null field is written as null. A value that the decoder
would refuse or change is an error that names its column.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.typed.scalar_texts import NotEncodableError, scalar_texts, string_texts
from headrace.arrow.write.encode import RowError
from headrace.typed.ddl import parse_ddl
from headrace.typed.types import INTEGERS, ColumnType, Field, Kind

Array = np.ndarray[Any, Any]

_FITTING: dict[Kind, Callable[[pa.DataType], bool]] = dict.fromkeys(
    INTEGERS, pa.types.is_signed_integer
) | {
    Kind.BOOLEAN: pa.types.is_boolean,
    Kind.FLOAT: pa.types.is_float32,
    Kind.DOUBLE: lambda kind: pa.types.is_float32(kind) or pa.types.is_float64(kind),
    Kind.DECIMAL: pa.types.is_decimal128,
    Kind.STRING: lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    Kind.BINARY: lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    Kind.DATE: pa.types.is_date32,
    Kind.TIMESTAMP: lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    Kind.TIMESTAMP_NTZ: lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    Kind.STRUCT: pa.types.is_struct,
    Kind.ARRAY: lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind),
    Kind.MAP: pa.types.is_map,
}
"""Arrow's types whose values a type takes without a change of meaning; one that does not fit is
found when it is encoded."""


class JsonEncoder:
    """Encodes rows by a schema. May be shared between threads."""

    def __init__(self, schema: ColumnType | str) -> None:
        self.schema = parse_ddl(schema) if isinstance(schema, str) else schema

    def problem(self, kind: pa.StructType) -> str | None:
        """Return why rows of this type cannot be encoded: a column is missing, undeclared, or of
        another type."""
        return _problem(kind, self.schema, "")

    def encode(self, rows: pa.StructArray) -> pa.Array:
        """Return an array of type `binary`; a row that is null has no value, as a tombstone.

        Raises RowError.
        """
        texts = _present_texts(rows, self.schema, "")
        return _spread(texts, rows).cast(pa.binary())


def _problem(found: pa.DataType, column: ColumnType, path: str) -> str | None:
    if pa.types.is_null(found):
        return None
    if not _FITTING[column.kind](found):
        return f"{path or 'value'}: the column is {found}, and the schema declares {column}"
    match column.kind:
        case Kind.STRUCT:
            return _problem_of_fields(found, column, path)
        case Kind.ARRAY:
            return _problem(found.value_type, column.part.type, f"{path}[]")
        case Kind.MAP:
            key = _problem(found.key_type, ColumnType(Kind.STRING), f"{path}[]")
            return key or _problem(found.item_type, column.part.type, f"{path}[]")
    return None


def _problem_of_fields(found: pa.StructType, column: ColumnType, path: str) -> str | None:
    declared = {field.name for field in column.fields}
    for field in found:
        if field.name not in declared:
            return f"{_inner(path, field.name)}: the schema does not declare this column"
    for wanted in column.fields:
        inner, at = _inner(path, wanted.name), found.get_field_index(wanted.name)
        if at < 0:
            return f"{inner}: the schema declares this column, and rows lack it or have it twice"
        if problem := _problem(found.field(at).type, wanted.type, inner):
            return problem
    return None


def _inner(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _texts(values: pa.Array, field: Field, path: str) -> pa.Array:
    """Return the JSON text of each value; that of null is `null`."""
    if not values.null_count:
        return _present_texts(values, field.type, path)
    if not field.nullable:
        raise RowError(f"{path}: null, but NOT NULL")
    return _spread(_present_texts(values, field.type, path), values).fill_null("null")


def _spread(texts: pa.Array, values: pa.Array) -> pa.Array:
    """Return texts of the values that are not null in their places."""
    if not values.null_count:
        return texts
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return texts.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


def _present_texts(values: pa.Array, column: ColumnType, path: str) -> pa.Array:
    """Return the JSON texts of the values that are not null."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count:
        # What lies below a null, such as the fields of a STRUCT, has no meaning.
        values = values.filter(values.is_valid())
    if not len(values):
        return pa.array([], pa.string())
    match column.kind:
        case Kind.STRUCT:
            return _struct(values, column, path)
        case Kind.ARRAY:
            return _array(values, column, path)
        case Kind.MAP:
            return _map(values, column, path)
    try:
        return scalar_texts(values, column)
    except NotEncodableError as error:
        raise RowError(f"{path}: {error}") from None
    except pa.ArrowInvalid as error:
        raise RowError(f"{path}: a value does not fit {column}: {error}") from None


def _struct(values: pa.StructArray, column: ColumnType, path: str) -> pa.Array:
    parts: list[object] = []
    for field in column.fields:
        name = json.dumps(field.name, ensure_ascii=False)
        parts.append(f"{',' if parts else '{'}{name}:")
        at = values.type.get_field_index(field.name)
        parts.append(_texts(values.field(at), field, _inner(path, field.name)))
    return pc.binary_join_element_wise(*parts, "}", "")


def _array(values: pa.ListArray, column: ColumnType, path: str) -> pa.Array:
    ends = values.offsets.to_numpy()
    elements = values.values[int(ends[0]) : int(ends[-1])]
    return _joined(_texts(elements, column.part, f"{path}[]"), ends, "[]")


def _map(values: pa.MapArray, column: ColumnType, path: str) -> pa.Array:
    ends = values.offsets.to_numpy()
    begin, end = int(ends[0]), int(ends[-1])
    keys, items = values.keys[begin:end], values.items[begin:end]
    path = f"{path}[]"
    if not len(keys):
        return _joined(pa.array([], pa.string()), ends, "{}")
    _check_keys(keys, ends - begin, path)
    try:
        names = string_texts(keys, ColumnType(Kind.STRING))
    except NotEncodableError as error:
        raise RowError(f"{path}: {error}") from None
    pairs = pc.binary_join_element_wise(names, ":", _texts(items, column.part, path), "")
    return _joined(pairs, ends, "{}")


def _check_keys(keys: pa.Array, ends: Array, path: str) -> None:
    """Raise RowError if a MAP has a key twice, which the decoder refuses."""
    maps = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    both = maps * len(keys) + codes
    places, counts = np.unique(both, return_counts=True)
    if len(places) < len(both):
        twice = int(np.flatnonzero(both == places[counts > 1][0])[0])
        raise RowError(f"{path}: the key {keys[twice].as_py()!r} is given twice")


def _joined(texts: pa.Array, ends: Array, brackets: str) -> pa.Array:
    """Return the texts between each two ends, with commas, in brackets."""
    lists = pa.ListArray.from_arrays(pa.array(ends - ends[0], pa.int32()), texts)
    return pc.binary_join_element_wise(brackets[0], pc.binary_join(lists, ","), brackets[1], "")
