"""Encode and decode AMQP methods to named tuples, by the tables of their fields.

Used for rare methods. `hot` has hand-written codecs of the frequent ones; tests compare both. The
methods and their fields are in control_methods and model_methods.
"""

import struct
from collections.abc import Callable
from typing import Any, cast

from headrace.model.errors import Malformed
from headrace.wire.amqp import control_methods, model_methods
from headrace.wire.amqp.field_kinds import IDS, METHODS, MethodId
from headrace.wire.amqp.field_table import decode_table, encode_short_string, encode_table
from headrace.wire.amqp.frames import FRAME_METHOD, encode_frame

Method = tuple[Any, ...]
"""A method: any named tuple of control_methods and model_methods."""

WITH_CONTENT = frozenset(
    (
        model_methods.BasicPublish,
        model_methods.BasicReturn,
        model_methods.BasicDeliver,
        model_methods.BasicGetOk,
    )
)
"""Methods that are followed by a content header and a body."""

_IDS = struct.Struct(">HH")
_LENGTH = struct.Struct(">I")
_INTEGERS = {
    "octet": struct.Struct(">B"),
    "short": struct.Struct(">H"),
    "long": struct.Struct(">I"),
    "longlong": struct.Struct(">Q"),
}
_fields: dict[type, list[str]] = {}


class UnknownMethod(Malformed):
    """A frame has method ids that AMQP does not define."""

    def __init__(self, ids: MethodId) -> None:
        super().__init__(f"no method has the ids {ids.class_id} and {ids.method_id}")
        self.ids = ids


def method_id(payload: bytes) -> MethodId:
    """Return the method ids at the start of a method frame's payload; Malformed if too short."""
    if len(payload) < _IDS.size:
        raise Malformed(f"a method of {len(payload)} bytes")
    return MethodId(*_IDS.unpack_from(payload))


def name_of(ids: MethodId) -> str:
    """Return a method's name as in RabbitMQ's texts, for example `basic.publish`."""
    room, _, rest = _hyphenless(METHODS[ids].__name__).partition("_")
    return f"{room}.{rest}"


def decode_method(payload: bytes) -> Method:
    """Decode the payload of a method frame. Raises UnknownMethod or Malformed."""
    ids = method_id(payload)
    kind = METHODS.get(ids)
    if kind is None:
        raise UnknownMethod(ids)
    reader = _Reader(payload, _IDS.size)
    values = [_READERS[field](reader) for field in _fields_of(kind)]
    if reader.at != len(payload):
        raise Malformed(f"{len(payload) - reader.at} bytes behind a {kind.__name__}")
    return cast(Method, kind(*values))


def encode_method(channel: int, method: Method) -> bytes:
    """Encode a method as a whole frame; ValueError if a value does not fit its field.

    The caller must keep tables and long strings within the negotiated frame size.
    """
    kind = type(method)
    parts = [_IDS.pack(*IDS[kind])]
    bits = bit = 0
    for field, value in zip(_fields_of(kind), method, strict=True):
        if field == "bit":
            # No method has more than six consecutive bits, so one byte suffices.
            bits |= bool(value) << bit
            bit += 1
            continue
        if bit:
            parts.append(bits.to_bytes())
            bits = bit = 0
        parts.append(_encode(field, value))
    if bit:
        parts.append(bits.to_bytes())
    return encode_frame(FRAME_METHOD, channel, b"".join(parts))


def _hyphenless(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]


def _fields_of(kind: type) -> list[str]:
    """Return the field types of a method."""
    fields = _fields.get(kind)
    if fields is None:
        kinds = kind.__annotations__.values()
        fields = _fields[kind] = [annotated.__metadata__[0] for annotated in kinds]
    return fields


def _encode(field: str, value: Any) -> bytes:  # noqa: ANN401 - what the field's kind says
    if field == "shortstr":
        return encode_short_string(value)
    if field == "longstr":
        return b"".join((_LENGTH.pack(len(value)), value))
    if field == "table":
        content = encode_table(value)
        return _LENGTH.pack(len(content)) + content
    try:
        return _INTEGERS[field].pack(value)
    except struct.error:
        raise ValueError(f"{value!r} does not fit a field of kind {field}") from None


class _Reader:
    """Reads the fields of a method in order."""

    __slots__ = ("_bit", "at", "payload")

    def __init__(self, payload: bytes, at: int) -> None:
        self.payload = payload
        self.at = at
        self._bit = 0

    def _take(self, size: int) -> int:
        """Advance by `size` bytes, after any pending bits; return their position."""
        at = self.at
        if size > len(self.payload) - at:
            raise Malformed(f"{size} bytes wanted at {at}, {len(self.payload) - at} left")
        self.at = at + size
        self._bit = 0
        return at

    def bit(self) -> bool:
        mask = 1 << self._bit
        if not self._bit:
            self._take(1)
        self._bit += 1
        return self.payload[self.at - 1] & mask != 0

    def integer(self, form: struct.Struct) -> int:
        return int(form.unpack_from(self.payload, self._take(form.size))[0])

    def short_string(self) -> str:
        size = self.payload[self._take(1)]
        at = self._take(size)
        try:
            return self.payload[at : at + size].decode()
        except UnicodeDecodeError:
            raise Malformed("a short string that is not UTF-8") from None

    def long_string(self) -> bytes:
        size = self.integer(_LENGTH)
        at = self._take(size)
        return self.payload[at : at + size]


def _integer(kind: str) -> Callable[[_Reader], int]:
    form = _INTEGERS[kind]
    return lambda reader: reader.integer(form)


_READERS: dict[str, Callable[[_Reader], Any]] = {
    **{kind: _integer(kind) for kind in _INTEGERS},
    "bit": _Reader.bit,
    "shortstr": _Reader.short_string,
    "longstr": _Reader.long_string,
    "table": lambda reader: decode_table(reader.long_string()),
}

# Importing this module also registers the methods of both tables.
__all__ = [
    "IDS",
    "METHODS",
    "WITH_CONTENT",
    "Method",
    "MethodId",
    "UnknownMethod",
    "control_methods",
    "decode_method",
    "encode_method",
    "method_id",
    "model_methods",
    "name_of",
]
