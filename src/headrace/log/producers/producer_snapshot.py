"""The `.snapshot` file: state of a partition's producers at the offset in the file's name.

    i16 version 1 | u32 CRC32C of the rest | i32 count | entries of 46 bytes      big-endian
    entry: i64 producer id | i16 epoch | i32 last sequence | i64 last offset | i32 offset delta
           i64 timestamp | i32 coordinator epoch | i64 first offset of the open transaction

Kafka's ProducerSnapshot.json defines the format.
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
    """The state of one producer in a `.snapshot` file, fields in file order."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """Sequence number of the last record; -1 if no batch of this epoch is known."""
    last_offset: int
    offset_delta: int
    """Last offset minus base offset of the last batch."""
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int
    """First offset of the open transaction; -1 if none is open."""


def write_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    """Encode a `.snapshot` file."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def read_snapshot(content: bytes, path: str) -> list[SnapshotEntry]:
    """Decode a `.snapshot` file; CorruptLogError if it is invalid or torn."""
    if len(content) < _ENTRIES_AT:
        raise CorruptLogError(f"{path}: {len(content)} bytes, too short for a producer snapshot")
    version, crc = _PREFIX.unpack_from(content)
    if version != VERSION:
        raise CorruptLogError(f"{path}: producer snapshot has unknown version {version}")
    if crc32c(content[_COUNT_AT:]) != crc:
        raise CorruptLogError(f"{path}: checksum of the producer snapshot does not match")
    (count,) = _COUNT.unpack_from(content, _COUNT_AT)
    if len(content) != _ENTRIES_AT + count * _ENTRY.size:
        raise CorruptLogError(f"{path}: {count} producers do not fit the file's size")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(content[_ENTRIES_AT:])]
