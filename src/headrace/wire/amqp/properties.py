"""Read and change a message's properties within its encoded content header.

A content header (AMQP 0-9-1, section 4.2.6.1) holds property flags and then the properties whose
flag is set, in a fixed order:

    0          2         4               12      14
    +----------+---------+---------------+-------+-------------------------------+
    | class 60 | weight  | body size     | flags | content_type | headers | ...  |
    +----------+---------+---------------+-------+-------------------------------+

A publisher's headers are never decoded and encoded again: that costs more than all other handling
of a message, and would lose types. Single properties are located and read, or cut out and replaced.

All functions raise Malformed for a truncated or invalid content header.
"""

import struct
from functools import lru_cache
from typing import NamedTuple

from headrace.model.errors import Malformed
from headrace.wire.amqp.field_table import (
    FieldTable,
    FieldValue,
    decode_table,
    decode_value,
    encode_short_string,
    encode_table,
    encode_value,
    walk_entries,
)

BASIC_CLASS = 60
PROPERTIES_AT = 14
"""Position of the first property in a content header."""

_FIXED = struct.Struct(">HHQH")
_UINT32 = struct.Struct(">I")
_UINT64 = struct.Struct(">Q")
FLAGS_AT = 12
"""Position of the flags in a content header; the bytes before depend on the body only."""
_UNPACK_FLAGS = struct.Struct(">H").unpack_from
_unpack_size = struct.Struct(">Q").unpack_from


class Properties(NamedTuple):
    """The properties of class basic in encoded order; None: not present."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: FieldTable | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


STRING, TABLE, OCTET, TIME = "shortstr", "table", "octet", "timestamp"
"""Encodings of properties."""
SIZES = {STRING: 1, TABLE: 4, OCTET: 1, TIME: 8}
"""Bytes of the length prefix (string, table), or of the whole value (octet, timestamp)."""
_KINDS = {
    "headers": TABLE,
    "delivery_mode": OCTET,
    "priority": OCTET,
    "timestamp": TIME,
}
WALK = [
    (1 << (15 - at), name, _KINDS.get(name, STRING)) for at, name in enumerate(Properties._fields)
]
"""Flag, name and encoding of each property, in encoded order."""
_FLAG = {name: flag for flag, name, _ in WALK}
_HEADERS_FLAG = _FLAG["headers"]
PERSISTENT = 2
"""Delivery mode of a message that survives a restart."""


class Essentials(NamedTuple):
    """The properties that the broker itself uses, as raw bytes; `headers`: the table's entries."""

    delivery_mode: int
    priority: int | None
    reply_to: bytes | None
    expiration: bytes | None
    user_id: bytes | None
    headers: bytes | None

    @property
    def persistent(self) -> bool:
        """Whether the message must survive a restart."""
        return self.delivery_mode == PERSISTENT


def body_size_of(header: bytes) -> int:
    """Return the body size in bytes that a content header announces."""
    if len(header) < PROPERTIES_AT:
        raise Malformed(f"a content header of {len(header)} bytes")
    return int(_unpack_size(header, 4)[0])


def read_essentials(header: bytes) -> Essentials:
    """Read the properties that the broker uses and check that all are complete, in one pass.

    Entries of the table `headers` are not checked here, but by the code that iterates over them.
    """
    flags, at = _flags(header), PROPERTIES_AT
    values: list[int | bytes | None] = [1, None, None, None, None, None]
    try:
        for kind, slot in _plan(flags):
            if kind is STRING:
                begin, at = at + 1, at + 1 + header[at]
            elif kind is OCTET:
                values[slot] = header[at]
                at += 1
                continue
            elif kind is TABLE:
                begin, at = at + 4, at + 4 + _UINT32.unpack_from(header, at)[0]
            else:
                begin, at = at, at + 8
            if slot >= 0:
                values[slot] = header[begin:at]
    except (IndexError, struct.error):
        raise Malformed("a content header ends within a property") from None
    if at != len(header):
        raise Malformed(f"the properties end at {at}, their header at {len(header)}")
    return Essentials._make(values)


@lru_cache(maxsize=1024)
def _plan(flags: int) -> list[tuple[str, int]]:
    """Return the encoding of each present property, and its index in Essentials (-1: none)."""
    slots = {name: slot for slot, name in enumerate(Essentials._fields)}
    return [(kind, slots.get(name, -1)) for flag, name, kind in WALK if flags & flag]


def read_properties(header: bytes) -> Properties:
    """Decode all properties of a content header."""
    return Properties(
        **{name: _decoded(header, name, place) for name, place in _places(header).items()}  # type: ignore[arg-type]
    )


def property_of(header: bytes, name: str) -> int | str | FieldTable | None:
    """Decode one property by its name in `Properties`; None if not present."""
    place = _place(header, _FLAG[name])
    return None if place is None else _decoded(header, name, place)


def headers_of(header: bytes) -> bytes | None:
    """Return the encoded entries of the table `headers`; None if not present."""
    return _content(header, _place(header, _HEADERS_FLAG), 4)


def header_value(header: bytes, name: str) -> FieldValue:
    """Decode one entry of the table `headers`; None if it is not present or void."""
    headers = headers_of(header)
    wanted = name.encode("utf-8", "surrogateescape")
    if headers is None or wanted not in headers:
        return None
    for entry, begin, end in walk_entries(headers):
        if entry == wanted:
            return decode_value(headers, begin + 1 + len(entry), end)
    return None


def make_header(body_size: int, properties: Properties = Properties()) -> bytes:  # noqa: B008
    """Encode a content header; ValueError if a value does not fit its property."""
    flags, parts = 0, [b""]
    for (flag, _, kind), value in zip(WALK, properties, strict=True):
        if value is not None:
            flags |= flag
            parts.append(_encoded(kind, value))
    parts[0] = _FIXED.pack(BASIC_CLASS, 0, body_size, flags)
    return b"".join(parts)


def with_header(header: bytes, name: str, value: FieldValue) -> bytes:
    """Return a content header with an entry of `headers` replaced, or appended if missing."""
    entry = encode_short_string(name) + encode_value(value)
    key = entry[1 : 1 + entry[0]]
    headers = headers_of(header) or b""
    begin, end = _entry(headers, key)
    return _with_headers(header, headers[:begin] + entry + headers[end:])


def without_header(header: bytes, name: str) -> bytes:
    """Return a content header without an entry of `headers`; the same object if it has none."""
    headers = headers_of(header)
    if headers is None:
        return header
    begin, end = _entry(headers, name.encode("utf-8", "surrogateescape"))
    return header if begin == end else _with_headers(header, headers[:begin] + headers[end:])


def without_property(header: bytes, name: str) -> bytes:
    """Return a content header without a property; the same object if it is not present."""
    flag = _FLAG[name]
    place = _place(header, flag)
    if place is None:
        return header
    flags = _UNPACK_FLAGS(header, FLAGS_AT)[0] & ~flag
    rest = (header[PROPERTIES_AT : place[0]], header[place[1] :])
    return b"".join((header[:FLAGS_AT], flags.to_bytes(2), *rest))


def with_text(header: bytes, name: str, text: str) -> bytes:
    """Return a content header with a string property replaced; the same object if not present."""
    place = _place(header, _FLAG[name])
    if place is None:
        return header
    return b"".join((header[: place[0]], encode_short_string(text), header[place[1] :]))


def _entry(headers: bytes, key: bytes) -> tuple[int, int]:
    """Return begin and end of the entry with this name; the table's end twice if missing."""
    for entry, begin, end in walk_entries(headers):
        if entry == key:
            return begin, end
    return len(headers), len(headers)


def _with_headers(header: bytes, headers: bytes) -> bytes:
    """Replace the table `headers`, or insert it in its place."""
    flags = _flags(header)
    place = _place(header, _HEADERS_FLAG)
    if place is None:
        begin = PROPERTIES_AT
        for passed in _way(flags, _HEADERS_FLAG)[0]:
            begin = _past(header, begin, passed)
        place = begin, begin
    begin, end = place
    return b"".join(
        (
            header[:FLAGS_AT],
            (flags | _HEADERS_FLAG).to_bytes(2),
            header[PROPERTIES_AT:begin],
            _UINT32.pack(len(headers)),
            headers,
            header[end:],
        )
    )


def _flags(header: bytes) -> int:
    if len(header) < PROPERTIES_AT:
        raise Malformed(f"a content header of {len(header)} bytes")
    return int(_UNPACK_FLAGS(header, FLAGS_AT)[0])


def _past(header: bytes, at: int, kind: str) -> int:
    """Return where the property at `at` ends; Malformed if that is after the content header's
    end."""
    end = len(header)
    size = SIZES[kind]
    if end - at < size:
        raise Malformed("a content header ends within a property")
    after = at + size
    if kind is STRING:
        after += header[at]
    elif kind is TABLE:
        after += _UINT32.unpack_from(header, at)[0]
    if after > end:
        raise Malformed("a content header ends within a property")
    return after


@lru_cache(maxsize=1024)
def _way(flags: int, wanted: int) -> tuple[list[str], str]:
    """Return the encodings of the present properties before the one with flag `wanted`, and its
    own."""
    before = [kind for flag, _, kind in WALK if flag > wanted and flags & flag]
    return before, next(kind for flag, _, kind in WALK if flag == wanted)


def _place(header: bytes, wanted: int) -> tuple[int, int] | None:
    """Return begin and end of the property with this flag; None if not present."""
    flags, at = _flags(header), PROPERTIES_AT
    if not flags & wanted:
        return None
    before, kind = _way(flags, wanted)
    for passed in before:
        at = _past(header, at, passed)
    return at, _past(header, at, kind)


def _places(header: bytes) -> dict[str, tuple[int, int]]:
    """Return begin and end of each present property."""
    flags, at = _flags(header), PROPERTIES_AT
    found: dict[str, tuple[int, int]] = {}
    for flag, name, kind in WALK:
        if flags & flag:
            begin, at = at, _past(header, at, kind)
            found[name] = begin, at
    if at != len(header):
        raise Malformed(f"{len(header) - at} bytes behind the properties")
    return found


def _content(header: bytes, place: tuple[int, int] | None, length_bytes: int) -> bytes | None:
    return None if place is None else header[place[0] + length_bytes : place[1]]


def _decoded(header: bytes, name: str, place: tuple[int, int]) -> int | str | FieldTable:
    begin, end = place
    match _KINDS.get(name, STRING):
        case "table":
            return decode_table(header[begin + 4 : end])
        case "octet":
            return header[begin]
        case "timestamp":
            return int(_UINT64.unpack_from(header, begin)[0])
    return header[begin + 1 : end].decode("utf-8", "surrogateescape")


def _encoded(kind: str, value: object) -> bytes:
    match kind, value:
        case "table", dict():
            content = encode_table(value)
            return _UINT32.pack(len(content)) + content
        case "shortstr", str():
            return encode_short_string(value)
        case "octet", int() if 0 <= value < 1 << 8:
            return value.to_bytes()
        case "timestamp", int() if 0 <= value < 1 << 64:
            return value.to_bytes(8)
    raise ValueError(f"{value!r} does not fit a property of kind {kind}")
