"""Truncation: remove the tail of a log that its leader does not have, in four steps.

    plan       any thread         find the batch boundary at which to cut
    take       deciding thread    make the log in memory end there
    cut_files  any thread         shorten the files, durably
    settle     deciding thread    accept appends again (`abandon` if the disk failed)

Between `take` and `cut_files` the caller makes durable that checkpoints and read bounds do not
exceed what stays; a start would report the rest as lost. See `directory.truncate_logs`.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.log import file_names, text_files
from headrace.log.log import Log
from headrace.log.producers.producer_states import ProducerStates
from headrace.log.recovery import interrupted_operations, replay
from headrace.log.recovery.known import Known
from headrace.log.segment.scan import headers
from headrace.log.segment.segment import Segment
from headrace.model.errors import HeadraceError
from headrace.model.invariant import invariant
from headrace.model.nouns import Offset

_logger = logging.getLogger(__name__)
_START = Offset(0)
_NO_SNAPSHOT = Offset(-1)
_ALL_PRODUCERS = Known(clean=True, producer_expiration_ms=1 << 62)


class BelowHighWatermark(HeadraceError):
    """A truncation would remove committed records: no log was truncated."""


@dataclass(slots=True, eq=False)
class Cut:
    """A truncation in progress: the log, the cut, and what remains."""

    log: Log
    offset: Offset
    """The batch that contains this offset, and everything behind it, is removed."""
    is_reset: bool = False
    """Whether the whole log is removed and begins empty at `offset`, as its leader's log does."""
    end: Offset = _START
    """The log's end offset after the truncation."""
    last: Offset = _START
    """End offset of the last remaining batch; below `end` if a gap lies between."""
    position: int = 0
    """Byte size of the last remaining segment after the cut."""
    kept: list[Segment] = field(default_factory=list)
    gone: list[Segment] = field(default_factory=list)
    epochs: bytes = b""
    """The new content of `leader-epoch-checkpoint`."""
    producers: ProducerStates = field(default_factory=ProducerStates)
    snapshot_offset: Offset = _NO_SNAPSHOT


# --- looking where the cut is ----------------------------------------------------------------


def plan(cut: Cut) -> None:
    """Find the batch boundary for a truncation. Blocking, on any thread; appends must be stopped.

    Raises OSError, BadBatch.
    """
    log, offset = cut.log, cut.offset
    kept = list(log.segments)
    if cut.is_reset:
        cut.gone = kept
        return
    gone = []
    while len(kept) > 1 and kept[-1].base_offset >= offset:
        gone.append(kept.pop())
    active = kept[-1]
    active.load_indexes()
    end = Offset(max(offset, active.base_offset))
    found = active.find(end, active.file.read) if active.size else None
    cut.position = active.size
    if found is not None:
        cut.position, header = found
        # If `offset` lies in a gap, the batch found begins behind it: the log ends at `offset`.
        end = Offset(max(min(header.base_offset, end), active.base_offset))
    cut.kept, cut.gone, cut.end = kept, gone[::-1], end
    cut.last = _last_end(log, offset)


def _last_end(log: Log, offset: Offset) -> Offset:
    """Return the end offset of the last batch that lies wholly below `offset`."""
    for segment in reversed(log.segments):
        if segment.base_offset < offset and segment.size:
            end = segment.base_offset
            where = segment.path(file_names.LOG)
            start = segment.start_of(offset, segment.file.read)
            start = segment.index.position_before(max(start - 1, 0))
            for _, header in headers(segment.file.read, start, segment.size, where):
                last = header.base_offset + header.last_offset_delta
                if last >= offset:
                    return end
                end = Offset(last + 1)
            return end
    return Offset(min(offset, log.segments[0].base_offset))


# --- in memory -------------------------------------------------------------------------------


def take(cut: Cut, *, unclean: bool) -> None:
    """Truncate the log in memory to the end found by `plan`, and withdraw published offsets.

    `unclean`: records below the high watermark may be removed, as an unclean election lost them.
    """
    log = cut.log
    invariant(
        unclean or cut.is_reset or cut.end >= log.high_watermark,
        f"{log!r}: cannot truncate to {cut.end}, below high watermark {log.high_watermark}",
    )
    log.context.events.about_to_cut(log, None if cut.is_reset else cut.offset)
    log.truncations += 1
    log.unflushed.forget([*cut.kept[-1:], *cut.gone])
    if cut.is_reset:
        _logger.info("%s: emptied, to begin at %d", log.topic_partition, cut.offset)
        log.start_offset = log.end_offset = log.high_watermark = cut.offset
        # Checkpoints written between `take` and `cut_files` must be valid for the files before and
        # after the cut.
        log.flushed_offset = _START
        cut.kept = [log.segments.make(cut.offset, log.config)]
    else:
        _logger.info("%s: truncated from %d to %d", log.topic_partition, log.end_offset, cut.end)
        _take_end(cut)
    log.epochs.truncate_from_end(_START if cut.is_reset else log.end_offset)
    cut.epochs = text_files.write_epochs(log.epochs.entries)
    log.segments.replace(cut.kept)


def _take_end(cut: Cut) -> None:
    log, active = cut.log, cut.kept[-1]
    if cut.offset < log.flushed_offset:
        # A start would report a recovery point above the log's end as damage. In a gap left by
        # compaction the last batch ends before `offset`.
        log.flushed_offset = cut.last
        log.high_watermark = Offset(min(log.high_watermark, cut.last))
    log.end_offset = cut.end
    log.high_watermark = Offset(min(log.high_watermark, cut.end))
    # The batch that contains the log's start may be removed (Kafka's truncateTo).
    log.start_offset = Offset(min(log.start_offset, cut.last))
    if cut.position < active.size:
        active.size = cut.position
        active.index.keep_below(cut.position)
        active.time_index.keep_below(cut.end)
        active.bytes_since_index = cut.position - active.index.last[1]
        active.forget_newest()
        if not active.size:
            active.first_timestamp = None


# --- the files -------------------------------------------------------------------------------


def cut_files(cuts: Sequence[Cut]) -> None:
    """Shorten the files of the truncated logs, durably. Blocking, on any thread. Raises OSError."""
    disk = cuts[0].log.context.disk
    for cut in cuts:
        for segment in reversed(cut.gone):
            interrupted_operations.remove_segment(disk, segment)
    # Otherwise a power cut could restore removed segments behind the cut, separated by a gap that a
    # start may accept.
    disk.sync_directories([cut.log.directory for cut in cuts if cut.gone])
    for cut in cuts:
        _cut_active(cut)
        _write_epochs(cut)
        for at in replay.snapshot_offsets(cut.log):
            if cut.is_reset or at > cut.end:
                name = file_names.segment_file(at, file_names.SNAPSHOT)
                disk.remove(f"{cut.log.directory}/{name}")
    disk.sync_directories([cut.log.directory for cut in cuts])
    for cut in cuts:
        if not cut.is_reset:
            found = replay.read_producers(cut.log, cut.end, _ALL_PRODUCERS)
            cut.producers, cut.snapshot_offset = found


def _cut_active(cut: Cut) -> None:
    active = cut.kept[-1]
    if cut.is_reset:
        active.create()
        active.file.sync()
        return
    if active.file.size() != cut.position:
        active.file.truncate(cut.position)
    active.file.sync()
    active.index.store()
    active.time_index.store()
    active.write_out_indexes()
    # computed here because it may read the file; the deciding thread must not block
    _ = active.max_timestamp
    active.txn_index.reset(keep_below=cut.end)


def _write_epochs(cut: Cut) -> None:
    disk, path = cut.log.context.disk, f"{cut.log.directory}/{file_names.LEADER_EPOCHS}"
    file = disk.open(f"{path}.tmp", create=True)
    try:
        file.truncate(0)
        file.write_at(0, (cut.epochs,))
        file.sync()
    finally:
        file.close()
    disk.rename(f"{path}.tmp", path)


# --- going on --------------------------------------------------------------------------------


def settle(cut: Cut) -> bool:
    """Accept appends again at the truncated end; return whether a flush is due.

    Raises StorageError, OSError.
    """
    log = cut.log
    log.producers, log.snapshot_offset = cut.producers, cut.snapshot_offset
    log.cutting = False
    if cut.is_reset:
        log.flushed_offset = log.end_offset
    elif cut.last < cut.end and log.segments.active.base_offset < cut.end:
        # Begin a segment behind the gap, so that a restart also ends there, which Kafka's does not:
        # no offset is assigned twice.
        if log.segments.active.size:
            log.roll()
        else:
            log.new_segment(log.end_offset)
        return True
    return log.flushed_offset < log.end_offset


def abandon(cut: Cut) -> None:
    """End a truncation that did not complete because the disk failed; the files stay as they
    are."""
    log = cut.log
    log.cutting = False
    if cut.is_reset and cut.kept:
        log.flushed_offset = log.end_offset  # the log is empty
