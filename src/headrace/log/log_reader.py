"""Reading a log: batches by offset, offsets by timestamp, and aborted transactions.

`Log` has these functions as methods. `read_from_disk`, `serve_from_disk`, `offset_for_time`,
`max_timestamp_offset` and `aborted_transactions` may block and may be called on any thread
(`Disk.run`); all others run on the deciding thread and read the page cache only.
"""

from typing import Any, Protocol

from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.reported_damage import ReportedDamage
from headrace.log.segment.batch_reader import NeedsDisk, ReadResult, read_batches
from headrace.log.segment.scan import BadBatch, Fetch, NotCached
from headrace.log.segment.segments import Segments
from headrace.log.segment.served_ranges import (
    RANGE_BYTES_MIN,
    BatchRange,
    Served,
    TruncationCount,
    stretch_from,
)
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import LeaderEpoch, Offset


class ReadLog(TruncationCount, Protocol):
    """The part of `Log` that the read functions use."""

    context: LogDirContext[Any]
    start_offset: Offset
    end_offset: Offset
    segments: Segments
    damage: ReportedDamage


# --- read --------------------------------------------------------------------------------


def read(
    log: ReadLog, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
) -> ReadResult | NeedsDisk:
    """Return whole batches from the one that contains `offset` on, all below offset `below`.

    At most `max_bytes`, except that the first batch has any size if `at_least_one`. Empty if no
    batch below `below` follows. Reads the page cache only: NeedsDisk if the bytes are not in it.

    ApiError: OFFSET_OUT_OF_RANGE outside of the log; KAFKA_STORAGE_ERROR for damaged bytes, which
    are logged once with file and position.
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
    """Read batches as `read` does, but block for the disk. Call through `Disk.run`."""
    if offset < log.start_offset or offset > log.end_offset:
        raise _out_of_range(log, offset)
    if offset >= below:
        return ReadResult(b"", offset)
    try:
        return _read(log, offset, max_bytes, below, at_least_one, False)
    except FileNotFoundError:
        # The segment was renamed between the lookup of its name and the opening of its file.
        return _read(log, offset, max_bytes, below, at_least_one, False)


def serve(
    log: ReadLog, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
) -> Served | NeedsDisk:
    """Return batches for a client as `read` does; large data as a range of the segment's file."""
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
    """Return batches as `serve` does, but block for the disk (`Disk.run`); close the range
    after."""
    found = _range(log, offset, max_bytes, below, at_least_one, True)
    if found is not None:
        return found
    return Served(*read_from_disk(log, offset, max_bytes, below=below, at_least_one=at_least_one))


def _needs_disk(log: ReadLog, offset: Offset, max_bytes: int) -> NeedsDisk:
    """Return NeedsDisk, and mark the bytes as unverified: they left the page cache."""
    segment = log.segments[log.segments.number_of(offset)]
    start = segment.index.lookup(offset) if segment.index.loaded else 0
    segment.sound.evicted(start, max_bytes)
    return NeedsDisk(offset)


def _range(
    log: ReadLog, offset: Offset, max_bytes: int, below: Offset, at_least_one: bool, wait: bool
) -> Served | None:
    """Return the file range that answers a fetch; None if `read` must answer.

    That is for little data, no data, or damage.
    """
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
        # The active segment may be growing on the other thread; its index limits the range instead.
        limit = Offset(below + 1)
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
        f"{log.topic_partition} has offsets {log.start_offset} to {log.end_offset}, not {offset}",
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
    if data and cached:  # not on a worker thread: the log may have rolled since
        segments.remember_end(following, segment, position + len(data))
    return ReadResult(data, following)


# --- search ------------------------------------------------------------------------------
# `lookup` is imported with the first search: most consumers ask for the log's ends.


def offset_for_time(log: ReadLog, timestamp: int) -> tuple[int, Offset, LeaderEpoch] | None:
    """Return (timestamp, offset, epoch) of the first record at or after `timestamp`, or None.

    Blocking. The batch that holds the record is decompressed.
    """
    from headrace.log import lookup

    try:
        return lookup.offset_for_time(log.segments, log.start_offset, timestamp)
    except BadBatch as error:
        raise log.damage.unreadable(error) from error


def max_timestamp_offset(log: ReadLog) -> tuple[int, Offset, LeaderEpoch] | None:
    """Return (timestamp, offset, epoch) of the record with the greatest timestamp, or None.

    KIP-734. Blocking.
    """
    from headrace.log import lookup

    try:
        return lookup.max_timestamp_offset(log.segments, log.start_offset)
    except BadBatch as error:
        raise log.damage.unreadable(error) from error


def aborted_transactions(log: ReadLog, start: Offset, end: Offset) -> list[AbortedTransaction]:
    """Return aborted transactions with records in [start, end), for read_committed consumers."""
    from headrace.log import lookup

    return lookup.aborted_transactions(log.segments, start, end)
