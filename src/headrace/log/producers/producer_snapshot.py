"""`.snapshot`: what a partition knows of its producers at the offset the file is named after.

i16 version 1, u32 CRC32C of all that follows, i32 count, then 46 bytes each
(ProducerSnapshot.json).
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from headrace.model.errors import CorruptLogError
from headrace.record.crc32c import crc32c

VERSION = 1
_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_COUNT_AT = _PREFIX.size
_ENTRIES_AT = _COUNT_AT + _COUNT.size


class SnapshotEntry(NamedTuple):
    """One producer, in the order of the bytes."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1 where no batch of this epoch is known."""
    last_offset: int
    offset_delta: int
    """Offsets between the first and the last record of the last batch."""
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int
    """-1 where no transaction is open."""


def write_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    """Return the bytes of a `.snapshot`."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def read_snapshot(content: bytes, path: str) -> list[SnapshotEntry]:
    """Read a `.snapshot`; CorruptLogError where it is none, torn ones included."""
    if len(content) < _ENTRIES_AT:
        raise CorruptLogError(f"{path}: {len(content)} bytes are no producer snapshot")
    version, crc = _PREFIX.unpack_from(content)
    if version != VERSION:
        raise CorruptLogError(f"{path}: producer snapshot of version {version}")
    if crc32c(content[_COUNT_AT:]) != crc:
        raise CorruptLogError(f"{path}: checksum of the producer snapshot does not match")
    (count,) = _COUNT.unpack_from(content, _COUNT_AT)
    if len(content) != _ENTRIES_AT + count * _ENTRY.size:
        raise CorruptLogError(f"{path}: {count} producers announced, the size says otherwise")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(content[_ENTRIES_AT:])]
