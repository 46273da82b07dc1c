"""Decode the protocol's primitive types, with bounds checks.

`Reader` handles the old encoding, `CompactReader` the flexible one (KIP-482), with the same method
names. So a codec is written once for both: `reader_of(flexible)`. Every announced length and count
is compared with the remaining bytes before anything is allocated; `Malformed` if it does not fit.
"""

import struct
from collections.abc import Iterator
from typing import Any, Self

from headrace.model.errors import Malformed
from headrace.wire.kafka.primitives import FLOAT64, INT16, INT32, INT64, UINT32, UUID_BYTES

ELEMENTS_MAX = 1_000_000
"""Maximum number of array elements in one message, over all its arrays.

Python objects take some twenty times the bytes they are decoded from: a request of 100 MiB with
only empty names would grow to gigabytes.
"""
_UVARINT_BITS_MAX = 35
_VARLONG_BITS_MAX = 70


class Reader:
    """Decodes a message from `view`; `at` is the position of the next byte."""

    __slots__ = ("at", "elements_left", "end", "view")

    def __init__(self, view: memoryview, at: int = 0) -> None:
        self.view = view
        self.at = at
        self.end = len(view)
        self.elements_left = ELEMENTS_MAX

    def remaining(self) -> int:
        """Return the number of bytes not read yet."""
        return self.end - self.at

    def _take(self, size: int) -> int:
        """Advance by `size` bytes; return the position of the first. Raises Malformed."""
        at = self.at
        if not 0 <= size <= self.end - at:
            raise Malformed(f"{size} bytes wanted at {at}, {self.end - at} left")
        self.at = at + size
        return at

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """Decode several fixed-size fields at once."""
        at = self.at
        if form.size > self.end - at:
            raise Malformed(f"{form.size} bytes wanted at {at}, {self.end - at} left")
        self.at = at + form.size
        return form.unpack_from(self.view, at)

    def int8(self) -> int:
        value = self.view[self._take(1)]
        return value - 256 if value > 127 else value

    def uint8(self) -> int:
        return self.view[self._take(1)]

    def boolean(self) -> bool:
        """Decode a boolean: any byte except 0 is true, as in Java's reader."""
        return self.view[self._take(1)] != 0

    def int16(self) -> int:
        value: int = INT16.unpack_from(self.view, self._take(2))[0]
        return value

    def int32(self) -> int:
        value: int = INT32.unpack_from(self.view, self._take(4))[0]
        return value

    def uint32(self) -> int:
        value: int = UINT32.unpack_from(self.view, self._take(4))[0]
        return value

    def int64(self) -> int:
        value: int = INT64.unpack_from(self.view, self._take(8))[0]
        return value

    def float64(self) -> float:
        value: float = FLOAT64.unpack_from(self.view, self._take(8))[0]
        return value

    def uuid(self) -> bytes:
        """Decode a UUID of 16 bytes; `NO_UUID` for none."""
        at = self._take(UUID_BYTES)
        return bytes(self.view[at : at + UUID_BYTES])

    def _unsigned(self, bits_max: int) -> int:
        view, at, end = self.view, self.at, self.end
        number = shift = 0
        while at < end:
            byte = view[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                return number
            shift += 7
            if shift >= bits_max:
                raise Malformed(f"a number of more than {bits_max // 7} bytes")
        raise Malformed("a number without an end")

    def uvarint(self) -> int:
        """Decode an unsigned varint of up to 32 bits."""
        at = self.at
        if at < self.end:
            byte = self.view[at]
            if byte < 0x80:  # The usual case: one byte.
                self.at = at + 1
                return byte
        number = self._unsigned(_UVARINT_BITS_MAX)
        if number > 0xFFFF_FFFF:
            raise Malformed(f"{number} in 32 bits")
        return number

    def varint(self) -> int:
        """Decode a zig-zag varint of 32 bits."""
        number = self.uvarint()
        return (number >> 1) ^ -(number & 1)

    def varlong(self) -> int:
        """Decode a zig-zag varint of 64 bits."""
        number = self._unsigned(_VARLONG_BITS_MAX)
        return (number >> 1) ^ -(number & 1)

    def raw(self, size: int) -> memoryview:
        """Return the next `size` bytes as a view, uncopied."""
        at = self._take(size)
        return self.view[at : at + size]

    def skip(self, size: int) -> None:
        """Skip `size` bytes."""
        self._take(size)

    def _text(self, size: int) -> str:
        at = self._take(size)
        try:
            return str(self.view[at : at + size], "utf-8")
        except UnicodeDecodeError:
            raise Malformed(f"no UTF-8 at {at}") from None

    # The methods below differ between the two encodings. A size of -1 is null in both.

    def _string_size(self) -> int:
        return self.int16()

    def _bytes_size(self) -> int:
        return self.int32()

    def _count(self) -> int:
        return self.int32()

    def string(self) -> str:
        size = self._string_size()
        if size < 0:
            raise Malformed("null where a string must be")
        return self._text(size)

    def nullable_string(self) -> str | None:
        size = self._string_size()
        if size == -1:
            return None
        return self._text(size)

    def skip_string(self) -> None:
        """Skip a string or null."""
        size = self._string_size()
        if size != -1:
            self._take(size)

    def bytes(self) -> memoryview:
        """Return a bytes field as a view of the message; Malformed for null."""
        size = self._bytes_size()
        if size < 0:
            raise Malformed("null where bytes must be")
        return self.raw(size)

    def nullable_bytes(self) -> memoryview | None:
        """Return a bytes field as a view of the message, or None for null."""
        size = self._bytes_size()
        if size == -1:
            return None
        return self.raw(size)

    def count(self, element_bytes_min: int) -> int:
        """Decode an array's length; Malformed for null, or if the remaining bytes cannot hold it.

        `element_bytes_min`: minimum size of an element.
        """
        count = self._count()
        if count < 0 or count * element_bytes_min > self.end - self.at:
            raise Malformed(f"{count} elements announced, {self.end - self.at} bytes left")
        self._spend(count)
        return count

    def nullable_count(self, element_bytes_min: int) -> int:
        """Decode an array's length as `count` does, but return -1 for null."""
        count = self._count()
        if count < -1 or count * element_bytes_min > self.end - self.at:
            raise Malformed(f"{count} elements announced, {self.end - self.at} bytes left")
        self._spend(count)
        return count

    def _spend(self, count: int) -> None:
        self.elements_left -= max(0, count)
        if self.elements_left < 0:
            raise Malformed(f"more than {ELEMENTS_MAX} array elements")

    def int32s(self) -> list[int]:
        """Decode an array of int32."""
        count = self.count(4)
        at = self._take(4 * count)
        return list(struct.unpack_from(f">{count}i", self.view, at))

    def strings(self) -> list[str]:
        """Decode an array of strings."""
        return [self.string() for _ in range(self.count(1))]

    def skip_tags(self) -> None:
        """Skip tagged fields; does nothing in the old encoding."""

    def tags(self) -> Iterator[tuple[int, Self]]:
        """Yield the number of each tagged field, and a reader limited to its value."""
        return iter(())


class CompactReader(Reader):
    """Reader of the flexible encoding: lengths are varints plus one (0: null), structs end with
    tags."""

    __slots__ = ()

    def _string_size(self) -> int:
        return self.uvarint() - 1

    def _bytes_size(self) -> int:
        return self.uvarint() - 1

    def _count(self) -> int:
        return self.uvarint() - 1

    def count(self, element_bytes_min: int) -> int:
        at, end = self.at, self.end
        if at < end:
            byte = self.view[at]
            if 0 < byte < 0x80:
                at += 1
                count = byte - 1
                if count * element_bytes_min <= end - at and count <= self.elements_left:
                    self.elements_left -= count
                    self.at = at
                    return count
        return super().count(element_bytes_min)

    def string(self) -> str:
        at = self.at
        if at < self.end:
            size = self.view[at]
            stop = at + size
            if 0 < size < 0x80 and stop <= self.end:
                self.at = stop
                try:
                    return str(self.view[at + 1 : stop], "utf-8")
                except UnicodeDecodeError:
                    raise Malformed(f"no UTF-8 at {at + 1}") from None
        return super().string()

    def skip_tags(self) -> None:
        at = self.at
        if at < self.end and self.view[at] == 0:  # The usual case: no tagged fields.
            self.at = at + 1
            return
        for _ in self.tags():
            pass

    def tags(self) -> Iterator[tuple[int, Self]]:
        last = -1
        for _ in range(self._tag_count()):
            tag = self.uvarint()
            if tag <= last:
                raise Malformed(f"tag {tag} after tag {last}")
            last = tag
            size = self.uvarint()
            yield tag, type(self)(self.raw(size))

    def _tag_count(self) -> int:
        count = self.uvarint()
        if count * 2 > self.end - self.at:
            raise Malformed(f"{count} tags announced, {self.end - self.at} bytes left")
        return count


def reader_of(flexible: bool) -> type[Reader]:
    """Return the reader class of the flexible (compact lengths, tagged fields) or old encoding."""
    return CompactReader if flexible else Reader
