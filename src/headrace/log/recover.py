"""From a directory to a Log: after a clean stop, after a kill, after a power cut.

All of it blocks and changes nothing but its own directory: made for `Disk.run`, several at once.

After a clean stop the files are believed. Otherwise everything from the recovery point's segment on
is read to the last byte: indexes, `.txnindex`, epochs and producers are built again from it. A bad
batch above the recovery point is a torn tail, cut and said; one below it is damage: the log is not
opened (CorruptLogError), and not one byte shorter for it (G12).
"""

import logging
from bisect import bisect_right

from headrace.config.topic import LogConfig
from headrace.log import files, leftovers, names, replay
from headrace.log.epochs import LeaderEpochs
from headrace.log.log import Log
from headrace.log.scan import BadBatch, batches, headers
from headrace.log.segment import Segment
from headrace.log.shared import Known, Shared
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.world.disk import Disk

_logger = logging.getLogger(__name__)


def read_file(disk: Disk, path: str) -> bytes | None:
    """The whole content of a small file; None where there is none."""
    try:
        file = disk.open(path, writable=False)
    except FileNotFoundError:
        return None
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def create_log(
    shared: Shared,
    directory: str,
    topic_partition: TopicPartition,
    topic_id: bytes,
    config: LogConfig,
) -> Log:
    """Make the directory of a new partition; durable with the log's first flush. OSError."""
    shared.disk.make_directory(directory)
    log = Log(shared, directory, topic_partition, topic_id, config)
    log.new_segment(Offset(0))
    log.write_beside(names.PARTITION_METADATA, files.write_partition_metadata(topic_id))
    log.directory_changed(directory.rpartition("/")[0])
    return log


def open_log(
    shared: Shared,
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    known: Known,
) -> Log:
    """Open the log in `directory`. CorruptLogError: it is damaged and stays as it is. OSError."""
    disk = shared.disk
    present = leftovers.settle(disk, directory)
    log = Log(shared, directory, topic_partition, _topic_id(disk, directory), config)
    segments = _segments(log, present)
    log.set_segments(segments)
    content = read_file(disk, f"{directory}/{names.LEADER_EPOCHS}")
    saved = _read_epochs(content, directory)
    log.set_epochs(LeaderEpochs(saved))
    if not segments:
        log.end_offset = known.start_offset
        log.new_segment(known.start_offset)
    elif known.clean:
        log.end_offset = _end_of(segments[-1])
        replay.load_producers(log, log.end_offset, known)
    else:
        _recover(log, known)
    _check_bounds(log, known)
    if saved is None:
        replay.rebuild_epochs(log)
    _settle(log, known, saved)
    return log


def _topic_id(disk: Disk, directory: str) -> bytes:
    path = f"{directory}/{names.PARTITION_METADATA}"
    content = read_file(disk, path)
    if content is None:
        return files.NO_TOPIC_ID  # older than Kafka 2.8
    try:
        return files.read_partition_metadata(content, path)
    except CorruptLogError as error:
        # Torn before its first flush: the metadata store knows the id, `adopt_topic_id` writes it.
        _logger.warning("%s; taken as missing", error)
        return files.NO_TOPIC_ID


def _read_epochs(content: bytes | None, directory: str) -> list[tuple[LeaderEpoch, Offset]] | None:
    """Saved epochs; None where they must be read from the batches."""
    if content is None:
        return None
    try:
        return files.read_epochs(content, f"{directory}/{names.LEADER_EPOCHS}")
    except CorruptLogError as error:
        _logger.warning("%s; built again from the log", error)
        return None


def _segments(log: Log, present: list[str]) -> list[Segment]:
    """The segments whose `.log` is there, oldest first; index files without one are removed."""
    bases: set[int] = set()
    beside: list[tuple[int, str]] = []
    for name in present:
        parsed = names.parse_segment_file(name)
        if parsed is None:
            continue
        base, suffix = parsed
        if suffix == names.LOG:
            bases.add(base)
        elif suffix in names.SEGMENT_SUFFIXES:
            beside.append((base, name))
    for base, name in beside:
        if base not in bases:
            log.shared.disk.remove(f"{log.directory}/{name}")
    found = []
    for base in sorted(bases):
        segment = log.make_segment(Offset(base))
        segment.load_size()
        found.append(segment)
    return found


def _end_of(segment: Segment) -> Offset:
    """The offset after the last batch: from the last index entry on, as far as the file goes."""
    if not segment.size:
        return segment.base_offset
    segment.load_indexes()
    where = segment.path(names.LOG)
    end, since = segment.base_offset, 0
    indexed, position = segment.index.last
    for at, header in headers(segment.file.read, position, segment.size, where):
        last = header.base_offset + header.last_offset_delta
        if at == position and position and last != indexed:
            segment.rebuild_indexes()
            return _end_of(segment)
        end = Offset(last + 1)
        since += header.batch_length + 12
    segment.bytes_since_index = since
    return end


def _recover(log: Log, known: Known) -> None:
    """Read everything from the recovery point's segment on; cut a torn tail."""
    bases = [segment.base_offset for segment in log.segments]
    first = max(bisect_right(bases, known.recovery_point) - 1, 0)
    end = log.segments[first].base_offset
    replay.load_producers(log, end, known)
    log.epochs.truncate_from_end(end)  # from here on the batches say it
    for at in range(first, len(log.segments)):
        segment = log.segments[at]
        if at > first and _is_beyond_a_hole(log, segment, end, known):
            _cut(log, at, 0, end, f"begins at {segment.base_offset}, the log ended at {end}")
            break
        bad, end, position = _recover_segment(log, segment, max(end, segment.base_offset))
        if bad is not None:
            if end < known.recovery_point:
                raise CorruptLogError(
                    f"{bad}; everything below offset {known.recovery_point} was flushed, so this "
                    "is damage and no torn tail: the partition is out of service"
                )
            _cut(log, at, position, end, bad.reason)
            break
    log.end_offset = end
    for segment in log.segments[first:-1]:
        for file in segment.seal():
            file.sync()
        segment.close_indexes()
    active = log.segments[-1]
    active.seal()
    if end > known.recovery_point:
        active.file.sync()
        log.shared.disk.sync_directory(log.directory)


def _is_beyond_a_hole(log: Log, segment: Segment, end: Offset, known: Known) -> bool:
    """Whether what would join `segment` to the rest was lost with the power.

    Compaction leaves such gaps too, which is why they are no damage in a compacted topic.
    """
    joined = segment.base_offset == end or log.config.compacted
    return not joined and segment.base_offset > known.recovery_point


def _recover_segment(
    log: Log, segment: Segment, expected: Offset
) -> tuple[BadBatch | None, Offset, int]:
    """Build all that is beside the segment again; what stopped it, the end, its position."""
    segment.start_rebuild()
    segment.txn_index.reset()
    end, position = expected, 0
    every = log.config.index_interval_bytes
    try:
        where = segment.path(names.LOG)
        for at, header, view in batches(segment.file.read, 0, segment.size, where, expected):
            last = header.base_offset + header.last_offset_delta
            segment.note(last, header.max_timestamp, at, every)
            segment.bytes_since_index += len(view)
            replay.note_batch(log, segment, header, view)
            if header.leader_epoch > log.epochs.latest:
                log.epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
            end, position = Offset(last + 1), at + len(view)
    except BadBatch as bad:
        return bad, end, position
    return None, end, position


def _cut(log: Log, at: int, position: int, end: Offset, reason: str) -> None:
    """Cut the log behind `position` of its segment number `at`, and say what goes."""
    segment = log.segments[at]
    gone = log.segments[at + 1 :]
    lost = segment.size - position + sum(other.size for other in gone)
    _logger.warning(
        "%s at byte %d: %s; torn tail cut: %d bytes and %d later segments go, "
        "the log ends at offset %d",
        segment.path(names.LOG), position, reason, lost, len(gone), end,
    )  # fmt: skip
    # Newest first: whatever a second crash interrupts, no hole is left behind.
    for other in reversed(gone):
        leftovers.remove_segment(log.shared.disk, other)
    kept = log.segments[: at + 1]
    if position == 0 and at > 0:
        leftovers.remove_segment(log.shared.disk, segment)
        kept.pop()
    else:
        segment.file.truncate(position)
        segment.size = position
        segment.file.sync()
    # What was cut must not come back behind what is written now.
    log.shared.disk.sync_directory(log.directory)
    log.set_segments(kept)


def _check_bounds(log: Log, known: Known) -> None:
    if log.end_offset < known.recovery_point and log.end_offset >= known.start_offset:
        raise CorruptLogError(
            f"{log.directory}: ends at offset {log.end_offset}, yet everything below "
            f"{known.recovery_point} was flushed: the partition is out of service"
        )
    if log.end_offset < known.start_offset:
        # The start was moved up, then the power cut took the unflushed rest: begin there.
        for segment in reversed(log.segments):
            leftovers.remove_segment(log.shared.disk, segment)
        log.set_segments([])
        log.producers.clear()
        log.end_offset = known.start_offset
        log.new_segment(known.start_offset)


def _settle(log: Log, known: Known, saved: list[tuple[LeaderEpoch, Offset]] | None) -> None:
    """Bring the rest into line with where the log begins and ends."""
    log.start_offset = Offset(max(known.start_offset, log.segments[0].base_offset))
    log.flushed_offset = log.end_offset
    log.high_watermark = Offset(min(max(known.high_watermark, log.start_offset), log.end_offset))
    replay.complete_epochs(log)
    log.epochs.truncate_from_end(log.end_offset)
    log.epochs.truncate_from_start(log.start_offset)
    if log.epochs.entries != (saved or []):
        log.save_epochs()
    log.set_epochs(log.epochs)
    active = log.segments[-1]
    active.load_first_timestamp()
    active.load_indexes()
    log.producers.expire(known.now_ms, known.producer_expiration_ms)
    replay.remove_stray_snapshots(log)
    for segment in log.segments:
        segment.close()  # at rest a partition holds no descriptor
