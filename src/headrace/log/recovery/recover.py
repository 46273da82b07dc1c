"""Open a log from its directory: after a clean stop, a kill or a power cut.

All functions block and change only the log's own directory, so several may run at once through
`Disk.run`.

    settle interrupted operations -> check for missing segments -> clean stop: `_believe` the files
                                                                -> else: `after_unclean_stop`
    -> check the end against the checkpoints -> complete epochs, producers, start offset

After a clean stop the files are accepted. Otherwise everything from the recovery point's segment on
is scanned, and indexes, `.txnindex`, epochs and producers are rebuilt. A damaged log is not opened
(CorruptLogError) and not truncated.
"""

import logging

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.log import Log
from headrace.log.recovery import after_unclean_stop, gaps, interrupted_operations, replay
from headrace.log.recovery.known import Known
from headrace.log.segment.segment import Segment
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)


def open_log(
    context: LogDirContext[Log],
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    known: Known,
) -> Log:
    """Open the log in `directory`. Raises OSError, and CorruptLogError for a damaged log.

    The files of a damaged log are unchanged.
    """
    disk = context.disk
    present = interrupted_operations.settle(disk, directory)
    log = Log(context, directory, topic_partition, topic_id_in(disk, directory), config)
    try:
        _load(log, known, present)
    except (CorruptLogError, OSError):
        log.close(clean=False)  # no other object refers to the opened files
        raise
    return log


def _load(log: Log, known: Known, present: list[str]) -> None:
    """Load the segments named in `present`, and the log's offsets, epochs and producers."""
    context, directory = log.context, log.directory
    if not known.clean:
        said = context.events.published_end(log.topic_id, log.topic_partition.partition)
        known = known._replace(published=said)
    segments = _segments(log, present)
    log.segments.replace(segments)
    gaps.check_whole(log, known)
    content = text_files.read_file(context.disk, f"{directory}/{file_names.LEADER_EPOCHS}")
    saved = _read_epochs(content, directory)
    gaps.check_first(log, known, saved)
    log.epochs = LeaderEpochs(saved)
    if not segments:
        log.end_offset = known.start_offset
        log.new_segment(known.start_offset)
    elif known.clean:
        _believe(log, known)
    else:
        after_unclean_stop.recover(log, known)
    _check_bounds(log, known)
    if saved is None:
        replay.rebuild_epochs(log)
    _settle(log, known, saved)


def _believe(log: Log, known: Known) -> None:
    """Accept the files after a clean stop, unless a `.txnindex` or the offsets contradict them."""
    bounds = [segment.base_offset for segment in log.segments[1:]]
    for at, segment in enumerate(log.segments):
        try:
            segment.txn_index.check(segment.base_offset, bounds[at] if bounds[at:] else 1 << 63)
        except CorruptLogError as error:
            # Rebuilding it takes the producers' state, so all segments behind are scanned too.
            _logger.warning("%s; the file is rebuilt from the log", error)
            after_unclean_stop.recover(log, known, at)
            return
    gaps.check_joined(log, len(log.segments) - 1, known)
    log.end_offset = gaps.end_of(log.segments[-1])
    replay.load_producers(log, log.end_offset, known)


def topic_id_in(disk: Disk, directory: str) -> bytes:
    """Return the topic id in a log's `partition.metadata`; NO_TOPIC_ID if it has none."""
    path = f"{directory}/{file_names.PARTITION_METADATA}"
    content = text_files.read_file(disk, path)
    if content is None:
        return text_files.NO_TOPIC_ID  # written before Kafka 2.8
    try:
        return text_files.read_partition_metadata(content, path)
    except CorruptLogError as error:
        # Torn before its first flush; `adopt_topic_id` writes it with the metadata store's id.
        _logger.warning("%s; it will be rewritten with the topic id from the metadata store", error)
        return text_files.NO_TOPIC_ID


def _read_epochs(content: bytes | None, directory: str) -> list[tuple[LeaderEpoch, Offset]] | None:
    """Return the stored leader epochs; None if they must be read from the batches."""
    if content is None:
        return None
    try:
        return text_files.read_epochs(content, f"{directory}/{file_names.LEADER_EPOCHS}")
    except CorruptLogError as error:
        _logger.warning("%s; the leader epochs are rebuilt from the log", error)
        return None


def _segments(log: Log, present: list[str]) -> list[Segment]:
    """Return the segments with a `.log` file, oldest first; remove index files without one."""
    bases: set[int] = set()
    beside: list[tuple[int, str]] = []
    for name in present:
        parsed = file_names.parse_segment_file(name)
        if parsed is None:
            continue
        base, suffix = parsed
        if suffix == file_names.LOG:
            bases.add(base)
        elif suffix in file_names.SEGMENT_SUFFIXES:
            beside.append((base, name))
    for base, name in beside:
        if base not in bases:
            log.context.disk.remove(f"{log.directory}/{name}")
    found = []
    for base in sorted(bases):
        segment = log.segments.make(Offset(base), log.config)
        segment.load_size()
        found.append(segment)
    return found


def _check_bounds(log: Log, known: Known) -> None:
    """Refuse a log that ends below its checkpoints, or above them after a clean stop.

    The CRC does not cover base offsets: only this check finds a damaged one in the last batch.
    """
    end = log.end_offset
    if known.clean and known.gaps_known and end > known.recovery_point > 0:
        raise CorruptLogError(
            f"{log.directory}: ends at offset {end}, but the last clean stop noted "
            f"{known.recovery_point}; {gaps.WHAT_TO_DO}"
        )
    if end < known.start_offset and not (known.clean or known.same_boot):
        # The start was moved up, then a power cut took the unflushed rest: begin there.
        _logger.warning(
            "%s: ends at offset %d, below its start %d: the rest was not flushed; log emptied",
            log.directory, end, known.start_offset,
        )  # fmt: skip
        for segment in reversed(log.segments):
            interrupted_operations.remove_segment(log.context.disk, segment)
        log.segments.replace([])
        log.producers.kept.clear()
        log.end_offset = known.start_offset
        log.new_segment(known.start_offset)
        return
    if end < known.flushed:
        upto, why = known.flushed, f"all offsets below {known.flushed} were flushed"
    elif end < known.start_offset:
        upto, why = known.start_offset, f"its start offset is {known.start_offset}"
    elif end < known.high_watermark and (known.clean or known.same_boot):
        # After a power cut the high watermark may be above what was flushed.
        upto = known.high_watermark
        why = f"all offsets below {upto} were committed"
    else:
        return
    raise CorruptLogError(
        f"{log.directory}: ends at offset {end}, but {why}: files or parts of them are missing "
        f"(offsets {end} to {upto - 1}); {gaps.WHAT_TO_DO}"
    )


def _settle(log: Log, known: Known, saved: list[tuple[LeaderEpoch, Offset]] | None) -> None:
    """Set start offset, high watermark, epochs and producers to match the log's segments."""
    start = known.start_offset
    if known.own_files and saved and saved[0][1] < start <= log.end_offset:
        # Whatever moves the start trims the epochs first, and neither file has a checksum.
        _logger.warning(
            "%s: starts at %d by its checkpoint, at %d by its leader epochs; using the lower one",
            log.directory, start, saved[0][1],
        )  # fmt: skip
        start = saved[0][1]
    if known.start_lost and saved:
        # The first epoch begins at the log's start.
        start = Offset(min(max(start, saved[0][1]), log.end_offset))
    log.start_offset = Offset(max(start, log.segments[0].base_offset))
    log.flushed_offset = log.end_offset
    log.high_watermark = Offset(min(max(known.high_watermark, log.start_offset), log.end_offset))
    replay.complete_epochs(log)
    log.epochs.truncate_from_end(log.end_offset)
    log.epochs.truncate_from_start(log.start_offset)
    if log.epochs.entries != (saved or []):
        log.save_epochs()
    active = log.segments[-1]
    active.load_first_timestamp()
    active.load_indexes()
    log.producers.expire(known.now_ms, known.producer_expiration_ms)
    replay.remove_stray_snapshots(log)
    for segment in log.segments:
        segment.close()  # an unused partition holds no open files
