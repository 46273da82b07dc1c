"""Retention: delete a log's segments by age, by size, or below the log's start offset.

Segments are deleted oldest first: renamed to `.deleted` at once and removed after
`file.delete.delay.ms`, so that readers that have them open finish. A segment at or above the high
watermark, or with records that a hold still needs (`Holds`), is not deleted. Without "delete" in
`cleanup.policy` neither age nor size deletes anything.

A segment behind a held segment may be deleted if no hold needs it. That leaves an offset gap, as
compaction does; `directory.thinning` has what must be durable before.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence

from headrace.log import file_names
from headrace.log.log import Log
from headrace.log.segment.segment import Segment
from headrace.model.nouns import Offset

_logger = logging.getLogger(__name__)


def apply_retention(log: Log, now_ms: int) -> int:
    """Delete segments past retention.ms, retention.bytes or below the start; return their
    number."""
    gone = delete_below_start(log)
    if "delete" in log.config.cleanup_policy:
        bound = _bound(log)
        gone += _delete(log, _expired(log, now_ms, bound), "past retention.ms")
        gone += _delete(log, _oversized(log, bound), "past retention.bytes")
    return gone


def delete_below_start(log: Log) -> int:
    """Delete the segments below the log's start offset; return their number.

    Holds were asked when the start moved; a follower's moves with its leader's. Raises
    StorageError.
    """
    return _delete(log, _below_start(log), "below the log's start")


def _bound(log: Log) -> Offset:
    held = log.context.holds.first(log.topic_partition)
    return log.high_watermark if held is None else min(log.high_watermark, held)


def _end_of(log: Log, at: int) -> Offset:
    following = at + 1
    if following < len(log.segments):
        return log.segments[following].base_offset
    return log.end_offset


def _below_start(log: Log) -> int:
    bound = min(log.start_offset, log.high_watermark)
    count = 0
    while count < len(log.segments) - 1 and _end_of(log, count) <= bound:
        count += 1
    return count


def _expired(log: Log, now_ms: int, bound: Offset) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    count = 0
    for at, segment in enumerate(log.segments):
        if _is_empty_active(log, at) or _end_of(log, at) > bound:
            break
        newest = segment.largest_timestamp()
        if newest > now_ms:
            _say_future(log, segment, newest)
        if now_ms - newest <= retention_ms:
            break
        count += 1
    return count


def _say_future(log: Log, segment: Segment, newest: int) -> None:
    """Log once for each segment: as in Kafka, it and those behind it stay until that time."""
    if log.damage.say_once(f"future {segment.base_offset}"):
        _logger.warning(
            "%s: segment %d holds a record with the future timestamp %d ms: retention.ms deletes "
            "neither this segment nor those behind it before that time",
            log.topic_partition, segment.base_offset, newest,
        )  # fmt: skip


def _oversized(log: Log, bound: Offset) -> int:
    if log.config.retention_bytes < 0:
        return 0
    over = sum(segment.size for segment in log.segments) - log.config.retention_bytes
    count = 0
    for at, segment in enumerate(log.segments):
        over -= segment.size
        if _is_empty_active(log, at) or over < 0 or _end_of(log, at) > bound:
            break
        count += 1
    return count


# --- between others ----------------------------------------------------------------------


def unwanted(log: Log, below: Offset) -> list[Segment]:
    """Return middle segments (neither first nor active) below offset `below` that no hold needs."""
    return [
        segment
        for segment, end in _between(log)
        if end <= below and not _is_wanted(log, segment, end)
    ]


def past_retention(log: Log, now_ms: int) -> list[Segment]:
    """Return middle segments that retention may delete by age or size and that no hold needs.

    As from the front: age deletes none behind a segment that is not old enough. Held segments
    count towards the size and stay.
    """
    config = log.config
    if "delete" not in config.cleanup_policy:
        return []
    segments = log.segments
    over = -1
    if config.retention_bytes >= 0:
        over = sum(segment.size for segment in segments) - config.retention_bytes
    is_old = config.retention_ms >= 0 and _is_old(segments[0], now_ms, config.retention_ms)
    found = []
    for segment, end in _between(log):
        is_old = is_old and _is_old(segment, now_ms, config.retention_ms)
        if not is_old and over < segment.size:
            break
        if not _is_wanted(log, segment, end):
            over -= segment.size
            found.append(segment)
    return found


def _between(log: Log) -> Iterator[tuple[Segment, Offset]]:
    """Yield (segment, end offset) of the segments between the first and the active one."""
    for at in range(1, len(log.segments) - 1):
        end = _end_of(log, at)
        if end > log.high_watermark:
            break
        yield log.segments[at], end


def _is_wanted(log: Log, segment: Segment, end: Offset) -> bool:
    return log.context.holds.wants(log.topic_partition, segment.base_offset, end)


def _is_old(segment: Segment, now_ms: int, retention_ms: int) -> bool:
    return now_ms - segment.largest_timestamp() > retention_ms


def delete_between(log: Log, gone: Sequence[Segment]) -> None:
    """Delete middle segments, oldest first. Raises StorageError.

    `directory.thinning` calls it once the flushed offset and the gap limit (`recovery.gaps`) are
    durable.
    """
    log.context.events.about_to_cut(log, log.end_offset)
    try:
        going = set(gone)
        log.unflushed.forget(going)
        log.segments.replace([segment for segment in log.segments if segment not in going])
        _rename_away(log, gone)
    except OSError as error:
        raise log.context.fail(error, log.directory) from error
    _logger.info(
        "%s: deleting %d segments from the middle of the log, the first at %d: no queue needs them",
        log.topic_partition, len(gone), gone[0].base_offset,
    )  # fmt: skip
    _remove_later(log, gone)


# --- how segments go ---------------------------------------------------------------------


def _is_empty_active(log: Log, at: int) -> bool:
    """Return whether segment `at` is active and empty; compaction may leave empty ones before."""
    return at == len(log.segments) - 1 and not log.segments[at].size


def _delete(log: Log, count: int, why: str) -> int:
    if count == 0:
        return 0
    log.context.events.about_to_cut(log, log.end_offset)
    if count == len(log.segments):
        log.roll()
    try:
        start = log.segments[count].base_offset
        if start > log.start_offset:
            log.begin_at(start)
        _keep_producers(log, log.segments[:count], start)
        gone = log.segments.drop_oldest(count)
        _rename_away(log, gone)
    except OSError as error:
        raise log.context.fail(error, log.directory) from error
    _logger.info(
        "%s: deleting %d segments %s; the log starts at %d",
        log.topic_partition,
        count,
        why,
        log.start_offset,
    )
    _remove_later(log, gone)
    return count


def _rename_away(log: Log, gone: Sequence[Segment]) -> None:
    for segment in gone:
        segment.rename_away(file_names.DELETED)
        remove_snapshots(log, [segment.base_offset])


def _remove_later(log: Log, gone: Sequence[Segment]) -> None:
    delay_ms = log.config.file_delete_delay_ms
    log.context.events.remove_later(delay_ms, lambda: remove_files(log, gone))


def _keep_producers(log: Log, gone: Collection[Segment], start: Offset) -> None:
    """Ensure that a snapshot at offset `start` or above has the deleted segments' producers.

    Raises OSError. A snapshot is rarely missing: a power cut may have taken it, which recovery
    could ignore while the batches existed.
    """
    waits = log.unflushed.forget(gone, oldest=True)
    if log.snapshot_offset < start:
        log.unflushed.add_file(log.write_snapshot())
        log.unflushed.add_directory(log.directory)
        waits = True
    if waits:
        log.context.events.flush_soon(log)


def remove_files(log: Log, segments: Iterable[Segment]) -> None:
    """Remove the files of segments that were renamed to `.deleted`.

    A log that was deleted or moved is skipped: its files go with its directory, which has a new
    name, and its old name may belong to another log.
    """
    disk = log.context.disk
    for segment in segments:
        segment.close()
        if log.closed:
            continue
        for suffix in file_names.SEGMENT_SUFFIXES:
            path = segment.path(suffix)
            try:
                disk.remove(path)
            except FileNotFoundError:
                continue  # not every segment has every file, and the directory may be deleted
            except OSError as error:
                log.context.fail(error, path)
                return


def remove_snapshots(log: Log, bases: Iterable[Offset]) -> None:
    """Remove the producer snapshots at the base offsets of deleted segments. Raises OSError."""
    for base in bases:
        path = f"{log.directory}/{file_names.segment_file(base, file_names.SNAPSHOT)}"
        if log.context.disk.exists(path):
            log.context.disk.remove(path)
