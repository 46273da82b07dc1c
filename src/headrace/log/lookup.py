"""Searches in a log: first record at a time, newest record, aborted transactions.

Blocking: indexes are loaded and batches may be decompressed. Clients' requests call these through
`Disk.run`.
"""

from bisect import bisect_right
from collections.abc import Sequence

from headrace.log import file_names
from headrace.log.segment.indexes import NO_TIMESTAMP
from headrace.log.segment.scan import Fetch, batches, headers
from headrace.log.segment.segment import Segment
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.record.batch import BatchHeader, records, size_of

Found = tuple[int, Offset, LeaderEpoch]
"""A search result: (timestamp in ms, offset, leader epoch)."""


def offset_for_time(segments: Sequence[Segment], start: Offset, timestamp: int) -> Found | None:
    """Return the first record, by offset, whose timestamp is at least `timestamp`, or None.

    As Kafka's LogSegment.findOffsetByTimestamp: take the greatest `.timeindex` entry not newer,
    then scan from there. Control records count, as in Kafka. Raises BadBatch.
    """
    for segment in list(segments):
        if not segment.size or segment.max_timestamp[0] < timestamp:
            continue
        found = _first_from(segment, timestamp, start)
        if found is not None:
            return found
    return None


def _first_from(segment: Segment, timestamp: int, start: Offset) -> Found | None:
    segment.load_indexes()
    near = _near(segment, timestamp)
    position = segment.start_of(Offset(max(near, start)), segment.file.read)
    where = segment.path(file_names.LOG)
    for at, header in headers(segment.file.read, position, segment.size, where):
        if header.max_timestamp < timestamp:
            continue
        if header.base_offset + header.last_offset_delta < start:
            continue
        found = _first_in(segment, at, header, timestamp, start)
        if found is not None:
            return found
    return None


def _near(segment: Segment, timestamp: int) -> Offset:
    """Return the offset at which to begin the scan for the first record at or after `timestamp`.

    The batch that a time index entry names must have the entry's timestamp as its greatest;
    otherwise the index belongs to another segment and is rebuilt.
    """
    entry, near = segment.time_index.lookup(timestamp)
    if entry >= 0:
        found = segment.find(near, segment.file.read)
        if found is None or found[1].max_timestamp != entry:
            path = segment.time_index.path
            problem = CorruptLogError(f"{path}: no batch with timestamp {entry} at offset {near}")
            if segment.doubt_indexes(problem):
                _, near = segment.time_index.lookup(timestamp)
    return near


def _first_in(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start: Offset
) -> Found | None:
    return first_in(
        segment.file.read, segment.path(file_names.LOG), position, header, timestamp, start
    )


def first_in(
    fetch: Fetch, path: str, position: int, header: BatchHeader, timestamp: int, start: int
) -> Found | None:
    """Return a batch's first record at or after `timestamp` with offset >= `start`.

    Raises BadBatch.
    """
    end = position + size_of(header)
    for batch in batches(fetch, position, end, path):
        for record in records(batch.view):
            if record.timestamp >= timestamp and record.offset >= start:
                epoch = LeaderEpoch(header.leader_epoch)
                return record.timestamp, Offset(record.offset), epoch
    return None


def max_timestamp_offset(segments: Sequence[Segment], start: Offset) -> Found | None:
    """Return the record with the greatest timestamp, the first of several (KIP-734).

    Raises BadBatch.
    """
    best: Found | None = None
    for segment in list(segments):
        if not segment.size or segment.max_timestamp[0] <= (best[0] if best else NO_TIMESTAMP):
            continue
        found = _newest_in(segment, start)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
    return best


def _newest_in(segment: Segment, start: Offset) -> Found | None:
    timestamp, near = segment.max_timestamp
    if segment.base_offset >= start:
        place = segment.find(near, segment.file.read)
        return None if place is None else _first_in(segment, *place, timestamp, start)
    # The log starts inside of this segment: its greatest timestamp may be of a deleted record.
    best: Found | None = None
    where = segment.path(file_names.LOG)
    position = segment.index.lookup(start)
    for at, header in headers(segment.file.read, position, segment.size, where):
        if header.base_offset + header.last_offset_delta < start:
            continue
        while header.max_timestamp > (best[0] if best else NO_TIMESTAMP):
            least = best[0] + 1 if best else 0
            better = _first_in(segment, at, header, least, start)
            if better is None:
                break
            best = better
    return best


def aborted_transactions(
    segments: Sequence[Segment], start: Offset, end: Offset
) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap [start, end), ordered by their markers.

    The search ends at an entry whose last stable offset is at least `end`: transactions aborted
    later lie wholly behind it (Kafka's TransactionIndex.collectAbortedTxns).
    """
    found: list[AbortedTransaction] = []
    at = max(bisect_right([segment.base_offset for segment in segments], start) - 1, 0)
    for segment in segments[at:]:
        for entry in segment.txn_index.entries:
            if entry.last_offset >= start and entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return found
    return found
