"""A follower's truncation: the tail that its leader does not have goes."""

import logging
from typing import TYPE_CHECKING

from headrace.log import leftovers, names, replay
from headrace.log.shared import Known
from headrace.model.nouns import Offset

if TYPE_CHECKING:
    from headrace.log.log import Log

_logger = logging.getLogger(__name__)


def truncate_to(log: "Log", offset: Offset) -> None:
    """Cut from the batch that holds `offset` on, durably. Blocking; StorageError."""
    if offset >= log.end_offset:
        return
    _logger.info("%s: truncated from %d to %d", log.topic_partition, log.end_offset, offset)
    if log.shared.before_cut is not None:
        log.shared.before_cut(log, offset)
    log.truncations += 1
    try:
        if offset < log.flushed_offset:
            # A recovery point above the log's end would be taken for damage after a crash.
            log.flushed_offset = log.floor_of(offset)
            log.high_watermark = Offset(min(log.high_watermark, log.flushed_offset))
            if log.shared.checkpoint_now is not None:
                log.shared.checkpoint_now()
            if log.shared.lower is not None:
                log.shared.lower(log)
        end = _cut(log, offset)
        log.end_offset = end
        log.high_watermark = Offset(min(log.high_watermark, end))
        if log.epochs.truncate_from_end(end):
            log.save_epochs()
        replay.load_producers(log, end, Known(clean=True, producer_expiration_ms=1 << 62))
    except OSError as error:
        raise log.shared.fail(error, log.directory) from error


def _cut(log: "Log", offset: Offset) -> Offset:
    segments = list(log.segments)
    gone = []
    while len(segments) > 1 and segments[-1].base_offset >= offset:
        gone.append(segments.pop())
    active = segments[-1]
    # Those before it keep waiting for their flush.
    log.unflushed.forget([active, *gone])
    for segment in gone:
        leftovers.remove_segment(log.shared.disk, segment)
    end = Offset(max(offset, active.base_offset))
    found = active.find(end, active.file.read) if active.size else None
    if found is not None:
        position, header = found
        end = Offset(max(header.base_offset, active.base_offset))
        active.file.truncate(position)
        active.size = position
    active.file.sync()
    active.rebuild_indexes()
    active.txn_index.reset(keep_below=end)
    log.set_segments(segments)
    log.shared.disk.sync_directory(log.directory)
    for at in replay.snapshot_offsets(log):
        if at > end:
            log.shared.disk.remove(f"{log.directory}/{names.segment_file(at, names.SNAPSHOT)}")
    return end
