"""The part of compaction per record: map keys to offsets, copy or drop records.

`Records` is the interface; `PlainRecords` implements it in Python, at about 300,000 records a
second. `kernels.compact_records` is the compiled version: a property test compares the two, so
change both.

Records are copied unchanged. A batch keeps its base offset and base timestamp when records are
removed. Only a delete horizon, which replaces the base timestamp (KIP-534), makes new timestamp
deltas necessary (`rebase`).
"""

from hashlib import blake2b
from typing import NamedTuple, Protocol

from headrace.ports.disk import Buffer
from headrace.record.compression import CorruptBatch
from headrace.record.record import (
    VARINT_BYTES_MAX,
    VARLONG_BYTES_MAX,
    read_varint_within,
    write_varint,
)

INDEX_ENTRY_BYTES = 24
"""Bytes of an entry of the compiled map: a 16-byte hash and an offset, as in Kafka."""
PLAIN_ENTRY_BYTES = 200
"""Approximate bytes of a dictionary entry in Python: key, number and slot."""
_KEY_BYTES_MAX = 32
_RECORD_BYTES_MIN = 6
"""Smallest record in bytes: length, attributes, two deltas, two lengths."""


class Span(NamedTuple):
    """The decompressed records of one batch, with its record count, base offset and last delta."""

    payload: Buffer
    record_count: int
    base_offset: int
    last_delta: int


class Filtered(NamedTuple):
    """The records of a batch that remain after filtering."""

    kept: int
    payload: Buffer
    newest_delta: int
    """Greatest timestamp delta of the remaining records."""
    tombstones: bool
    """Whether the remaining records include a tombstone."""
    keyless: int
    """Records removed because they have no key."""


class Records(Protocol):
    """A map of keys to their last offsets, with the operations of compaction on it.

    Methods raise CorruptBatch for malformed records.
    """

    def index(self, span: Span, start: int) -> tuple[bool, int]:
        """Add the keys of the records from offset `start` on to the map.

        Returns whether the map is full, and the last offset added (-1: none). As in Kafka, a full
        map accepts no record, even if its key is in the map.
        """

    def filter(self, span: Span, latest: int, keep_tombstones: bool) -> Filtered:
        """Return the records that remain: all above offset `latest`, below it the newest per
        key."""

    def rebase(self, payload: Buffer, count: int, shift: int) -> bytes:
        """Return the records with `shift` milliseconds added to their timestamp deltas."""


class PlainRecords:
    """`Records` in plain Python, with a dictionary."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = max(keys_max, 1)
        self._offsets: dict[bytes, int] = {}

    def index(self, span: Span, start: int) -> tuple[bool, int]:
        """Add the records' keys to the dictionary; return whether it is full and the last
        offset."""
        offsets, keys_max = self._offsets, self._keys_max
        noted = -1
        for parsed in _parse(span):
            offset = parsed.offset
            if offset < start:
                continue
            if parsed.key is not None:
                if len(offsets) >= keys_max:
                    return True, noted
                offsets[_name(parsed.key)] = offset
            noted = offset
        return False, noted

    def filter(self, span: Span, latest: int, keep_tombstones: bool) -> Filtered:
        """Return the records that remain after removing superseded ones and old tombstones."""
        find = self._offsets.get
        kept: list[Buffer] = []
        newest = keyless = 0
        tombstones = False
        data = memoryview(span.payload)
        for parsed in _parse(span):
            if parsed.offset <= latest:
                if parsed.key is None:
                    keyless += 1
                    continue
                if parsed.offset < find(_name(parsed.key), -1):
                    continue
                if parsed.tombstone and not keep_tombstones:
                    continue
            newest = parsed.time_delta if not kept else max(newest, parsed.time_delta)
            tombstones = tombstones or parsed.tombstone
            kept.append(data[parsed.begin : parsed.end])
        return Filtered(len(kept), b"".join(kept), newest, tombstones, keyless)

    def rebase(self, payload: Buffer, count: int, shift: int) -> bytes:
        """Return the records with `shift` milliseconds added to their timestamp deltas."""
        return rebase(payload, count, shift)


def _name(key: bytes) -> bytes:
    """Return a key below 32 bytes unchanged, a longer one as its BLAKE2b hash of 32 bytes."""
    return key if len(key) < _KEY_BYTES_MAX else blake2b(key, digest_size=_KEY_BYTES_MAX).digest()


class _Parsed(NamedTuple):
    begin: int
    end: int
    offset: int
    time_delta: int
    key: bytes | None
    tombstone: bool


def _parse(span: Span) -> list[_Parsed]:
    """Return position, offset, timestamp delta and key of each record, and if it is a tombstone.

    Record headers are skipped.
    """
    data = bytes(span.payload)
    if not 0 <= span.record_count * _RECORD_BYTES_MIN <= len(data):
        raise CorruptBatch(f"{span.record_count} records do not fit in {len(data)} bytes")
    end, at, previous = len(data), 0, -1
    found: list[_Parsed] = []
    for _ in range(span.record_count):
        begin = at
        size, at = _number(data, at, end)
        if size < 1 or size > end - at:
            raise CorruptBatch("a record's length runs past the batch")
        after = at + size
        time_delta, at = _number(data, at + 1, after, VARLONG_BYTES_MAX)
        delta, at = _number(data, at, after)
        if not previous < delta <= span.last_delta:
            raise CorruptBatch("a record's offset lies outside the batch or does not increase")
        previous = delta
        size, at = _number(data, at, after)
        if size > after - at:
            raise CorruptBatch("a key runs past its record")
        key = None if size < 0 else data[at : at + size]
        size, at = _number(data, at + max(size, 0), after)
        if size > after - at:
            raise CorruptBatch("a value runs past its record")
        found.append(_Parsed(begin, after, span.base_offset + delta, time_delta, key, size < 0))
        at = after
    if at != end:
        raise CorruptBatch("bytes left over after the last record")
    return found


def _number(data: bytes, at: int, end: int, bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    number, at = read_varint_within(data, at, end, bytes_max)
    if at < 0:
        raise CorruptBatch("a number in a record does not end")
    return number, at


def rebase(payload: Buffer, count: int, shift: int) -> bytes:
    """Return the records of a valid `payload` with `shift` added to their timestamp deltas.

    Deltas wrap at 64 bits, as in Java.
    """
    data = bytes(payload)
    out = bytearray()
    at = 0
    for _ in range(count):
        size, at = _number(data, at, len(data))
        after = at + size
        delta, rest = _number(data, at + 1, after, VARLONG_BYTES_MAX)
        moved = (delta + shift + (1 << 63)) % (1 << 64) - (1 << 63)
        number = write_varint(moved)
        out += write_varint(1 + len(number) + after - rest)
        out.append(data[at])
        out += number
        out += data[rest:after]
        at = after
    return bytes(out)
