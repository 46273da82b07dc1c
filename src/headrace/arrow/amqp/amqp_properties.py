"""Properties of many AMQP content headers as columns, decoded property by property.

`headrace.wire.amqp.properties` decodes one content header; this decodes all at once, with numpy.
Message ids and timestamps make each header different, and a Python loop takes ten times as long.
"""

import numpy as np
import pyarrow as pa

from headrace.arrow.amqp.amqp_tables import table_column
from headrace.arrow.read.byte_ranges import cut, numbers, pick, ranges_of, texts
from headrace.arrow.read.c_data import Array
from headrace.wire.amqp.properties import (
    FLAGS_AT,
    OCTET,
    PROPERTIES_AT,
    SIZES,
    STRING,
    TABLE,
    TIME,
    WALK,
)

_KINDS = {name: kind for _, name, kind in WALK}
_FLAGS_BYTES = PROPERTIES_AT - FLAGS_AT
_BEYOND = PROPERTIES_AT
"""Bytes after the last header that reading the flags of an empty header may touch."""
_SECONDS_MAX = 253_402_300_799
"""The last second of the year 9999: Python, and so Spark's `collect`, has no later time."""
_MICROS_PER_SECOND = 1_000_000


class PropertyColumns:
    """The decoded properties of many content headers."""

    def __init__(self, headers: pa.BinaryArray) -> None:
        self._data, begin, end = ranges_of(headers, _BEYOND)
        self._found: dict[str, tuple[Array, Array, Array]] = {}
        """Headers that have a property, with begin and end of its value, by property name."""
        self._whole = self._walk(begin.copy(), end)

    def _walk(self, at: Array, limit: Array) -> Array:
        """Locate all properties; return which headers are valid: they end with their last
        property."""
        flags = numbers(self._data, at + FLAGS_AT, _FLAGS_BYTES).astype(np.int64)
        at += PROPERTIES_AT
        for flag, name, kind in WALK:
            headers = np.flatnonzero(flags & flag)
            if not len(headers):
                continue
            begin, end = self._extent(kind, at[headers])
            at[headers] = end
            flags[headers[end > limit[headers]]] = 0
            self._found[name] = headers, begin, end
        whole: Array = at == limit
        return whole

    def _extent(self, kind: str, at: Array) -> tuple[Array, Array]:
        """Return two arrays of byte positions: begin and end of the property values at `at`."""
        size = SIZES[kind]
        if kind in (STRING, TABLE):
            return at + size, at + size + numbers(self._data, at, size).astype(np.int64)
        return at, at + size

    def column(self, name: str, type_: pa.DataType, codes: Array) -> pa.Array:
        """Return a property as a column for the headers numbered `codes`; null for -1."""
        if name not in self._found:
            return pa.nulls(len(codes), type_)
        headers, begin, end = self._found[name]
        whole = self._whole[headers]
        headers, begin, end = headers[whole], begin[whole], end[whole]
        places = np.full(len(self._whole) + 1, -1)  # One more place, for code -1.
        places[headers] = np.arange(len(headers))
        return pick(self._values(_KINDS[name], begin, end, type_), places[codes])

    def _values(self, kind: str, begin: Array, end: Array, type_: pa.DataType) -> pa.Array:
        if kind == OCTET:
            return pa.array(self._data[begin], type_)
        if kind == TIME:
            return _times(numbers(self._data, begin, SIZES[TIME]), type_)
        content = cut(self._data, begin, end)
        return texts(content) if kind == STRING else _tables(content)


def _times(seconds: Array, type_: pa.DataType) -> pa.Array:
    """Convert seconds since 1970 to timestamps; null beyond the year 9999."""
    late = seconds > _SECONDS_MAX
    micros = np.where(late, 0, seconds).astype(np.int64) * _MICROS_PER_SECOND
    return pa.array(micros, pa.int64(), mask=late).cast(type_)


def _tables(content: pa.BinaryArray) -> pa.MapArray:
    """Convert field tables to maps of strings; equal ones are decoded once."""
    encoded = content.dictionary_encode()
    return table_column(encoded.dictionary).take(encoded.indices)
