"""Reading a log: its batches, by offset or by time, and its aborted transactions.

Functions over a log's parts, which `Log` has as methods.

Only `read_from_disk`, `serve_from_disk`, `offset_for_time`, `max_timestamp_offset` and
`aborted_transactions` may be called off the deciding thread (`Disk.run`): they change nothing but
what they load.
"""

from typing import Any, Protocol

from headrace.log import lookup
from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.reported_damage import ReportedDamage
from headrace.log.segment.batch_reader import NeedsDisk, ReadResult, read_batches
from headrace.log.segment.scan import BadBatch, Fetch, NotCached
from headrace.log.segment.segments import Segments
from headrace.log.segment.served_ranges import (
    RANGE_BYTES_MIN,
    BatchRange,
    Cut,
    Served,
    stretch_from,
)
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import LeaderEpoch, Offset


class ReadLog(Cut, Protocol):
    """What of a log reading takes."""

    context: LogDirContext[Any]
    start_offset: Offset
    end_offset: Offset
    segments: Segments
    damage: ReportedDamage


# --- read --------------------------------------------------------------------------------


def read(
    log: ReadLog, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
) -> ReadResult | NeedsDisk:
    """Read whole batches from the one that holds `offset` on, all of them below `below`.

    At most `max_bytes` of them, yet the first one whatever its size if `at_least_one`. Empty
    where there is nothing below `below` yet. From the page cache only.

    ApiError: OFFSET_OUT_OF_RANGE outside start..end, KAFKA_STORAGE_ERROR for bytes that are not
    what was written (said once in the log, with file and position).
    """
    if offset < log.start_offset or offset > log.end_offset:
        raise _out_of_range(log, offset)
    if offset >= below:
        return ReadResult(b"", offset)
    try:
        return _read(log, offset, max_bytes, below, at_least_one, True)
    except NotCached:
        return _needs_disk(log, offset, max_bytes)


def read_from_disk(
    log: ReadLog, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
) -> ReadResult:
    """Read as `read` does, waiting for the disk. For `Disk.run`."""
    if offset < log.start_offset or offset > log.end_offset:
        raise _out_of_range(log, offset)
    if offset >= below:
        return ReadResult(b"", offset)
    try:
        return _read(log, offset, max_bytes, below, at_least_one, False)
    except FileNotFoundError:
        # A segment was renamed away between its name being asked and its file being opened.
        return _read(log, offset, max_bytes, below, at_least_one, False)


def serve(
    log: ReadLog, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
) -> Served | NeedsDisk:
    """Read as `read` does, for a client's answer: much data comes as a range of the file."""
    try:
        found = _range(log, offset, max_bytes, below, at_least_one, False)
    except NotCached:
        return _needs_disk(log, offset, max_bytes)
    if found is not None:
        return found
    result = read(log, offset, max_bytes, below=below, at_least_one=at_least_one)
    return result if isinstance(result, NeedsDisk) else Served(*result)


def serve_from_disk(
    log: ReadLog, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
) -> Served:
    """Serve as `serve` does, waiting for the disk: for `Disk.run`; the range is the caller's."""
    found = _range(log, offset, max_bytes, below, at_least_one, True)
    if found is not None:
        return found
    return Served(*read_from_disk(log, offset, max_bytes, below=below, at_least_one=at_least_one))


def _needs_disk(log: ReadLog, offset: Offset, max_bytes: int) -> NeedsDisk:
    """Return the outcome that asks for the disk; bytes read in now were seen by nobody yet."""
    segment = log.segments[log.segments.number_of(offset)]
    start = segment.index.lookup(offset) if segment.index.loaded else 0
    segment.sound.evicted(start, max_bytes)
    return NeedsDisk(offset)


def _range(
    log: ReadLog, offset: Offset, max_bytes: int, below: Offset, at_least_one: bool, wait: bool
) -> Served | None:
    """Return the range that answers; None where that is for `read`: little data, none, damage."""
    if max_bytes < RANGE_BYTES_MIN or not log.start_offset <= offset < below:
        return None
    segments = log.segments
    try:
        place = segments.ends.get(offset) or segments.find(offset, not wait)
    except (CorruptLogError, FileNotFoundError):
        return None
    if place is None:
        return None
    segment, position = place
    if segment.suspect or segment.size - position < RANGE_BYTES_MIN:
        return None
    limit = segments.limit_of(segment, log.end_offset)
    if wait and segment is segments.active:
        limit = Offset(below + 1)  # it may be growing now: to be ended by its index
    file = segment.file
    fetch: Fetch = file.read if wait else file.read_cached
    stretch = stretch_from(segment, position, max_bytes, below, limit, at_least_one, fetch)
    if stretch is None or stretch.end - position < RANGE_BYTES_MIN:
        return None
    if not wait:
        segments.remember_end(stretch.next_offset, segment, stretch.end)
    found = BatchRange(log, log.damage, log.context.disk, segment, stretch, offset)
    return Served(found, stretch.next_offset)


def _out_of_range(log: ReadLog, offset: Offset) -> ApiError:
    return ApiError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{log.topic_partition} holds {log.start_offset} to {log.end_offset}, not {offset}",
    )


def _read(
    log: ReadLog, offset: Offset, max_bytes: int, below: Offset, at_least_one: bool, cached: bool
) -> ReadResult:
    segments = log.segments
    try:
        place = segments.ends.get(offset) or segments.find(offset, cached)
        if place is None:
            return ReadResult(b"", offset)
        segment, position = place
        file = segment.file
        fetch: Fetch = file.read_cached if cached else file.read
        data, following = read_batches(
            segment,
            position,
            offset,
            max_bytes,
            below,
            segments.limit_of(segment, log.end_offset),
            at_least_one,
            fetch,
        )
    except BadBatch as error:
        raise log.damage.unreadable(error) from error
    if data and cached:  # a worker thread leaves no notes: the log may have rolled meanwhile
        segments.remember_end(following, segment, position + len(data))
    return ReadResult(data, following)


# --- search ------------------------------------------------------------------------------


def offset_for_time(log: ReadLog, timestamp: int) -> tuple[int, Offset, LeaderEpoch] | None:
    """Return (timestamp, offset, epoch) of the first record not older than `timestamp`; blocking.

    Record by record inside the batch that holds it, which is decompressed for it.
    """
    try:
        return lookup.offset_for_time(log.segments, log.start_offset, timestamp)
    except BadBatch as error:
        raise log.damage.unreadable(error) from error


def max_timestamp_offset(log: ReadLog) -> tuple[int, Offset, LeaderEpoch] | None:
    """Return (timestamp, offset, epoch) of the newest record (KIP-734), or None; blocking."""
    try:
        return lookup.max_timestamp_offset(log.segments, log.start_offset)
    except BadBatch as error:
        raise log.damage.unreadable(error) from error


def aborted_transactions(log: ReadLog, start: Offset, end: Offset) -> list[AbortedTransaction]:
    """Return aborted transactions with records in [start, end), for readers of committed data."""
    return lookup.aborted_transactions(log.segments, start, end)
