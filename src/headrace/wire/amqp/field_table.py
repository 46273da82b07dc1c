"""AMQP field tables: typed values by name, in headers, arguments and client properties.

The types are RabbitMQ's (errata to section 4.2.1 of AMQP 0-9-1); `L` is decoded like `l`, both
signed.

A table that is decoded and encoded again keeps its types, except `L`. If Python has no type for a
kind, a small subclass marks it: `Long(5)` is the integer 5 that is encoded as `l`.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headrace.model.errors import Malformed

TABLE_DEPTH_MAX = 64
"""Maximum nesting of tables and arrays; a malicious frame could nest thousands."""
SHORT_STRING_BYTES_MAX = 255
_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)


class Int8(int):
    """An integer encoded as kind `b` (signed, 1 byte)."""


class UInt8(int):
    """An integer encoded as kind `B` (unsigned, 1 byte)."""


class Int16(int):
    """An integer encoded as kind `s` (signed, 2 bytes)."""


class UInt16(int):
    """An integer encoded as kind `u` (unsigned, 2 bytes)."""


class UInt32(int):
    """An integer encoded as kind `i` (unsigned, 4 bytes)."""


class Long(int):
    """An integer encoded as kind `l` (signed, 8 bytes), even if it fits kind `I`."""


class Timestamp(int):
    """A timestamp in seconds since 1970, kind `T`."""


class Float32(float):
    """A number encoded as kind `f` (single precision)."""


class ByteArray(bytes):
    """Bytes encoded as kind `x`. Plain `bytes` are strings (kind `S`) that are not UTF-8."""


class Decimal(NamedTuple):
    """The decimal `unscaled` / 10 ** `scale`, kind `D`."""

    scale: int
    unscaled: int


FieldValue = (
    bool
    | int
    | float
    | str
    | bytes
    | Decimal
    | Mapping[str, "FieldValue"]
    | Sequence["FieldValue"]
    | None
)
FieldTable = dict[str, FieldValue]

_UINT32 = struct.Struct(">I")
_INTEGERS: dict[int, tuple[struct.Struct, Callable[[int], int]]] = {
    ord("b"): (struct.Struct(">b"), Int8),
    ord("B"): (struct.Struct(">B"), UInt8),
    ord("s"): (struct.Struct(">h"), Int16),
    ord("u"): (struct.Struct(">H"), UInt16),
    ord("I"): (struct.Struct(">i"), int),
    ord("i"): (struct.Struct(">I"), UInt32),
    ord("T"): (struct.Struct(">Q"), Timestamp),
}
_INT64_FORM = struct.Struct(">q")
_FLOAT32 = struct.Struct(">f")
_FLOAT64 = struct.Struct(">d")
_DECIMAL = struct.Struct(">BI")
FIXED_BYTES = {
    **dict.fromkeys(b"tbB", 1),
    **dict.fromkeys(b"su", 2),
    **dict.fromkeys(b"Iif", 4),
    **dict.fromkeys(b"lLTd", 8),
    ord("D"): 5,
    ord("V"): 0,
}
"""Sizes in bytes of the kinds whose values have a fixed size."""
_STRING = ord("S")
PREFIXED = frozenset(b"SxFA")
"""Kinds whose values are preceded by their length, 4 bytes."""
_FORMS: dict[type, tuple[bytes, struct.Struct]] = {
    Int8: (b"b", struct.Struct(">b")),
    UInt8: (b"B", struct.Struct(">B")),
    Int16: (b"s", struct.Struct(">h")),
    UInt16: (b"u", struct.Struct(">H")),
    UInt32: (b"i", struct.Struct(">I")),
    Long: (b"l", _INT64_FORM),
    Timestamp: (b"T", struct.Struct(">Q")),
    Float32: (b"f", _FLOAT32),
    float: (b"d", _FLOAT64),
    bool: (b"t", struct.Struct(">?")),
}


def decode_table(content: bytes) -> FieldTable:
    """Decode a table from its entries, without the preceding length. Raises Malformed.

    The first of duplicate names counts, as in RabbitMQ's lookups.
    """
    return _table(content, 0, len(content), TABLE_DEPTH_MAX)


def encode_table(table: Mapping[str, FieldValue]) -> bytes:
    """Encode a table's entries, without the preceding length.

    An integer is encoded as `I` if it fits, else as `l`. ValueError for a value that no kind can
    hold.
    """
    parts: list[bytes] = []
    for name, value in table.items():
        parts.append(encode_short_string(name))
        parts.append(encode_value(value))
    return b"".join(parts)


def encode_short_string(text: str) -> bytes:
    """Encode a short string; ValueError above 255 bytes. Surrogate escapes become their raw
    bytes."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > SHORT_STRING_BYTES_MAX:
        raise ValueError(
            f"a short string of {len(raw)} bytes, longer than {SHORT_STRING_BYTES_MAX}"
        )
    return len(raw).to_bytes() + raw


def encode_value(value: FieldValue) -> bytes:
    """Encode a value preceded by its kind; ValueError for a value that no kind can hold."""
    if (form := _FORMS.get(type(value))) is not None:
        try:
            return form[0] + form[1].pack(value)
        except (struct.error, OverflowError):
            raise ValueError(f"{value!r} does not fit kind {form[0].decode()}") from None
    match value:
        case None:
            return b"V"
        case str():
            return _prefixed(b"S", value.encode("utf-8", "surrogateescape"))
        case ByteArray():
            return _prefixed(b"x", value)
        case bytes():
            return _prefixed(b"S", value)
        case int() if value in _INT32:
            return b"I" + value.to_bytes(4, signed=True)
        case int() if value in _INT64:
            return b"l" + _INT64_FORM.pack(value)
        case Decimal(scale, unscaled) if 0 <= scale < 1 << 8 and 0 <= unscaled < 1 << 32:
            return b"D" + _DECIMAL.pack(scale, unscaled)
        case Mapping():
            return _prefixed(b"F", encode_table(value))
        case list() | tuple() if not isinstance(value, Decimal):
            return _prefixed(b"A", b"".join([encode_value(item) for item in value]))
    raise ValueError(f"no field of a table holds {value!r}")


def walk_entries(table: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield each entry's name, begin and end. Raises Malformed.

    Values are skipped by their size, without decoding.
    """
    at, end = 0, len(table)
    while at < end:
        name_end = at + 1 + table[at]
        if name_end >= end:
            raise Malformed("a table ends within a name")
        after = skip_value(table, name_end, end)
        yield table[at + 1 : name_end], at, after
        at = after


def skip_value(data: bytes, at: int, end: int) -> int:
    """Return where the value with its kind at `at` ends; Malformed if that is after `end`."""
    kind = data[at]
    at += 1
    if kind in PREFIXED:
        if end - at < 4:
            raise Malformed("a table ends within a length")
        at += 4 + _UINT32.unpack_from(data, at)[0]
    elif (size := FIXED_BYTES.get(kind)) is not None:
        at += size
    else:
        raise Malformed(f"a field of unknown kind {kind}")
    if at > end:
        raise Malformed("a field ends behind its table")
    return at


def _prefixed(kind: bytes, content: bytes) -> bytes:
    return b"".join((kind, _UINT32.pack(len(content)), content))


def _table(data: bytes, at: int, end: int, depth_left: int) -> FieldTable:
    table: FieldTable = {}
    while at < end:
        name_end = at + 1 + data[at]
        if name_end >= end:
            raise Malformed("a table ends within a name")
        name = data[at + 1 : name_end].decode("utf-8", "surrogateescape")
        at = skip_value(data, name_end, end)
        if data[name_end] == _STRING:  # most values
            value: FieldValue = _string(data[name_end + 5 : at])
        else:
            value = _value(data, name_end, at, depth_left)
        table.setdefault(name, value)
    return table


def _array(data: bytes, at: int, end: int, depth_left: int) -> list[FieldValue]:
    items: list[FieldValue] = []
    while at < end:
        begin, at = at, skip_value(data, at, end)
        items.append(_value(data, begin, at, depth_left))
    return items


def decode_value(data: bytes, at: int, end: int) -> FieldValue:
    """Decode the value with its kind at `at`; `end` is the result of skip_value."""
    return _value(data, at, end, TABLE_DEPTH_MAX)


def _value(data: bytes, at: int, end: int, depth_left: int) -> FieldValue:
    kind = data[at]
    at += 1
    if (integer := _INTEGERS.get(kind)) is not None:
        return integer[1](integer[0].unpack_from(data, at)[0])
    match chr(kind):
        case "S":
            return _string(data[at + 4 : end])
        case "t":
            return data[at] != 0
        case "l" | "L":
            value = _INT64_FORM.unpack_from(data, at)[0]
            return Long(value) if value in _INT32 else int(value)
        case "d":
            return float(_FLOAT64.unpack_from(data, at)[0])
        case "f":
            return Float32(_FLOAT32.unpack_from(data, at)[0])
        case "D":
            return Decimal(*_DECIMAL.unpack_from(data, at))
        case "x":
            return ByteArray(data[at + 4 : end])
        case "V":
            return None
    if not depth_left:
        raise Malformed(f"tables nested deeper than {TABLE_DEPTH_MAX}")
    if kind == ord("F"):
        return _table(data, at + 4, end, depth_left - 1)
    return _array(data, at + 4, end, depth_left - 1)


def _string(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
