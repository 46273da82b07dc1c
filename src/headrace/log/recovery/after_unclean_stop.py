"""After a kill or a power cut: read what may not be whole, cut what was torn, refuse damage.

What a bad batch means depends on what could have happened to it:

* Below the recovery point all was flushed: it is damage.
* Above it, and the machine has run on since (the same boot id): the page cache has outlived the
  process, so only the write under way when it died can be torn, and that one ends with its file.
  Anything else is damage.
* Above it, and the machine went down, or nobody knows: what was not flushed may be there in any
  part. It is a torn tail. With log.flush.on.ack=false this may have been acknowledged: the recovery
  point alone is trusted, high watermarks are not (at RF 1 they outrun the disk).
* A flush failed: the pages are read from the disk again, and judged as if the machine went down.
* The recovery point itself is lost: a torn tail only where nothing sound follows.

A torn tail is cut and said, with its size. Damage raises CorruptLogError: the partition stays out
of service, and its files as they are, until somebody has decided (G12).
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
    """Read everything from the recovery point's segment on; cut a torn tail. CorruptLogError.

    `first`: the number of the segment to begin with instead.
    What was read counts as flushed only when `context.unsynced` is, which the directory sees to.
    """
    bases = [segment.base_offset for segment in log.segments]
    if first is None:
        first = max(bisect_right(bases, known.recovery_point) - 1, 0)
    end = log.segments[first].base_offset
    gaps.check_joined(log, first, known)
    replay.load_producers(log, end, known)
    log.epochs.truncate_from_end(end)  # from here on the batches say it
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
        # All of them, for their `.txnindex` was written again; the newest one although nothing may
        # be in it: its name may not be durable yet. Its indexes are flushed when it is closed.
        whole = at < last or known.doubted
        suffixes = file_names.SEGMENT_SUFFIXES if whole else (file_names.LOG, file_names.TXN_INDEX)
        log.context.unsynced += [segment.path(suffix) for suffix in suffixes]
        if bad is not None:
            _judge(log, at, bad, end, known)
            _cut(log, at, position, end, bad.reason)
            break
    small = (file_names.PARTITION_METADATA, file_names.LEADER_EPOCHS)
    log.context.unsynced += [f"{log.directory}/{name}" for name in small]
    log.end_offset = end


def _snapshot(log: Log, base: Offset) -> None:
    """See to it that a snapshot is there where a segment begins, and on the disk in the end.

    The next start after a kill need not read again for its producers what lies before. And
    retention takes what it could be built again from: the page cache alone is not enough.
    """
    if log.snapshot_offset != base:
        log.end_offset = base
        log.write_snapshot().close()
    name = file_names.segment_file(base, file_names.SNAPSHOT)
    log.context.unsynced.append(f"{log.directory}/{name}")


def _lose_from(log: Log, at: int, end: Offset, known: Known) -> None:
    """Cut what the power took the joint of, with `log.segments[at]`. CorruptLogError: not so."""
    segment = log.segments[at]
    stayed = known.same_boot or known.recovery_point_lost
    if segment.base_offset <= known.flushed or (segment.size and stayed):
        raise gaps.not_joined(log, end, segment)
    _cut(log, at, 0, end, f"begins at {segment.base_offset}, the log ended at {end}")


def _recover_segment(
    log: Log, segment: Segment, expected: Offset, limit: int, known: Known
) -> tuple[BadBatch | None, Offset, int]:
    """Build all that is beside the segment again; what stopped it, the end, its position."""
    segment.txn_index.reset()
    written_ms = segment.file.mtime_ms() if segment.size else 0
    aborted: list[AbortedTransaction] = []
    note = partial(_note_batch, log, written_ms, aborted)
    # Base offsets are under no checksum: what we have appended ourselves has no gaps.
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
    """Raise CorruptLogError unless what begins with `bad` is a torn tail."""
    if end < known.flushed:
        why = f"everything below offset {known.flushed} was flushed"
    elif known.same_boot and not bad.cut_off:
        why = "the machine has not been down since it was written"
    elif (known.same_boot or known.recovery_point_lost) and _something_behind(log, at, bad, end):
        why = "sound batches follow it"
    else:
        return
    raise CorruptLogError(
        f"{bad} (offset {end}); {why}, so this is damage and no torn tail; {WHAT_TO_DO}"
    ) from bad


def _something_behind(log: Log, at: int, bad: BadBatch, end: Offset) -> bool:
    if any(segment.size for segment in log.segments[at + 1 :]):
        return True
    segment = log.segments[at]
    fetch, base = segment.file.read, segment.base_offset
    return sound_batch_behind(fetch, segment.size, bad.position + 1, base, end) is not None


def _cut(log: Log, at: int, position: int, end: Offset, reason: str) -> None:
    """Cut the log behind `position` of its segment number `at`, and say what goes."""
    segment = log.segments[at]
    gone = log.segments[at + 1 :]
    lost = segment.size - position + sum(other.size for other in gone)
    _logger.warning(
        "%s at byte %d: %s; torn tail cut: %d bytes and %d later segments go, "
        "the log ends at offset %d",
        segment.path(file_names.LOG), position, reason, lost, len(gone), end,
    )  # fmt: skip
    # Newest first: whatever a second crash interrupts, no hole is left behind.
    for other in reversed(gone):
        interrupted_operations.remove_segment(log.context.disk, other)
    kept = log.segments[: at + 1]
    if position == 0 and at > 0 and gaps.end_of_sealed(log.segments[at - 1]) == end:
        interrupted_operations.remove_segment(log.context.disk, segment)
        kept.pop()
    else:  # behind a gap it stays, empty, so that the log ends there at the next start too
        segment.file.truncate(position)
        segment.size = position
        segment.file.sync()
    # What was cut must not come back behind what is written now.
    log.context.disk.sync_directory(log.directory)
    log.segments.replace(kept)
