"""Properties of AMQP's messages as columns: of many content headers, property by property.

What `headrace.wire.amqp.properties` reads of one content header is read here of all at once, with
numpy: message ids and times make each header another, and a walk over each in Python takes ten
times as long. Tables alone are read one by one, those that are the same once.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.arrow.c_data import Array
from headrace.model.errors import Malformed
from headrace.wire.amqp.field_table import decode_table
from headrace.wire.amqp.header_texts import header_texts
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
_BEYOND = PROPERTIES_AT + max(SIZES.values())
"""Bytes behind the last header that a look into one that is cut off may reach."""
_SECONDS_MAX = 253_402_300_799
"""The last second of the year 9999: Python, and with it Spark's `collect`, has no later time."""
_MICROS_PER_SECOND = 1_000_000


class PropertyColumns:
    """The properties of content headers."""

    def __init__(self, headers: pa.BinaryArray) -> None:
        _, ends, data = headers.buffers()
        bounds = np.frombuffer(ends, np.int32)[headers.offset :][: len(headers) + 1]
        bounds = bounds.astype(np.int64)
        content = np.frombuffer(data or b"", np.uint8)
        self._data: Array = np.concatenate([content, np.zeros(_BEYOND, np.uint8)])
        self._found: dict[str, tuple[Array, Array, Array]] = {}
        """By name: which headers have it, where its content begins and where it ends."""
        self._whole = self._walk(bounds[:-1].copy(), bounds[1:])

    def _walk(self, at: Array, limit: Array) -> Array:
        """Find all properties; tell which headers are whole: end with their last property."""
        flags = self._numbers(at + FLAGS_AT, _FLAGS_BYTES).astype(np.int64)
        at += PROPERTIES_AT
        flags[at > limit] = 0
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
        """Return where the contents of properties at these places begin and end."""
        size = SIZES[kind]
        if kind in (STRING, TABLE):
            return at + size, at + size + self._numbers(at, size).astype(np.int64)
        return at, at + size

    def _numbers(self, at: Array, size: int) -> Array:
        """Return the unsigned numbers of so many bytes at these places."""
        numbers: Array = self._data[at[:, None] + np.arange(size)].view(f">u{size}")[:, 0]
        return numbers

    def column(self, name: str, type_: pa.DataType, codes: Array) -> pa.Array:
        """Return a property of the headers that `codes` number, null for -1."""
        if name not in self._found:
            return pa.nulls(len(codes), type_)
        headers, begin, end = self._found[name]
        whole = self._whole[headers]
        headers, begin, end = headers[whole], begin[whole], end[whole]
        places = np.full(len(self._whole) + 1, -1)  # one more: that of code -1
        places[headers] = np.arange(len(headers))
        return pick(self._values(_KINDS[name], begin, end, type_), places[codes])

    def _values(self, kind: str, begin: Array, end: Array, type_: pa.DataType) -> pa.Array:
        if kind == OCTET:
            return pa.array(self._data[begin], type_)
        if kind == TIME:
            return _times(self._numbers(begin, SIZES[TIME]), type_)
        content = self._cut(begin, end)
        return texts(content) if kind == STRING else _tables(content, type_)

    def _cut(self, begin: Array, end: Array) -> pa.BinaryArray:
        """Return what is from each of the places in `begin` to its place in `end`."""
        sizes = end - begin
        ends = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=ends[1:])
        content = self._data[np.repeat(begin - ends[:-1], sizes) + np.arange(ends[-1])]
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(content)]
        return pa.BinaryArray.from_buffers(pa.binary(), len(sizes), buffers)


def pick(values: pa.Array, places: Array) -> pa.Array:
    """Return the values at these places, null where a place is -1."""
    return values.take(pa.array(places, mask=places < 0))


def texts(raw: pa.BinaryArray) -> pa.StringArray:
    """Return bytes as texts; what is no UTF-8 in them is replaced."""
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        encoded = raw.dictionary_encode()
        decoded = [each.decode("utf-8", "replace") for each in encoded.dictionary.to_pylist()]
        return pa.array(decoded, pa.string()).take(encoded.indices)


def _times(seconds: Array, type_: pa.DataType) -> pa.Array:
    """Return seconds since 1970 as times, null where there is no such time."""
    late = seconds > _SECONDS_MAX
    micros = np.where(late, 0, seconds).astype(np.int64) * _MICROS_PER_SECOND
    return pa.array(micros, pa.int64(), mask=late).cast(type_)


def _tables(content: pa.BinaryArray, type_: pa.DataType) -> pa.Array:
    """Return field tables as maps of texts, null where one cannot be read."""
    encoded = content.dictionary_encode()
    tables = [_table(each) for each in encoded.dictionary.to_pylist()]
    return pa.array(tables, type_).take(encoded.indices)


def _table(content: bytes) -> Sequence[tuple[str, str | None]] | None:
    try:
        return list(header_texts(decode_table(content)).items())
    except Malformed:
        return None
