"""JSON texts of a column's values, by type: the forms that the type table accepts without loss.

Arrays come without nulls. Whole columns are converted by Arrow's functions, but for base64.
"""

import binascii
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.typed.arrow_types import arrow_type
from headrace.arrow.write.json_lines import string_literals
from headrace.typed.types import INTEGERS, ColumnType, Kind, Unit

DAY_MIN, DAY_MAX = -719162, 2932896
"""0001-01-01 and 9999-12-31, in days since 1970."""
_MICROS_PER_DAY = 86_400_000_000
_MICROS_MIN, _MICROS_MAX = DAY_MIN * _MICROS_PER_DAY, (DAY_MAX + 1) * _MICROS_PER_DAY - 1
_NANOS_PER_MICRO = 1000
_DIGITS = {Unit.SECONDS: 6, Unit.MILLIS: 3, Unit.MICROS: 0}
"""Digits of the fraction of a unit that are microseconds."""
_EPOCH_DIGITS = 19


class NotEncodableError(ValueError):
    """A value that JSON, or the declared type, cannot hold."""


def scalar_texts(values: pa.Array, column: ColumnType) -> pa.Array:
    """Return the JSON text of each value of a type that is no container.

    Raises NotEncodableError, or ArrowInvalid for a value that does not fit the type.
    """
    return _TEXTS[column.kind](values, column)


def quoted(texts: pa.Array, end: str = '"') -> pa.Array:
    """Return texts, in which nothing needs an escape, as JSON strings."""
    return pc.binary_join_element_wise('"', texts, end, "")


def string_texts(values: pa.Array, column: ColumnType) -> pa.Array:
    """Return strings as JSON literals. Raises NotEncodableError for bytes that are not UTF-8."""
    try:
        # Arrow checks UTF-8 only when it converts bytes.
        return string_literals(values.cast(pa.string()).cast(pa.binary()))
    except pa.ArrowInvalid:
        raise NotEncodableError("a string has invalid UTF-8") from None


def _plain(values: pa.Array, column: ColumnType) -> pa.Array:
    return values.cast(arrow_type(column)).cast(pa.string())


def _double(values: pa.Array, column: ColumnType) -> pa.Array:
    numbers = values.cast(pa.float64())
    return _with_names(numbers, numbers.cast(pa.string()))


def _float(values: pa.Array, column: ColumnType) -> pa.Array:
    """Return the shortest text of each float, unless it is read as another one by way of a double,
    as the decoder reads it."""
    numbers = values.cast(pa.float32())
    texts, exact = numbers.cast(pa.string()), numbers.cast(pa.float64())
    again = texts.cast(pa.float64()).cast(pa.float32())
    texts = pc.if_else(pc.equal(again, numbers), texts, exact.cast(pa.string()))
    return _with_names(exact, texts)


def _with_names(numbers: pa.Array, texts: pa.Array) -> pa.Array:
    """Replace the texts of numbers that JSON does not have, by names in quotes as Spark writes."""
    finite = pc.is_finite(numbers)
    if pc.all(finite).as_py() is not False:
        return texts
    infinite = pc.if_else(pc.greater(numbers, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(finite, texts, pc.if_else(pc.is_nan(numbers), '"NaN"', infinite))


def _binary(values: pa.Array, column: ColumnType) -> pa.Array:
    texts = [binascii.b2a_base64(value, newline=False) for value in values.to_pylist()]
    return quoted(pa.array(texts, pa.binary()).cast(pa.string()))


def _date(values: pa.Array, column: ColumnType) -> pa.Array:
    days = values.cast(pa.date32()).view(pa.int32())
    _check_between(days, DAY_MIN, DAY_MAX)
    if column.unit is Unit.DAYS:
        return days.cast(pa.string())
    return quoted(days.view(pa.date32()).cast(pa.string()))


def _time(values: pa.Array, column: ColumnType) -> pa.Array:
    micros = values.cast(pa.timestamp("us", values.type.tz)).view(pa.int64())
    _check_between(micros, _MICROS_MIN, _MICROS_MAX)
    if column.unit not in {Unit.ISO, Unit.ISO_UTC}:
        return _since_1970(micros, column.unit)
    texts = pc.replace_substring(micros.view(pa.timestamp("us")).cast(pa.string()), " ", "T")
    texts = pc.replace_substring(texts, ".000000", "")
    return quoted(texts, 'Z"' if column.kind is Kind.TIMESTAMP else '"')


def _since_1970(micros: pa.Array, unit: Unit) -> pa.Array:
    """Return times as numbers of a unit, without an exponent, which the decoder refuses there."""
    if unit is Unit.NANOS:
        return pc.multiply_checked(micros, _NANOS_PER_MICRO).cast(pa.string())
    if not _DIGITS[unit]:
        return micros.cast(pa.string())
    # A decimal with the microseconds as its unscaled number: 16 bytes, the upper ones are the sign.
    unscaled = micros.to_numpy()
    words = np.stack([unscaled, unscaled >> 63], axis=1)
    kind = pa.decimal128(_EPOCH_DIGITS, _DIGITS[unit])
    exact = pa.Array.from_buffers(kind, len(micros), [None, pa.py_buffer(words)])
    return pc.replace_substring_regex(exact.cast(pa.string()), r"\.?0*$", "", max_replacements=1)


def _check_between(numbers: pa.Array, least: int, most: int) -> None:
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is not None and not least <= bounds["min"] <= bounds["max"] <= most:
        raise NotEncodableError("a year is not between 1 and 9999")


_TEXTS: dict[Kind, Callable[[pa.Array, ColumnType], pa.Array]] = dict.fromkeys(INTEGERS, _plain) | {
    Kind.BOOLEAN: _plain,
    Kind.DECIMAL: _plain,
    Kind.STRING: string_texts,
    Kind.DOUBLE: _double,
    Kind.FLOAT: _float,
    Kind.BINARY: _binary,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _time,
    Kind.TIMESTAMP_NTZ: _time,
}
