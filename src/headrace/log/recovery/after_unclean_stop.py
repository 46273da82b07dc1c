"""Recovery after a kill or a power cut: scan, truncate a torn tail, refuse a damaged log.

`recover` scans from the recovery point on. The meaning of an invalid batch depends on its place:

    below the recovery point               damage: everything there was flushed
    above it, same boot id                 torn tail if the batch is cut off by the file's end (the
                                           write at the kill; the page cache survived), else damage
    above it, other or unknown boot id     torn tail: any part that was not flushed may be missing
    above it, a flush had failed           as after a reboot; pages are read from the disk
    recovery point lost                    torn tail only if no valid batch follows

With log.flush.on.ack=false a torn tail may hold acknowledged records. The high watermark is not
used as a limit after a power cut, since a single replica's may be ahead of its disk.

A torn tail is truncated and logged with its size. Damage raises CorruptLogError: the partition
stays out of service and its files unchanged until an operator decides.
"""

import logging
from bisect import bisect_right
from functools import partial

from headrace.log import file_names
from headrace.log.log import Log
from headrace.log.recovery import gaps, interrupted_operations, replay
from headrace.log.recovery.gaps import WHAT_TO_DO
from headrace.log.recovery.known import Known
from headrace.log.segment.check_segment import GAPS_ANYWHERE, sound_batch_behind, sweep
from headrace.log.segment.indexes import offset_limit
from headrace.log.segment.scan import BadBatch
from headrace.log.segment.segment import Segment
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.record.batch import parse_header

_logger = logging.getLogger(__name__)


def recover(log: Log, known: Known, first: int | None = None) -> None:
    """Scan a log from its recovery point's segment on; truncate a torn tail.

    Raises CorruptLogError. `first`: index of the segment at which to begin instead. The scanned
    files count as flushed only after the directory has fsynced `context.unsynced`.
    """
    bases = [segment.base_offset for segment in log.segments]
    if first is None:
        first = max(bisect_right(bases, known.recovery_point) - 1, 0)
    end = log.segments[first].base_offset
    gaps.check_joined(log, first, known)
    replay.load_producers(log, end, known)
    log.epochs.truncate_from_end(end)  # the scan adds the epochs from here on
    last = len(log.segments) - 1
    for at in range(first, last + 1):
        segment = log.segments[at]
        if known.doubted:
            segment.file.forget(0, segment.size)
        joined = at == first or segment.base_offset == end
        if not (joined or gaps.gap_allowed(log, end, segment, known)):
            _lose_from(log, at, end, known)
            break
        if at > 0:
            _snapshot(log, Offset(max(end, segment.base_offset)))
        limit = bases[at + 1] if at < last else offset_limit(segment.base_offset)
        expected = max(end, segment.base_offset)
        bad, end, position = _recover_segment(log, segment, expected, limit, known)
        # All files, as their `.txnindex` was rewritten; the newest segment even if it is empty, as
        # its name may not be durable. Its indexes are flushed when it is closed.
        whole = at < last or known.doubted
        suffixes = file_names.SEGMENT_SUFFIXES if whole else (file_names.LOG, file_names.TXN_INDEX)
        log.context.unsynced += [segment.path(suffix) for suffix in suffixes]
        if bad is not None:
            _judge(log, at, bad, end, known)
            _cut(log, at, position, end, bad.reason)
            break
    small = (file_names.PARTITION_METADATA, file_names.LEADER_EPOCHS, file_names.SETTLED)
    log.context.unsynced += [f"{log.directory}/{name}" for name in small]
    log.end_offset = end


def _snapshot(log: Log, base: Offset) -> None:
    """Ensure that a snapshot exists at offset `base`, where a segment begins, and gets fsynced.

    So the next start after a kill need not read what lies before. Retention may delete what it was
    built from: the page cache alone is not enough.
    """
    if log.snapshot_offset != base:
        log.end_offset = base
        log.write_snapshot().close()
    name = file_names.segment_file(base, file_names.SNAPSHOT)
    log.context.unsynced.append(f"{log.directory}/{name}")


def _lose_from(log: Log, at: int, end: Offset, known: Known) -> None:
    """Remove the segments from index `at` on after a torn gap; CorruptLogError if it is damage."""
    segment = log.segments[at]
    stayed = known.same_boot or known.recovery_point_lost
    if segment.base_offset <= known.flushed or (segment.size and stayed):
        raise gaps.not_joined(log, end, segment)
    _cut(log, at, 0, end, f"the segment begins at {segment.base_offset}, the log ends at {end}")


def _recover_segment(
    log: Log, segment: Segment, expected: Offset, limit: int, known: Known
) -> tuple[BadBatch | None, Offset, int]:
    """Rebuild a segment's indexes and epochs; return (bad batch, end offset, end position)."""
    segment.txn_index.reset()
    written_ms = segment.file.mtime_ms() if segment.size else 0
    aborted: list[AbortedTransaction] = []
    note = partial(_note_batch, log, written_ms, aborted)
    # Base offsets have no checksum, but batches that Headrace appended have no gaps between them.
    gaps_below = max(known.gaps_below, known.flushed) if known.gaps_known else GAPS_ANYWHERE
    every = log.config.index_interval_bytes
    swept = sweep(segment, expected, limit, every, note, gaps_below)
    for epoch, start in swept.epochs:
        if epoch > log.epochs.latest:
            log.epochs.assign(LeaderEpoch(epoch), Offset(start))
    segment.txn_index.append(*aborted)
    segment.take_swept(swept)
    segment.write_out_indexes()
    segment.close()
    return swept.bad, swept.end, swept.position


def _note_batch(
    log: Log, written_ms: int, aborted: list[AbortedTransaction], header: bytes, view: memoryview
) -> None:
    entry = replay.note_batch(log.producers, parse_header(header), view, written_ms)
    if entry is not None:
        aborted.append(entry)


def _judge(log: Log, at: int, bad: BadBatch, end: Offset, known: Known) -> None:
    """Raise CorruptLogError if the invalid batch `bad` is damage and not a torn tail."""
    if end < known.flushed:
        why = f"all offsets below {known.flushed} were flushed"
    elif known.same_boot and not bad.cut_off:
        why = "the machine has not rebooted since it was written"
    elif (known.same_boot or known.recovery_point_lost) and _something_behind(log, at, bad, end):
        why = "valid batches follow it"
    else:
        return
    raise CorruptLogError(
        f"{bad} (offset {end}); {why}, so this is damage, not a torn tail; {WHAT_TO_DO}"
    ) from bad


def _something_behind(log: Log, at: int, bad: BadBatch, end: Offset) -> bool:
    if any(segment.size for segment in log.segments[at + 1 :]):
        return True
    segment = log.segments[at]
    fetch, base = segment.file.read, segment.base_offset
    return sound_batch_behind(fetch, segment.size, bad.position + 1, base, end) is not None


def _cut(log: Log, at: int, position: int, end: Offset, reason: str) -> None:
    """Truncate the log behind byte `position` of its segment at index `at`; log what is removed."""
    segment = log.segments[at]
    gone = log.segments[at + 1 :]
    lost = segment.size - position + sum(other.size for other in gone)
    _logger.warning(
        "%s at byte %d: %s; torn tail truncated: removed %d bytes and %d later segments, "
        "the log ends at offset %d",
        segment.path(file_names.LOG), position, reason, lost, len(gone), end,
    )  # fmt: skip
    # Newest first: a second crash in between leaves no hole.
    for other in reversed(gone):
        interrupted_operations.remove_segment(log.context.disk, other)
    kept = log.segments[: at + 1]
    if position == 0 and at > 0 and gaps.end_of_sealed(log.segments[at - 1]) == end:
        interrupted_operations.remove_segment(log.context.disk, segment)
        kept.pop()
    else:  # Behind a gap the empty segment stays, so that the next start ends the log there too.
        segment.file.truncate(position)
        segment.size = position
        segment.file.sync()
    # A power cut must not restore the removed segments behind new records.
    log.context.disk.sync_directory(log.directory)
    log.segments.replace(kept)
