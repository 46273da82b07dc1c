"""Append batches fetched from a leader: bytes unchanged, with the leader's offsets and epochs.

All whole batches of a response are validated before any is written: either all are appended or
none. Each segment that they reach into gets one write.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.log.log import Log
from headrace.log.segment.indexes import RELATIVE_OFFSET_MAX
from headrace.model.errors import HeadraceError
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.record.batch import (
    CONTROL,
    BatchHeader,
    ControlMarker,
    parse_control,
    parse_header,
    records,
    size_of,
)
from headrace.record.batch_layout import CRC_FROM, HEADER_BYTES, LENGTH_MIN, MAGIC
from headrace.record.compression import CorruptBatch
from headrace.record.crc32c import crc32c


class UnexpectedBatch(HeadraceError):
    """A fetched batch that does not follow the follower's log, by its offset or its leader epoch.

    If the log is empty and the batch contains the log's end but begins before it, the leader's log
    start is inside of the batch: reset the log to `base_offset`, then append again.
    """

    def __init__(self, message: str, base_offset: Offset) -> None:
        super().__init__(message)
        self.base_offset = base_offset


class _Batch(NamedTuple):
    begin: int
    """Byte position of the batch in the response; `end` is the position after it."""
    end: int
    header: BatchHeader
    marker: ControlMarker | None

    @property
    def last(self) -> int:
        return self.header.base_offset + self.header.last_offset_delta


def append_as_follower(log: Log, data: memoryview, now_ms: int) -> Offset:
    """Append the whole batches of a fetch response unchanged; return the log's new end offset.

    Offsets and epochs are the leader's; its compaction may have left gaps. Epochs, producer state,
    `.txnindex` and the snapshots at rolls become equal to the leader's. A batch cut off at the end
    of `data` is ignored. `data` is not retained. Nothing is flushed.

    CorruptBatch: `data` is damaged. UnexpectedBatch: `data` does not follow the log. In both cases
    nothing was appended. StorageError: the directory has failed, now or before.
    """
    log.check_appendable()
    batches = _checked(log, data)
    _allow_gaps(log, batches)
    done = 0
    while done < len(batches):
        group = _group(log, batches, done)
        _append_group(log, data, group, now_ms)
        done += len(group)
    return log.end_offset


def _checked(log: Log, data: memoryview) -> list[_Batch]:
    """Return the whole batches of `data`, each checked by CRC and against the log's end and
    epoch."""
    found: list[_Batch] = []
    expected, epoch = log.end_offset, log.epochs.latest
    at, end = 0, len(data)
    while end - at >= HEADER_BYTES:
        header = parse_header(data, at)
        after = at + size_of(header)
        if header.magic != MAGIC or header.batch_length < LENGTH_MIN:
            raise CorruptBatch(f"fetched data: no valid batch header at byte {at}")
        if after > end:
            break
        if crc32c(data[at + CRC_FROM : after]) != header.crc or header.last_offset_delta < 0:
            raise CorruptBatch(f"fetched data: damaged batch at byte {at}")
        if header.base_offset < expected:
            raise UnexpectedBatch(
                f"{log.topic_partition} ends at {expected}, the batch is at {header.base_offset}",
                Offset(header.base_offset),
            )
        if header.leader_epoch < epoch:
            raise UnexpectedBatch(
                f"{log.topic_partition} has leader epoch {epoch}, the batch at {header.base_offset}"
                f" has the older epoch {header.leader_epoch}",
                Offset(header.base_offset),
            )
        found.append(_Batch(at, after, header, _marker(header, data[at:after])))
        expected = Offset(header.base_offset + header.last_offset_delta + 1)
        epoch = LeaderEpoch(header.leader_epoch)
        at = after
    if data and not found:
        raise CorruptBatch(f"fetched data: {end} bytes hold no whole batch")
    return found


def _marker(header: BatchHeader, batch: memoryview) -> ControlMarker | None:
    """Return a control batch's marker; None if it is no marker or compaction emptied the batch."""
    if not header.attributes & CONTROL or header.producer_id < 0:
        return None
    record = next(iter(records(batch)), None)
    return None if record is None else parse_control(record)


def follow_start(log: Log, start: Offset) -> None:
    """Move a follower's log start up to its leader's, at most to the own high watermark.

    The leader's holds have decided about the records below; there may be none here. StorageError
    if the directory has failed.
    """
    start = min(start, log.high_watermark)
    if start > log.start_offset:
        log.check_appendable()
        log.begin_at(start)
        log.context.events.publish((log,))
        log.context.events.start_moved()


def _allow_gaps(log: Log, batches: Sequence[_Batch]) -> None:
    """Record the offset gaps before these batches, so that the next start accepts them as valid.

    Called before the batches are written.
    """
    expected: int = log.end_offset
    below = 0
    for batch in batches:
        if batch.header.base_offset > expected:
            below = batch.header.base_offset
        expected = batch.last + 1
    if below:
        log.context.events.gap_appended(log, Offset(below))


def _group(log: Log, batches: Sequence[_Batch], first: int) -> list[_Batch]:
    """Return the batches from index `first` on that fit into one segment; roll first if due."""
    config = log.config
    segment = log.segments.active
    segment.load_indexes()
    _ = segment.max_timestamp  # load it before the group is added to it
    head = batches[first]
    size, last, newest = head.end - head.begin, head.last, head.header.max_timestamp
    if segment.should_roll(size, last, newest, config.segment_bytes, config.segment_ms):
        # A gap wider than a segment's 32-bit relative offsets: the next segment begins at the batch
        # behind it.
        if last - log.end_offset > RELATIVE_OFFSET_MAX:
            log.end_offset = Offset(head.header.base_offset)
        segment = log.roll() if segment.size else log.new_segment(log.end_offset)
    room = min(segment.index.room, segment.time_index.room)
    group = [head]
    for batch in batches[first + 1 : first + room]:
        size = batch.end - head.begin
        newest = batch.header.max_timestamp
        if segment.should_roll(size, batch.last, newest, config.segment_bytes, config.segment_ms):
            break
        group.append(batch)
    return group


def _append_group(log: Log, data: memoryview, group: Sequence[_Batch], now_ms: int) -> None:
    """Append batches to the active segment by one write. Raises StorageError."""
    segment = log.segments.active
    begins = [
        log.epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        for _, _, header, _ in group
    ]
    if any(begins):
        log.save_epochs()
    for _, _, header, marker in group:
        base = Offset(header.base_offset)
        if marker is not None:
            log.index_abort(marker, header, base, segment)
            log.producers.update_marker(header, marker, base)
        elif header.producer_id >= 0 and not header.attributes & CONTROL:
            log.producers.update(header, base, now_ms)
    position, every = segment.size, log.config.index_interval_bytes
    try:
        segment.file.write_at(position, (data[group[0].begin : group[-1].end],))
        for batch in group:
            segment.note(batch.last, batch.header.max_timestamp, position, every)
            segment.bytes_since_index += batch.end - batch.begin
            position += batch.end - batch.begin
    except OSError as error:
        raise log.append_failed(segment, error) from error
    segment.size = position
    log.ends_at(group[-1].last + 1)
