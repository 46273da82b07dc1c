"""What shortens a log from its front: age, size, its start moved up; and what goes behind that.

Segments go from the oldest on, renamed to `.deleted` at once and removed after
`file.delete.delay.ms`, so that readers that hold them finish. Nothing goes that lies at or beyond
the high watermark or what somebody still wants (`Holds`). Without "delete" in `cleanup.policy`
neither age nor size deletes anything: what a compacted topic holds is the newest word on each key.

Behind a segment that somebody wants those may go that nobody does, which leaves gaps, as compaction
does: `directory.thinning` has what must be durable before.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence

from headrace.log import file_names
from headrace.log.log import Log
from headrace.log.segment.segment import Segment
from headrace.model.nouns import Offset

_logger = logging.getLogger(__name__)


def apply_retention(log: Log, now_ms: int) -> int:
    """Delete what may go by time and size; returns how many segments did. StorageError."""
    gone = delete_below_start(log)
    if "delete" in log.config.cleanup_policy:
        bound = _bound(log)
        gone += _delete(log, _expired(log, now_ms, bound), "past retention.ms")
        gone += _delete(log, _oversized(log, bound), "past retention.bytes")
    return gone


def delete_below_start(log: Log) -> int:
    """Delete what lies below the log's start; returns how many segments did. StorageError."""
    return _delete(log, _below_start(log, _bound(log)), "below the log's start")


def _bound(log: Log) -> Offset:
    held = log.context.holds.first(log.topic_partition)
    return log.high_watermark if held is None else min(log.high_watermark, held)


def _end_of(log: Log, at: int) -> Offset:
    following = at + 1
    if following < len(log.segments):
        return log.segments[following].base_offset
    return log.end_offset


def _below_start(log: Log, bound: Offset) -> int:
    count = 0
    while count < len(log.segments) - 1 and _end_of(log, count) <= min(log.start_offset, bound):
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
    """Log once for each: as in Kafka, such a segment and all behind it stay until that time."""
    if log.damage.say_once(f"future {segment.base_offset}"):
        _logger.warning(
            "%s: segment %d holds a record of the future (timestamp %d): neither it nor what is "
            "behind it goes by retention.ms before that",
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
    """Return the segments between others, all of them below `below`, that nobody wants."""
    return [
        segment
        for segment, end in _between(log)
        if end <= below and not _is_wanted(log, segment, end)
    ]


def past_retention(log: Log, now_ms: int) -> list[Segment]:
    """Return those between others that nobody wants, and that age or size lets go.

    As from the front on: by age none goes behind one that is young enough. What is wanted counts
    towards the size, and stays.
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
    """Yield segments and their ends that are neither the first nor the active one."""
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
    """Delete segments between others, oldest first. StorageError.

    What must be durable before is: see `directory.thinning`.
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
        "%s: %d segments go from between others, the first at %d: nobody wants what is in them",
        log.topic_partition, len(gone), gone[0].base_offset,
    )  # fmt: skip
    _remove_later(log, gone)


# --- how segments go ---------------------------------------------------------------------


def _is_empty_active(log: Log, at: int) -> bool:
    """Tell whether the segment is empty and active; compaction leaves empty ones before it."""
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
    """See to it that a snapshot at `start` or later tells of the producers of what goes. OSError.

    Seldom is there none: one that a power cut took was not missed while the batches were there.
    """
    waits = log.unflushed.forget(gone, oldest=True)
    if log.snapshot_offset < start:
        log.unflushed.add_file(log.write_snapshot())
        log.unflushed.add_directory(log.directory)
        waits = True
    if waits:
        log.context.events.flush_soon(log)


def remove_files(log: Log, segments: Iterable[Segment]) -> None:
    """Unlink the files of segments renamed away.

    Those of a log that was deleted, or has moved, go with its directory, which has another name:
    in its place there may be another log.
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
                continue  # not every segment has every file, and the directory may be gone
            except OSError as error:
                log.context.fail(error, path)
                return


def remove_snapshots(log: Log, bases: Iterable[Offset]) -> None:
    """Remove the producers' snapshots that belong to segments which are gone. OSError."""
    for base in bases:
        path = f"{log.directory}/{file_names.segment_file(base, file_names.SNAPSHOT)}"
        if log.context.disk.exists(path):
            log.context.disk.remove(path)
