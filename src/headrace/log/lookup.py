"""Searching a log: by time, for the newest record, for aborted transactions.

Blocking: indexes are loaded, a batch may be decompressed. For `Disk.run` where a client asks.
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
"""(timestamp, offset, leader epoch)."""


def offset_for_time(segments: Sequence[Segment], start: Offset, timestamp: int) -> Found | None:
    """Return the first record, in offset order, not older than `timestamp`; None: there is none.

    Kafka's way (LogSegment.findOffsetByTimestamp): the greatest `.timeindex` entry not newer, then
    a scan from there. Control records count, as they do in Kafka. BadBatch.
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
    """Return an offset from which on the first record not older than `timestamp` is to be found.

    The batch that an entry names has the entry's time as its greatest, else the index is another
    segment's.
    """
    entry, near = segment.time_index.lookup(timestamp)
    if entry >= 0:
        found = segment.find(near, segment.file.read)
        if found is None or found[1].max_timestamp != entry:
            problem = CorruptLogError(f"{segment.time_index.path}: {entry} is not at offset {near}")
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
    """Return the batch's first record from `start` on not older than `timestamp`. BadBatch."""
    end = position + size_of(header)
    for batch in batches(fetch, position, end, path):
        for record in records(batch.view):
            if record.timestamp >= timestamp and record.offset >= start:
                epoch = LeaderEpoch(header.leader_epoch)
                return record.timestamp, Offset(record.offset), epoch
    return None


def max_timestamp_offset(segments: Sequence[Segment], start: Offset) -> Found | None:
    """Return the newest record, the first of several equally new (KIP-734). BadBatch."""
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
    # The log begins inside: what is known of the whole segment may lie before.
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
    """Return the aborted transactions that overlap [start, end), in the order of their markers.

    An entry whose last stable offset has reached `end` ends the search: whatever is decided later
    lies wholly behind (Kafka's TransactionIndex.collectAbortedTxns).
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
