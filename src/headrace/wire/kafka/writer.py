"""Encode the protocol's primitive types.

`Writer` handles the old encoding, `CompactWriter` the flexible one, with the same method names as
`reader`: `writer_of(flexible)`.
"""

import struct
from collections.abc import Sequence

from headrace.wire.kafka.primitives import FLOAT64, INT16, INT32, INT64, NO_UUID, UINT32, Bytes


def encode_uvarint(number: int) -> bytes:
    """Encode an unsigned varint."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Writer:
    """Encodes a message into the bytearray `out`."""

    __slots__ = ("out",)

    def __init__(self) -> None:
        self.out = bytearray()

    def int8(self, value: int) -> None:
        self.out.append(value & 0xFF)

    def boolean(self, value: bool) -> None:
        self.out.append(1 if value else 0)

    def int16(self, value: int) -> None:
        self.out += INT16.pack(value)

    def int32(self, value: int) -> None:
        self.out += INT32.pack(value)

    def uint32(self, value: int) -> None:
        self.out += UINT32.pack(value)

    def int64(self, value: int) -> None:
        self.out += INT64.pack(value)

    def float64(self, value: float) -> None:
        self.out += FLOAT64.pack(value)

    def uuid(self, value: "bytes | None") -> None:
        """Encode a UUID of 16 bytes; None is the zero UUID."""
        self.out += NO_UUID if value is None else value

    def uvarint(self, value: int) -> None:
        self.out += encode_uvarint(value)

    def varint(self, value: int) -> None:
        """Encode a zig-zag varint of up to 64 bits."""
        self.out += encode_uvarint((value << 1) ^ (value >> 63))

    def raw(self, data: Bytes) -> None:
        self.out += data

    # The methods below differ between the two encodings.

    def string(self, value: str) -> None:
        data = value.encode()
        self.out += INT16.pack(len(data)) + data

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self.out += b"\xff\xff"
        else:
            self.string(value)

    def bytes_size(self, size: int) -> None:
        """Encode the size of bytes that the caller appends; -1 for null."""
        self.out += INT32.pack(size)

    def count(self, count: int) -> None:
        """Encode an array's length; -1 for null."""
        self.out += INT32.pack(count)

    def bytes(self, value: Bytes) -> None:
        self.bytes_size(len(value))
        self.out += value

    def nullable_bytes(self, value: Bytes | None) -> None:
        if value is None:
            self.bytes_size(-1)
        else:
            self.bytes(value)

    def int32s(self, values: Sequence[int]) -> None:
        self.count(len(values))
        self.out += struct.pack(f">{len(values)}i", *values)

    def strings(self, values: Sequence[str]) -> None:
        self.count(len(values))
        for value in values:
            self.string(value)

    def tags(self, fields: Sequence[tuple[int, Bytes]] = ()) -> None:
        """End a struct with its tagged fields, ascending; does nothing in the old encoding."""


class CompactWriter(Writer):
    """Writer of the flexible encoding (KIP-482)."""

    __slots__ = ()

    def string(self, value: str) -> None:
        data = value.encode()
        self.out += encode_uvarint(len(data) + 1) + data

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self.out.append(0)
        else:
            self.string(value)

    def bytes_size(self, size: int) -> None:
        self.out += encode_uvarint(size + 1)

    def count(self, count: int) -> None:
        self.out += encode_uvarint(count + 1)

    def tags(self, fields: Sequence[tuple[int, Bytes]] = ()) -> None:
        self.out += encode_uvarint(len(fields))
        for tag, data in fields:
            self.out += encode_uvarint(tag) + encode_uvarint(len(data))
            self.out += data


def writer_of(flexible: bool) -> type[Writer]:
    """Return the writer class of the flexible or the old encoding."""
    return CompactWriter if flexible else Writer
