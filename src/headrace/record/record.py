"""Encode and decode the records inside a batch, and control records (`batch_layout` draws them)."""

import functools
import itertools
import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from headrace.record.compression import Codec, CorruptBatch, compress, decompress

_RECORD_BYTES_MIN = 7
"""Smallest record: length, attributes, two deltas, two lengths, header count, a byte each."""
_HEADER_BYTES_MIN = 2
_LIST_RECORDS_MAX = 4096
"""Records decoded at once, which bounds the memory for them."""
_NULL = 0x01
"""The byte that encodes a length of -1: null."""
_CONTROL_KEY = struct.Struct(">hh")
_CONTROL_VALUE = struct.Struct(">hi")

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10

Bytes = bytes | bytearray | memoryview
Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """A decoded message. `timestamp` in milliseconds since 1970, -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


class ControlType(IntEnum):
    """The type of a control record, from its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlMarker(NamedTuple):
    """A control record's type, and the coordinator epoch of a transaction marker, else -1."""

    type: ControlType
    coordinator_epoch: int


def new_record(
    value: bytes | None,
    key: bytes | None = None,
    timestamp: int = -1,
    headers: Sequence[Header] = (),
) -> Record:
    """Make a record without an offset; `build` assigns it."""
    return Record(0, timestamp, key, value, headers)


def control_record(control_type: ControlType, coordinator_epoch: int, timestamp: int) -> Record:
    """Make the single record of a control batch that ends a transaction."""
    key = _CONTROL_KEY.pack(0, control_type)
    return Record(0, timestamp, key, _CONTROL_VALUE.pack(0, coordinator_epoch))


def parse_control(record: Record) -> ControlMarker:
    """Parse a control batch's record; CorruptBatch if it is not a control record."""
    try:
        _, number = _CONTROL_KEY.unpack_from(record.key or b"")
        control_type = ControlType(number)
        if control_type > ControlType.COMMIT:
            return ControlMarker(control_type, -1)
        _, epoch = _CONTROL_VALUE.unpack_from(record.value or b"")
        return ControlMarker(control_type, epoch)
    except (struct.error, ValueError):
        raise CorruptBatch("not a control record") from None


def read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint at `at`; return it and the next position. IndexError at the end."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise CorruptBatch("a varint of more than 10 bytes")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a zig-zag varint at `at`; return it and the next position. IndexError at the end."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    number, at = read_unsigned(data, at)
    return (number >> 1) ^ -(number & 1), at


def read_varint_within(
    data: Bytes, at: int, end: int, bytes_max: int = VARINT_BYTES_MAX
) -> tuple[int, int]:
    """Read a zig-zag varint of at most `bytes_max` bytes in [at, end), and the next position.

    The position is -1 if the varint is incomplete or does not fit its type (32 or 64 bits).
    """
    if at < end and (byte := data[at]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    raw = shift = 0
    for here in range(at, min(end, at + bytes_max)):
        byte = data[here]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> (32 if bytes_max == VARINT_BYTES_MAX else 64):
                break
            return (raw >> 1) ^ -(raw & 1), here + 1
        shift += 7
    return 0, -1


def _read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size = data[at]
    at += 1
    if size >= 0x80:
        if (high := data[at]) < 0x80:
            size += (high << 7) - 0x80
            at += 1
        else:
            size, at = read_unsigned(data, at - 1)
    if size & 1:  # zig-zag: odd is negative, a null
        return None, at
    after = at + (size >> 1)
    if after > end:
        raise CorruptBatch("a field is longer than its record")
    return data[at:after], after


def _read_headers(data: bytes, at: int, end: int) -> tuple[Sequence[Header], int]:
    count, at = _read_varint(data, at)
    if count == 0:
        return (), at
    if not 0 <= count * _HEADER_BYTES_MIN <= end - at:
        raise CorruptBatch(f"{count} headers do not fit in {end - at} bytes")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at, end)
        value, at = _read_bytes(data, at, end)
        if name is None:
            raise CorruptBatch("a header without a name")
        headers.append((name.decode(), value))
    return headers, at


class _Headers:
    """Decodes records' headers; neighbours mostly have equal ones, which are decoded once."""

    __slots__ = ("_encoded", "_known")

    def __init__(self) -> None:
        self._encoded = b""
        self._known: Sequence[Header] = ()

    def read(self, data: bytes, at: int, end: int) -> tuple[Sequence[Header], int]:
        """Return the headers from `at` on and the position behind them, which should be `end`."""
        encoded = data[at:end]
        if encoded != self._encoded or not encoded:
            known, behind = _read_headers(data, at, end)
            if behind != end:
                return known, behind
            self._encoded, self._known = encoded, known
        return self._known, end


def read_record_lists(
    payload: memoryview,
    codec: Codec,
    *,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    limit: int,
) -> Iterator[list[Record]]:
    """Yield the records of a batch's payload in lists of up to 4096.

    CorruptBatch for malformed records, after the records before the damage were yielded.
    """
    data = bytes(decompress(codec, payload, limit))
    if not 0 <= count * _RECORD_BYTES_MIN <= len(data):
        raise CorruptBatch(f"{count} records do not fit in {len(data)} bytes")
    at = 0
    for done in range(0, count, _LIST_RECORDS_MAX):
        found: list[Record] = []
        damage: CorruptBatch | None = None
        some = min(count - done, _LIST_RECORDS_MAX)
        try:
            at = read_into(found, some, data, at, base_offset, base_timestamp, append_time)
        except CorruptBatch as error:
            damage = error
        except (IndexError, UnicodeDecodeError) as error:
            damage = CorruptBatch(f"a record does not parse: {error}")
        if found:
            yield found
        if damage is not None:
            raise damage
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes after the last record")


def read_into(
    found: list[Record], count: int, data: bytes, at: int, base_offset: int, base_timestamp: int,
    append_time: int | None,
) -> int:  # fmt: skip
    """Append `count` records from byte `at` on to `found`; return the position behind them.

    Varints of one and two bytes, as most lengths and deltas have, are decoded inline: a Python
    client spends its time here, and a call costs more than the arithmetic. Odd is negative.
    """
    append, new, more = found.append, tuple.__new__, read_unsigned  # `new`: as `_new` in `batch`
    read_headers = _Headers().read
    for _ in range(count):
        size = data[at]
        at += 1
        if size >= 0x80:
            if (high := data[at]) < 0x80:
                size += (high << 7) - 0x80
                at += 1
            else:
                size, at = more(data, at - 1)
        end = at + (size >> 1)
        if size & 1 or end > len(data):
            raise CorruptBatch("a record is longer than its batch")
        time = data[at + 1]
        at += 2
        if time >= 0x80:
            time, at = more(data, at - 1)
        delta = data[at]
        at += 1
        if delta >= 0x80:
            if (high := data[at]) < 0x80:
                delta += (high << 7) - 0x80
                at += 1
            else:
                delta, at = more(data, at - 1)
        key, at = (None, at + 1) if data[at] == _NULL else _read_bytes(data, at, end)
        value_size = data[at]
        at += 1
        if value_size >= 0x80:
            if (high := data[at]) < 0x80:
                value_size += (high << 7) - 0x80
                at += 1
            else:
                value_size, at = more(data, at - 1)
        value = None
        if not value_size & 1:
            begin, at = at, at + (value_size >> 1)
            if at > end:
                raise CorruptBatch("a field is longer than its record")
            value = data[begin:at]
        headers, at = read_headers(data, at, end) if data[at] else ((), at + 1)
        if at != end:
            raise CorruptBatch("a record's length is not that of its fields")
        timestamp = append_time
        if timestamp is None:
            timestamp = base_timestamp + ((time >> 1) ^ -(time & 1))
        offset = base_offset + ((delta >> 1) ^ -(delta & 1))
        append(new(Record, (offset, timestamp, key, value, headers)))
    return at


def write_varint(number: int) -> bytes:
    """Encode a number of up to 64 bits as a zig-zag varint."""
    number = (number << 1) ^ (number >> 63)
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_KNOWN = tuple(map(write_varint, range(256)))
"""Encoded varints of 0 to 255, as most lengths and offset deltas are."""
_SHORT = 1 << 13
"""Numbers below this one take at most two bytes."""


@functools.cache
def short_numbers() -> tuple[bytes, ...]:
    """Return the encoded varints of 0 to 8191; built by the first large batch, not at a start."""
    return tuple(map(write_varint, range(_SHORT)))


_NO_BYTES = b"\x01"
"""The encoding of null: a length of -1."""


def _size(data: Bytes) -> bytes:
    return write_varint(len(data))


def sized(data: Bytes | None) -> bytes:
    return b"\x01" if data is None else write_varint(len(data)) + data


def encoded_headers(headers: Sequence[Header]) -> bytes:
    if not headers:
        return b"\x00"
    parts = [write_varint(len(headers))]
    for name, value in headers:
        parts += (sized(name.encode()), sized(value))
    return b"".join(parts)


def write_records(
    batch: Sequence[Record], codec: Codec, base_timestamp: int, base_offset: int | None
) -> bytes:
    """Encode the records of a batch; offset deltas count from 0, or from `base_offset` if given."""
    known, few = _KNOWN, len(_KNOWN)
    out: list[bytes] = []
    for number, (offset, timestamp, key, value, headers) in enumerate(batch):
        delta = number if base_offset is None else offset - base_offset
        fields = (
            b"\x00" if timestamp == base_timestamp else write_varint(timestamp - base_timestamp),
            known[delta] if 0 <= delta < few else write_varint(delta),
            _NO_BYTES if key is None else known[len(key)] if len(key) < few else _size(key),
            key or b"",
            _NO_BYTES if value is None else known[len(value)] if len(value) < few else _size(value),
            value or b"",
            encoded_headers(headers) if headers else b"\x00",
        )
        size = 1 + sum(map(len, fields))
        out += (known[size] if size < few else write_varint(size), b"\x00", *fields)
    return compress(codec, b"".join(out))


def write_pairs(pairs: Sequence[tuple[bytes, bytes | None]], codec: Codec) -> bytes:
    """Encode records of (key, value) pairs, all with the batch's timestamp, offsets from 0."""
    known, few = _KNOWN, len(_KNOWN)
    out: list[bytes] = []
    for number, (key, value) in enumerate(pairs):
        delta = known[number] if number < few else write_varint(number)
        size = len(key)
        key_size = known[size] if size < few else write_varint(size)
        size += 3 + len(delta) + len(key_size)
        if value is None:
            value_size, value = b"\x01", b""
        else:
            value_size = known[len(value)] if len(value) < few else write_varint(len(value))
        size += len(value_size) + len(value)
        whole = known[size] if size < few else write_varint(size)
        out += (whole, b"\x00\x00", delta, key_size, key, value_size, value, b"\x00")
    return compress(codec, b"".join(out))


def write_values(
    values: Sequence[bytes], key: bytes | None, headers: Sequence[Header], codec: Codec
) -> bytes:
    """Encode records of values with the same key, headers and timestamp, offsets from 0."""
    known = _KNOWN if len(values) <= len(_KNOWN) else short_numbers()
    few = len(known)
    sized_key, tail = sized(key), encoded_headers(headers)
    rest = 2 + len(sized_key) + len(tail)
    deltas = itertools.chain(known, map(write_varint, itertools.count(few)))
    out: list[bytes] = []
    for value, delta in zip(values, deltas, strict=False):
        size = len(value)
        value_size = known[size] if size < few else write_varint(size)
        size += rest + len(delta) + len(value_size)
        whole = known[size] if size < few else write_varint(size)
        out += (whole, b"\x00\x00", delta, sized_key, value_size, value, tail)
    return compress(codec, b"".join(out))
