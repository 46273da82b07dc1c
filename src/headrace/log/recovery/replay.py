"""Rebuild a log's producer state and leader epochs from snapshots and batch headers."""

import logging
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from headrace.log import file_names
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.log import Log
from headrace.log.producers.kept_states import BATCHES_KEPT
from headrace.log.producers.producer_states import ProducerStates
from headrace.log.recovery.known import Known
from headrace.log.segment.scan import batches, headers
from headrace.log.segment.transaction_index import AbortedTransaction
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.record.batch import CONTROL, BatchHeader, parse_control, records, size_of

if TYPE_CHECKING:
    from headrace.log.segment.segment import Segment

_logger = logging.getLogger(__name__)
_HISTORY_BYTES = 8 << 20


def load_producers(log: Log, end: Offset, known: Known) -> None:
    """Set `log.producers` to the state at offset `end`; `read_producers` has the rules."""
    log.producers, log.snapshot_offset = read_producers(log, end, known)


def read_producers(log: Log, end: Offset, known: Known) -> tuple[ProducerStates, Offset]:
    """Return the producers at offset `end` and the newest snapshot's offset; -1 without one.

    Reads the newest valid snapshot and the batches behind it. Snapshots above `end` and invalid
    ones are removed; `.txnindex` files are unchanged. On any thread, without appends meanwhile.
    """
    producers = ProducerStates(log.context.producers_max)
    snapshot = _newest_snapshot(log, producers, end, known)
    at = snapshot
    if at is None:
        at = Offset(log.segments[0].base_offset if log.segments else 0)
    producers.expire(known.now_ms, known.producer_expiration_ms)
    if at < end:
        for header, view, written_ms in _batches_between(log, at, end):
            note_batch(producers, header, view, written_ms)
    return producers, Offset(-1) if snapshot is None else snapshot


def _newest_snapshot(
    log: Log, producers: ProducerStates, end: Offset, known: Known
) -> Offset | None:
    disk = log.context.disk
    heard_since = known.now_ms - known.producer_expiration_ms
    for offset in sorted(snapshot_offsets(log), reverse=True):
        path = f"{log.directory}/{file_names.segment_file(offset, file_names.SNAPSHOT)}"
        if offset <= end:
            file = disk.open(path, writable=False)
            try:
                content = file.read(0, file.size())
                producers.kept.load(content, path, partial(_written_ms, log))
                if not _remember_history(log, producers, Offset(offset), heard_since):
                    producers.kept.clear()
                    raise CorruptLogError(
                        f"{path}: it contradicts the batches before offset {offset}"
                    )
                return Offset(offset)
            except CorruptLogError as error:
                _logger.warning("%s; the producer state is rebuilt from the log", error)
            finally:
                file.close()
        disk.remove(path)
    return None


def _written_ms(log: Log, offset: int) -> int:
    """Return the latest time at which the batch at `offset` was written: its segment's mtime."""
    at = bisect_right(log.segments, offset, key=lambda segment: segment.base_offset) - 1
    return log.segments[at].file.mtime_ms() if at >= 0 else -1


def snapshot_offsets(log: Log) -> list[int]:
    """Return the offsets in the names of the log's `.snapshot` files."""
    found = []
    for name in log.context.disk.list(log.directory):
        parsed = file_names.parse_segment_file(name)
        if parsed is not None and parsed[1] == file_names.SNAPSHOT:
            found.append(parsed[0])
    return found


def remove_stray_snapshots(log: Log) -> None:
    """Remove snapshots that match no segment, except the newest (as Kafka does)."""
    offsets = snapshot_offsets(log)
    keep = {segment.base_offset for segment in log.segments} | {max(offsets, default=0)}
    for offset in offsets:
        if offset not in keep:
            name = file_names.segment_file(offset, file_names.SNAPSHOT)
            log.context.disk.remove(f"{log.directory}/{name}")


def _remember_history(log: Log, producers: ProducerStates, end: Offset, heard_since: int) -> bool:
    """Add each producer's batches before its last one, which snapshots lack, from the log.

    Without them a retry of an earlier unanswered batch would look like a sequence gap, and the
    client would write it again under a new epoch. Returns False if the snapshot contradicts the
    log: it lacks batches, or belongs to another offset.
    """
    if producers.kept.last_offset >= end:
        return False
    history: dict[int, list[BatchHeader]] = {}
    for header in _recent_headers(log, end):
        if header.producer_id < 0 or header.attributes & CONTROL:
            continue
        if header.producer_id not in producers:
            if header.max_timestamp > heard_since:
                return False
            continue
        kept = history.setdefault(header.producer_id, [])
        kept.append(header)
        del kept[:-BATCHES_KEPT]
    for producer_id, found in history.items():
        if not producers.kept.knows(found[-1]):
            return False
        producers.kept.remember(producer_id, found)
    return True


def _recent_headers(log: Log, end: Offset) -> Iterator[BatchHeader]:
    """Yield the batch headers of the last 8 MiB below offset `end`, oldest first."""
    budget = _HISTORY_BYTES
    recent: list[tuple[Segment, int]] = []
    for segment in reversed(log.segments):
        if segment.base_offset >= end or not segment.size:
            continue
        segment.start_of(end, segment.file.read)  # validates the index
        start = segment.index.position_before(max(segment.size - budget, 0))
        recent.append((segment, start))
        budget -= segment.size - start
        if budget <= 0:
            break
    for segment, begin in reversed(recent):
        where = segment.path(file_names.LOG)
        for _, header in headers(segment.file.read, begin, segment.size, where):
            if header.base_offset >= end:
                break
            yield header


def _batches_between(
    log: Log, start: Offset, end: Offset
) -> Iterator[tuple[BatchHeader, memoryview, int]]:
    """Yield (header, bytes of control batches only, segment's mtime in ms) in [start, end)."""
    position: int
    for at, segment in enumerate(log.segments):
        following = log.segments[at + 1].base_offset if at + 1 < len(log.segments) else end
        if following <= start or not segment.size or segment.base_offset >= end:
            continue
        position = segment.start_of(start, segment.file.read)
        written_ms = segment.file.mtime_ms()
        where = segment.path(file_names.LOG)
        for place, header in headers(segment.file.read, position, segment.size, where):
            if header.base_offset >= end:
                break
            if header.base_offset < start:
                continue
            view = memoryview(b"")
            if header.attributes & CONTROL:
                until = place + size_of(header)
                view = next(batches(segment.file.read, place, until, where)).view
            yield header, view, written_ms


def note_batch(
    producers: ProducerStates, header: BatchHeader, view: memoryview, written_ms: int
) -> AbortedTransaction | None:
    """Update the producers by a batch of the log; return its `.txnindex` entry if it aborts.

    `view`: the whole batch, used for control batches only. `written_ms`: the segment's mtime.
    """
    if header.producer_id < 0:
        return None
    if not header.attributes & CONTROL:
        producers.update(header, header.base_offset, written_ms)
        return None
    marker = next(iter(records(view)), None)
    if marker is None:
        return None  # compaction emptied the batch
    offset, control = Offset(header.base_offset), parse_control(marker)
    aborted = producers.aborted_by(header, control, offset)
    producers.update_marker(header, control, offset)
    return aborted


def rebuild_epochs(log: Log) -> None:
    """Rebuild the leader epochs from all batches, as their file is missing or torn."""
    log.epochs = _epochs_below(log, log.end_offset)


def complete_epochs(log: Log) -> None:
    """Add leader epochs that are missing at the log's start, from the batches.

    A deletion trims the file at once, and a power cut may undo only the deletion.
    """
    entries = log.epochs.entries
    first = entries[0][1] if entries else log.end_offset
    if first > log.start_offset:
        found = _epochs_below(log, first)
        for epoch, start in entries:
            found.assign(epoch, start)
        log.epochs = found


def _epochs_below(log: Log, end: Offset) -> LeaderEpochs:
    found = LeaderEpochs()
    for segment in log.segments:
        if segment.base_offset >= end:
            break
        where = segment.path(file_names.LOG)
        for _, header in headers(segment.file.read, 0, segment.size, where):
            if header.base_offset >= end:
                return found
            if header.leader_epoch > found.latest:
                found.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
    return found
