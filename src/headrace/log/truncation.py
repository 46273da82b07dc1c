"""A follower's truncation: the tail that its leader does not have goes."""

import logging

from headrace.log import file_names
from headrace.log.log import Log
from headrace.log.recovery import gaps, interrupted_operations, replay
from headrace.log.recovery.known import Known
from headrace.log.segment.scan import headers
from headrace.model.nouns import Offset

_logger = logging.getLogger(__name__)


def truncate_to(log: Log, offset: Offset) -> None:
    """Cut from the batch that holds `offset` on, durably. Blocking; StorageError."""
    if log.context.failure is not None:
        raise log.context.failure  # nothing can be lowered first that speaks of what would go
    if offset >= log.end_offset:
        return
    _logger.info("%s: truncated from %d to %d", log.topic_partition, log.end_offset, offset)
    log.context.events.about_to_cut(log, offset)
    log.truncations += 1
    try:
        if offset < log.flushed_offset:
            # A recovery point above the log's end would be taken for damage after a crash. In a
            # gap that compaction left, the last batch ends before `offset`.
            log.flushed_offset, end = _ends(log, offset)
            # The batch that held the log's start may be the one that goes (Kafka's truncateTo).
            log.start_offset = Offset(min(log.start_offset, log.flushed_offset))
            if log.flushed_offset < end:
                log.context.events.allow_gap(log.topic_partition, offset)
            log.high_watermark = Offset(min(log.high_watermark, log.flushed_offset))
            log.context.events.lower(log)
        end = _cut(log, offset)
        log.end_offset = end
        log.high_watermark = Offset(min(log.high_watermark, end))
        if log.epochs.truncate_from_end(end):
            log.save_epochs()
        replay.load_producers(log, end, Known(clean=True, producer_expiration_ms=1 << 62))
        if gaps.end_of(log.segments[-1]) < end:
            _begin_anew(log)
    except OSError as error:
        raise log.context.fail(error, log.directory, flush=True) from error


def _begin_anew(log: Log) -> None:
    """Have a segment begin at the log's end, where the last batch ends before it.

    So that a restart ends there too, which Kafka's does not: no offset is given twice.
    """
    if log.segments[-1].size:
        log.roll()
    else:
        log.new_segment(log.end_offset)


def _ends(log: Log, offset: Offset) -> tuple[Offset, Offset]:
    """Where the last batch ends that does not reach `offset`, and where the log will then end.

    They differ only by a gap: a batch that holds `offset` begins where the log will end.
    """
    for segment in reversed(log.segments):
        if segment.base_offset < offset and segment.size:
            end = segment.base_offset
            where = segment.path(file_names.LOG)
            start = segment.start_of(offset, segment.file.read)
            start = segment.index.position_before(max(start - 1, 0))
            for _, header in headers(segment.file.read, start, segment.size, where):
                last = header.base_offset + header.last_offset_delta
                if last >= offset:
                    return end, Offset(min(header.base_offset, offset))
                end = Offset(last + 1)
            return end, offset
    return Offset(min(offset, log.segments[0].base_offset)), offset


def _cut(log: Log, offset: Offset) -> Offset:
    segments = list(log.segments)
    gone = []
    while len(segments) > 1 and segments[-1].base_offset >= offset:
        gone.append(segments.pop())
    active = segments[-1]
    # Those before it keep waiting for their flush.
    log.unflushed.forget([active, *gone])
    for segment in gone:
        interrupted_operations.remove_segment(log.context.disk, segment)
    if gone:
        # Else a power cut may bring them back behind what is cut now: a gap, and perhaps believed.
        log.context.disk.sync_directory(log.directory)
    end = Offset(max(offset, active.base_offset))
    found = active.find(end, active.file.read) if active.size else None
    if found is not None:
        position, header = found
        # Behind a gap the batch begins later: the log ends where it was asked to.
        end = Offset(max(min(header.base_offset, end), active.base_offset))
        active.file.truncate(position)
        active.size = position
    active.file.sync()
    active.rebuild_indexes()
    active.txn_index.reset(keep_below=end)
    log.segments.replace(segments)
    log.context.disk.sync_directory(log.directory)
    for at in replay.snapshot_offsets(log):
        if at > end:
            log.context.disk.remove(
                f"{log.directory}/{file_names.segment_file(at, file_names.SNAPSHOT)}"
            )
    return end
