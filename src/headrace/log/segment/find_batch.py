"""Find the batch of an offset or a timestamp in a segment: an index lookup, then a short scan.

Indexes have no checksum. An index entry is accepted if the batch it points to agrees with it;
otherwise the segment rebuilds its indexes, at most once (`Segment.doubt_indexes`).
"""

from typing import Protocol

from headrace.log import file_names
from headrace.log.segment.indexes import NO_TIMESTAMP, OffsetIndex, TimeIndex, offset_limit
from headrace.log.segment.scan import BadBatch, Fetch, contradicted, headers
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, Position
from headrace.ports.disk import DiskFile
from headrace.record.batch import BatchHeader
from headrace.record.batch_layout import OVERHEAD_BYTES

Found = tuple[Position, BatchHeader]


class Searched(Protocol):
    """The part of `Segment` that the search functions use."""

    base_offset: Offset
    size: int

    @property
    def file(self) -> DiskFile: ...
    @property
    def index(self) -> OffsetIndex: ...
    @property
    def time_index(self) -> TimeIndex: ...

    def path(self, suffix: str) -> str:
        """Return the path of the segment's file with that suffix."""

    def doubt_indexes(self, problem: CorruptLogError) -> bool:
        """Rebuild the indexes because an entry contradicted a batch; return whether they were."""


def check_indexes(segment: Searched) -> None:
    """Raise CorruptLogError if the loaded indexes cannot belong to this segment."""
    offset, position = segment.index.last
    if position >= segment.size and len(segment.index):
        raise CorruptLogError(f"{segment.index.path}: the last entry is behind the segment's end")
    if segment.time_index.last[0] == NO_TIMESTAMP and segment.size:
        # A sealed segment's time index has the last timestamp, unless no record has a timestamp.
        raise CorruptLogError(
            f"{segment.time_index.path}: empty, the segment has {segment.size} bytes"
        )
    if len(segment.index) and offset < segment.base_offset:
        raise CorruptLogError(f"{segment.index.path}: offsets below the segment's base offset")


def newest(segment: Searched, timestamp: int, offset: Offset) -> tuple[int, Offset]:
    """Return (timestamp, offset) of the greatest timestamp at or behind `offset`.

    At least the given `timestamp`. Blocking. Raises BadBatch.
    """
    start = start_of(segment, offset, segment.file.read)
    where, limit = segment.path(file_names.LOG), offset_limit(segment.base_offset)
    for _, header in headers(segment.file.read, start, segment.size, where, limit=limit):
        if header.max_timestamp > timestamp:
            timestamp = header.max_timestamp
            offset = Offset(header.base_offset + header.last_offset_delta)
    return timestamp, offset


def find(segment: Searched, target: Offset, fetch: Fetch) -> Found | None:
    """Find the batch of an offset as `Segment.find` does; the indexes are loaded."""
    try:
        return _walk_to(segment, target, fetch)
    except BadBatch as bad:
        if not segment.doubt_indexes(bad):
            raise
    return _walk_to(segment, target, fetch)


def start_of(segment: Searched, target: Offset, fetch: Fetch) -> Position:
    """Find the start of a scan as `Segment.start_of` does; the indexes are loaded."""
    indexed, start = segment.index.entry_before(target)
    if start == 0 or _begins_a_batch(segment, indexed, start, fetch):
        return start
    problem = CorruptLogError(f"{segment.index.path}: no batch of offset {indexed} at byte {start}")
    return segment.index.lookup(target) if segment.doubt_indexes(problem) else start


def _walk_to(segment: Searched, target: Offset, fetch: Fetch) -> Found | None:
    indexed, start = segment.index.entry_before(target)
    found = _walk_from(segment, start, indexed, target, fetch)
    if found is not None and found[1].base_offset > target:
        # Either the log has a gap, or the entry points to a batch of another offset. The entry
        # before it tells which.
        start = segment.index.entry_before(Offset(indexed - 1))[1] if start else start
        found = _walk_from(segment, start, None, target, fetch)
    return found


def _walk_from(
    segment: Searched, start: Position, indexed: Offset | None, target: Offset, fetch: Fetch
) -> Found | None:
    where = segment.path(file_names.LOG)
    least = 0 if start else segment.base_offset
    for position, header in headers(fetch, start, segment.size, where, least):
        last = header.base_offset + header.last_offset_delta
        if position == start:
            if start and indexed is not None and last > indexed:
                # A read from here would skip the batches between.
                reason = f"entry for offset {indexed} at {start}, where offset {last} ends"
                raise BadBatch(segment.index.path, start, reason)
            if start == 0 and header.base_offset > segment.base_offset:
                behind = header.batch_length + OVERHEAD_BYTES
                if contradicted(last, fetch, behind, segment.size):
                    raise BadBatch(where, 0, f"offset {last}, the next batch begins before it")
        if last >= target:
            return Position(position), header
    return None


def _begins_a_batch(segment: Searched, indexed: Offset, start: Position, fetch: Fetch) -> bool:
    try:
        found = next(headers(fetch, start, segment.size, segment.path(file_names.LOG)), None)
    except BadBatch:
        return False
    if found is None:  # the file ends before `start`
        return False
    _, header = found
    return segment.base_offset <= header.base_offset <= indexed
