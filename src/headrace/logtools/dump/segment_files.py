"""Rows of the binary files next to a segment: indexes and producer snapshots."""

from collections.abc import Iterator
from struct import Struct

from headrace.log import file_names
from headrace.log.producers.producer_snapshot import read_snapshot
from headrace.log.segment import transaction_index
from headrace.log.segment.indexes import OFFSET_ENTRY, TIME_ENTRY
from headrace.logtools.dump.row import ReadAt, Row
from headrace.model.errors import CorruptLogError

_CHUNK_ENTRIES = 4096


def base_of(path: str) -> int:
    """Return the base offset in a file's name."""
    parsed = file_names.parse_segment_file(path.rpartition("/")[2])
    return parsed[0] if parsed else 0


def _entries(
    path: str, size: int, read_at: ReadAt, entry: Struct
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (byte position, entry) of an index file, up to the zeros of its preallocated rest."""
    step = entry.size * _CHUNK_ENTRIES
    empty = bytes(entry.size)
    for start in range(0, size, step):
        chunk = read_at(start, min(step, size - start))
        for at in range(0, len(chunk) - entry.size + 1, entry.size):
            if start + at > 0 and chunk[at : at + entry.size] == empty:
                return
            yield start + at, entry.unpack_from(chunk, at)
    if size % entry.size:
        raise CorruptLogError(f"{path}: {size % entry.size} bytes after the last whole entry")


def dump_index(path: str, size: int, read_at: ReadAt) -> Iterator[Row]:
    """Yield the rows of an `.index`: a batch's last offset and the batch's position."""
    base, last = base_of(path), -1
    for at, (relative, position) in _entries(path, size, read_at, OFFSET_ENTRY):
        if at == 0 and relative == 0 and position == 0:
            return
        if relative <= last:
            raise CorruptLogError(f"{path} at byte {at}: offsets do not grow")
        last = relative
        yield {"offset": base + relative, "position": position}


def dump_time_index(path: str, size: int, read_at: ReadAt) -> Iterator[Row]:
    """Yield the rows of a `.timeindex`: the greatest timestamp up to an offset."""
    base, last = base_of(path), -1
    for at, (timestamp, relative) in _entries(path, size, read_at, TIME_ENTRY):
        if at == 0 and timestamp == 0 and relative == 0:
            return
        if timestamp <= last:
            raise CorruptLogError(f"{path} at byte {at}: timestamps do not grow")
        last = timestamp
        yield {"timestamp": timestamp, "offset": base + relative}


def dump_txn_index(path: str, size: int, read_at: ReadAt) -> Iterator[Row]:
    """Yield the rows of a `.txnindex`: aborted transactions."""
    for entry in transaction_index.read_entries(read_at(0, size), path):
        yield {"version": 0, **entry._asdict()}


def dump_snapshot(path: str, size: int, read_at: ReadAt) -> Iterator[Row]:
    """Yield the rows of a `.snapshot`: producers."""
    for entry in read_snapshot(read_at(0, size), path):
        yield dict(entry._asdict())
