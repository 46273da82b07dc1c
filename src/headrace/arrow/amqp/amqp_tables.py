"""AMQP field tables as maps of strings: many tables, decoded entry by entry.

The first entries of all tables are located together, then the second ones, by the rules of
`headrace.wire.amqp.field_table`. String values are decoded together, equal values of other types
once (`headrace.wire.amqp.header_texts`).
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.arrow.read.byte_ranges import cut, numbers, pick, ranges_of, texts
from headrace.arrow.read.c_data import Array
from headrace.model.errors import Malformed
from headrace.wire.amqp.field_table import (
    FIXED_BYTES,
    PREFIXED,
    SHORT_STRING_BYTES_MAX,
    decode_value,
)
from headrace.wire.amqp.header_texts import value_text

_KINDS = 256
_PREFIX_BYTES = 4
_BEYOND = 1 + SHORT_STRING_BYTES_MAX
"""Bytes after the last table that reading an entry's kind may touch."""
_STRING = ord("S")


def _sizes_of_kinds() -> Array:
    """Return the bytes after each value kind, length prefixes included; -1 for an unknown kind."""
    sizes = np.full(_KINDS, -1)
    for kind, size in FIXED_BYTES.items():
        sizes[kind] = size
    sizes[list(PREFIXED)] = _PREFIX_BYTES
    return sizes


_SIZES = _sizes_of_kinds()
_IS_PREFIXED = np.isin(np.arange(_KINDS), list(PREFIXED))


class _Entries(NamedTuple):
    """Entries of tables: table number, and positions of name, kind and value end."""

    table: Array
    name: Array
    kind: Array
    end: Array

    def some(self, chosen: Array) -> "_Entries":
        return _Entries(*(array[chosen] for array in self))


def table_column(tables: pa.BinaryArray) -> pa.MapArray:
    """Convert field tables to maps; null if invalid. The first of duplicate names counts."""
    data, begin, end = ranges_of(tables, _BEYOND)
    entries, whole = _walk(data, begin, end)
    values, readable = _values(data, entries)
    whole[entries.table[~readable]] = False
    names = texts(cut(data, entries.name, entries.kind))
    kept = _firsts(entries.table, names)
    counts = np.bincount(entries.table[kept], minlength=len(whole))
    maps = pa.MapArray.from_arrays(
        pa.array(np.append(0, counts.cumsum()), pa.int32()),
        names.take(pa.array(kept)),
        values.take(pa.array(kept)),
    )
    return pick(maps, np.where(whole, np.arange(len(whole)), -1))


def _walk(data: Array, begin: Array, end: Array) -> tuple[_Entries, Array]:
    """Return the entries of all tables in order, and which tables are valid."""
    at = begin.copy()
    found = [_Entries(*(np.zeros(0, np.int64) for _ in _Entries._fields))]
    while len(tables := np.flatnonzero(at < end)):
        entries = _next_entries(data, at[tables], tables)
        limit = end[tables]
        sound = (entries.end >= 0) & (entries.end <= limit)
        at[tables] = np.where(sound, entries.end, limit + 1)
        found.append(entries.some(sound))
    entries = _Entries(*map(np.concatenate, zip(*found, strict=True)))
    return entries.some(np.argsort(entries.table, kind="stable")), at == end


def _next_entries(data: Array, at: Array, tables: Array) -> _Entries:
    """Return the entries at these positions, unchecked; end is -1 for an unknown kind."""
    name = at + 1
    place = name + data[at]
    kind = data[place]
    end = place + 1 + _SIZES[kind]
    prefixed = _IS_PREFIXED[kind]
    end[prefixed] += numbers(data, place[prefixed] + 1, _PREFIX_BYTES).astype(np.int64)
    end[_SIZES[kind] < 0] = -1
    return _Entries(tables, name, place, end)


def _values(data: Array, entries: _Entries) -> tuple[pa.StringArray, Array]:
    """Return the entries' values as strings, and which of them can be decoded."""
    strings = data[entries.kind] == _STRING
    first, end = entries.kind + 1 + _PREFIX_BYTES, entries.end
    as_texts = texts(cut(data, first[strings], end[strings]))
    others = cut(data, entries.kind[~strings], end[~strings]).dictionary_encode()
    decoded, bad = [], []
    for number, value in enumerate(others.dictionary.to_pylist()):
        try:
            decoded.append(value_text(decode_value(value, 0, len(value))))
        except Malformed:
            decoded.append(None)
            bad.append(number)
    readable = strings.copy()
    readable[~strings] = ~np.isin(others.indices.to_numpy(), bad)
    place = np.empty(len(strings), np.int64)
    place[strings] = np.arange(len(as_texts))
    place[~strings] = len(as_texts) + others.indices.to_numpy()
    values = pa.concat_arrays([as_texts, pa.array(decoded, pa.string())])
    return values.take(pa.array(place)), readable


def _firsts(tables: Array, names: pa.StringArray) -> Array:
    """Return the indices of entries that are the first of their name in their table."""
    codes = names.dictionary_encode()
    each = tables * len(codes.dictionary) + codes.indices.to_numpy()
    return np.sort(np.unique(each, return_index=True)[1])
