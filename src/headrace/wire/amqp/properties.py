"""A message's properties, read from and spliced into its content header.

A content header (AMQP 0-9-1, section 4.2.6.1) is class, weight, body size, flags that tell which of
the 14 properties are there, and those one after the other. Headers that a user wrote are never
decoded and encoded: it costs more than all else that is done to a message, and types would be lost
on the way. What is read is read alone, what is changed is cut out and put in.

All here raise Malformed for a header that is cut off or says what cannot be.
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
"""Where the first property of a content header is."""

_FIXED = struct.Struct(">HHQH")
_UINT32 = struct.Struct(">I")
_UINT64 = struct.Struct(">Q")
FLAGS_AT = 12
"""Where the flags of a content header are. What is before them goes by the body alone."""
_UNPACK_FLAGS = struct.Struct(">H").unpack_from
_unpack_size = struct.Struct(">Q").unpack_from


class Properties(NamedTuple):
    """The properties of class basic, in their order; None: not there."""

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
"""Kinds of properties."""
SIZES = {STRING: 1, TABLE: 4, OCTET: 1, TIME: 8}
"""Of the length before a string or a table, of the others wholly."""
_KINDS = {
    "headers": TABLE,
    "delivery_mode": OCTET,
    "priority": OCTET,
    "timestamp": TIME,
}
WALK = [
    (1 << (15 - at), name, _KINDS.get(name, STRING)) for at, name in enumerate(Properties._fields)
]
"""Each property's flag, name and kind, in the order in which they lie in a content header."""
_FLAG = {name: flag for flag, name, _ in WALK}
_HEADERS_FLAG = _FLAG["headers"]
PERSISTENT = 2
"""The delivery mode of a message that survives a restart."""


class Essentials(NamedTuple):
    """What a broker itself goes by. Strings as they came; `headers`: the entries of the table."""

    delivery_mode: int
    priority: int | None
    reply_to: bytes | None
    expiration: bytes | None
    user_id: bytes | None
    headers: bytes | None

    @property
    def persistent(self) -> bool:
        """Whether the message is to survive a restart."""
        return self.delivery_mode == PERSISTENT


def body_size_of(header: bytes) -> int:
    """Return the bytes of body that a content header announces."""
    if len(header) < PROPERTIES_AT:
        raise Malformed(f"a content header of {len(header)} bytes")
    return int(_unpack_size(header, 4)[0])


def read_essentials(header: bytes) -> Essentials:
    """Return what a broker goes by, and check that every property is whole, in one walk.

    Names of headers are not looked at, nor their values: who walks them finds what is malformed.
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
    """Return kind and place in Essentials of each property that is there; -1: no place there."""
    slots = {name: slot for slot, name in enumerate(Essentials._fields)}
    return [(kind, slots.get(name, -1)) for flag, name, kind in WALK if flags & flag]


def read_properties(header: bytes) -> Properties:
    """Return all properties of a content header, decoded."""
    return Properties(
        **{name: _decoded(header, name, place) for name, place in _places(header).items()}  # type: ignore[arg-type]
    )


def property_of(header: bytes, name: str) -> int | str | FieldTable | None:
    """Return one property by its name in `Properties`, None where it is not there."""
    place = _place(header, _FLAG[name])
    return None if place is None else _decoded(header, name, place)


def headers_of(header: bytes) -> bytes | None:
    """Return the entries of the table `headers` as they came, None where it is not there."""
    return _content(header, _place(header, _HEADERS_FLAG), 4)


def header_value(header: bytes, name: str) -> FieldValue:
    """Return one entry of the table `headers`, None where it is not there (or is void)."""
    headers = headers_of(header)
    wanted = name.encode("utf-8", "surrogateescape")
    if headers is None or wanted not in headers:
        return None
    for entry, begin, end in walk_entries(headers):
        if entry == wanted:
            return decode_value(headers, begin + 1 + len(entry), end)
    return None


def make_header(body_size: int, properties: Properties = Properties()) -> bytes:  # noqa: B008
    """Return a content header; ValueError where a value does not fit its property."""
    flags, parts = 0, [b""]
    for (flag, _, kind), value in zip(WALK, properties, strict=True):
        if value is not None:
            flags |= flag
            parts.append(_encoded(kind, value))
    parts[0] = _FIXED.pack(BASIC_CLASS, 0, body_size, flags)
    return b"".join(parts)


def with_header(header: bytes, name: str, value: FieldValue) -> bytes:
    """Return a content header with an entry of `headers` set, in its place or behind the others."""
    entry = encode_short_string(name) + encode_value(value)
    key = entry[1 : 1 + entry[0]]
    headers = headers_of(header) or b""
    begin, end = _entry(headers, key)
    return _with_headers(header, headers[:begin] + entry + headers[end:])


def without_header(header: bytes, name: str) -> bytes:
    """Return a content header without an entry of `headers`; itself where it has none."""
    headers = headers_of(header)
    if headers is None:
        return header
    begin, end = _entry(headers, name.encode("utf-8", "surrogateescape"))
    return header if begin == end else _with_headers(header, headers[:begin] + headers[end:])


def without_property(header: bytes, name: str) -> bytes:
    """Return a content header without a property; itself where it has none."""
    flag = _FLAG[name]
    place = _place(header, flag)
    if place is None:
        return header
    flags = _UNPACK_FLAGS(header, FLAGS_AT)[0] & ~flag
    rest = (header[PROPERTIES_AT : place[0]], header[place[1] :])
    return b"".join((header[:FLAGS_AT], flags.to_bytes(2), *rest))


def with_text(header: bytes, name: str, text: str) -> bytes:
    """Return a content header with another text in a property that is there; itself without it."""
    place = _place(header, _FLAG[name])
    if place is None:
        return header
    return b"".join((header[: place[0]], encode_short_string(text), header[place[1] :]))


def _entry(headers: bytes, key: bytes) -> tuple[int, int]:
    """Return where the entry of a name is; where there is none, the end, twice."""
    for entry, begin, end in walk_entries(headers):
        if entry == key:
            return begin, end
    return len(headers), len(headers)


def _with_headers(header: bytes, headers: bytes) -> bytes:
    """Put another table in the place of `headers`, or where it would be."""
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
    """Return where the property of this kind that begins at `at` ends; Malformed behind the end."""
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
    """Return the kinds of the properties before that of the flag `wanted`, and its own."""
    before = [kind for flag, _, kind in WALK if flag > wanted and flags & flag]
    return before, next(kind for flag, _, kind in WALK if flag == wanted)


def _place(header: bytes, wanted: int) -> tuple[int, int] | None:
    """Return where the property of a flag begins and ends, None where it is not there."""
    flags, at = _flags(header), PROPERTIES_AT
    if not flags & wanted:
        return None
    before, kind = _way(flags, wanted)
    for passed in before:
        at = _past(header, at, passed)
    return at, _past(header, at, kind)


def _places(header: bytes) -> dict[str, tuple[int, int]]:
    """Return where each property that is there begins and ends."""
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
