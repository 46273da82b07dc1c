"""`Log`: one partition's offsets, segments, leader epochs and producers; append, roll, flush.

`recover.open_log` opens a directory, `new_log.create_log` makes one. A log is used on the
deciding thread and closed once. `log_reader` reads it; `retention` and `truncation` shorten it.

    start_offset <= high_watermark <= end_offset      flushed_offset <= end_offset
    everything below flushed_offset is on the disk; `Flusher` moves it and calls the `LogListener`s
"""

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.config.log_config import LogConfig
from headrace.log import batch_limits, file_names, log_reader, text_files
from headrace.log.batch_limits import Origin
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.producers.producer_states import ProducerStates
from headrace.log.reported_damage import ReportedDamage
from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
from headrace.log.segment.segment import Segment
from headrace.log.segment.segments import Segments
from headrace.log.segment.served_ranges import Served
from headrace.log.small_files import SmallFiles
from headrace.log.unflushed import FlushWork, Unflushed
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.invariant import invariant
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.ports.disk import DiskFile
from headrace.record.batch import (
    CONTROL,
    LOG_APPEND_TIME,
    BatchHeader,
    ControlMarker,
    parse_control,
    records,
    stamp,
    stamp_append_time,
)

if TYPE_CHECKING:
    from headrace.log.directory.log_dir_context import LogDirContext
    from headrace.log.directory.state_files.read_bound_slot import Slot

__all__ = [
    "Appended", "FlushWork", "Log", "LogListener", "NeedsDisk", "Origin", "ReadResult", "Served",
]  # fmt: skip

_logger = logging.getLogger(__name__)
_new = tuple.__new__  # makes a named tuple in two fifths of its constructor's time


class Appended(NamedTuple):
    """The offsets and the timestamp that the log assigned to an appended batch."""

    base_offset: Offset
    last_offset: Offset
    append_time_ms: int
    """The broker's time in milliseconds if the topic uses LogAppendTime, else -1."""


class LogListener(Protocol):
    """An observer of a log's flushes: its partition, or the replication of that partition."""

    def log_flushed(self, upto: Offset) -> None:
        """Note that all records below `upto` are flushed. Called after each flush; no I/O here."""

    def log_readable(self) -> None:
        """Note that the readable range changed: a flush was published, or the log was reset."""


class Log:
    """A partition's log on disk. The module's docstring says which thread may call it."""

    def __init__(
        self,
        context: "LogDirContext[Log]",
        directory: str,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
    ) -> None:
        """Make an empty log object; `recover` fills it from the directory."""
        self.context = context
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        """The topic's settings; may be replaced. The next append or retention uses them."""
        self.start_offset = Offset(0)
        self.end_offset = Offset(0)
        self.flushed_offset = Offset(0)
        self.high_watermark = Offset(0)
        """Moved by the partition; stored here for checkpoints, and as the limit of retention."""
        self.listeners: tuple[LogListener, ...] = ()
        """Observers of flushes, called in this order. Changed by `listen` and `unlisten`."""
        self.segments = Segments(context.disk, context.random, directory)
        self.epochs = LeaderEpochs()
        """Leader epochs with their start offsets. Changed through `assign_epoch` only."""
        self.producers = ProducerStates(context.producers_max)
        self.unflushed = Unflushed()
        """Sealed segments, small files and directories that the next flush must include."""
        self.small_files = SmallFiles(context.disk, directory, self.unflushed)
        self.damage = ReportedDamage(context, topic_partition)
        self.closed = False
        self.snapshot_offset = Offset(-1)
        """Offset of the newest `.snapshot` file; -1 if the directory has none."""
        self.last_flush_ms = 0
        self.cutting = False
        """Whether another thread truncates or moves the log. Appends are refused meanwhile."""
        self.truncations = 0
        """Number of truncations; flush work from before a truncation is stale."""
        self.bound: Slot | None = None
        """This log's slot in the file `durable-read-bounds`; None until it is assigned."""

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.start_offset}..{self.end_offset})"

    # --- reading: see `log_reader` ---------------------------------------------------------------

    read = log_reader.read
    read_from_disk = log_reader.read_from_disk
    serve = log_reader.serve
    serve_from_disk = log_reader.serve_from_disk
    offset_for_time = log_reader.offset_for_time
    max_timestamp_offset = log_reader.max_timestamp_offset
    aborted_transactions = log_reader.aborted_transactions

    # --- listeners ---------------------------------------------------------------------------

    def listen(self, listener: LogListener) -> None:
        """Call `listener` after every flush from now on, after the listeners added before it."""
        self.listeners = (*self.listeners, listener)

    def unlisten(self, listener: object) -> None:
        """Stop calling `listener` after flushes."""
        self.listeners = tuple(other for other in self.listeners if other is not listener)

    # --- offsets -----------------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Return the last stable offset; `start_offset` if a transaction began below that."""
        return max(self.start_offset, self.producers.last_stable_offset(high_watermark))

    def first_unstable_offset(self) -> Offset | None:
        """Return the first offset of the oldest open transaction, or None."""
        return self.producers.first_unstable_offset()

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """Return the greatest epoch not above `epoch` and its end offset; (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.end_offset)

    # --- append ------------------------------------------------------------------------------

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
    ) -> Appended:
        """Append one validated batch: stamp offset and epoch in place, write now, flush later.

        `batch` must be writable and is not retained. Producer state is updated; the caller has
        asked `producers.check` for duplicates and sequence gaps before.

        ApiError MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP: nothing was written.
        StorageError: the directory has failed, now or before. The batch may be in the file; it is
        neither acknowledged nor served to consumers.
        """
        if self.context.failure is not None or self.cutting:
            self.check_appendable()
        config = self.config
        size = len(batch)
        append_time = -1
        stamped = config.message_timestamp_type == "LogAppendTime"
        if not (
            batch_limits.takes(config, size, header, now_ms)
            if origin is Origin.CLIENT and not stamped
            else batch_limits.fits(config, size)
        ):
            batch_limits.refuse(config, size, header, now_ms)
        if stamped:
            if not (header.attributes & LOG_APPEND_TIME and header.max_timestamp == now_ms):
                header = stamp_append_time(batch, now_ms)
            append_time = now_ms
        base = self.end_offset
        last = base + header.last_offset_delta
        newest = header.max_timestamp
        active = self.segments.active
        if active.should_roll(size, last, newest, config.segment_bytes, config.segment_ms):
            active = self.roll()
        if leader_epoch != self.epochs.latest:
            self.assign_epoch(leader_epoch, base)
        stamp(batch, base, leader_epoch)
        marker = None
        if header.attributes & CONTROL and header.producer_id >= 0:
            marker = parse_control(next(iter(records(batch))))
            self.index_abort(marker, header, base, active)
        try:
            active.append((batch,), size, last, newest, config.index_interval_bytes)
        except OSError as error:
            raise self.append_failed(active, error) from error
        if marker is not None:
            self.producers.update_marker(header, marker, base)
        elif header.producer_id >= 0:
            self.producers.update(header, base, now_ms)
        self.ends_at(last + 1)
        appended: Appended = _new(Appended, (base, last, append_time))
        return appended

    def check_appendable(self) -> None:
        """Raise StorageError if the log directory has failed, ApiError during a truncation."""
        if self.context.failure is not None:
            raise self.context.failure
        if self.cutting:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self!r} is truncated or moved now")

    def ends_at(self, following: int) -> None:
        """Set the end offset after an append; request a flush or an index write if due."""
        self.end_offset = Offset(following)
        if following - self.flushed_offset >= self.config.flush_messages:
            self.context.events.flush_soon(self)
        if self.segments.active.entries_due:
            self.context.events.write_indexes_soon(self)

    def append_failed(self, segment: Segment, error: OSError) -> StorageError:
        """Remove a failed write's bytes from the file if possible, and fence the directory."""
        path = segment.path(file_names.LOG)
        try:
            segment.file.truncate(segment.size)
        except OSError:
            _logger.error("%s: the next start truncates it to %d bytes", path, segment.size)
        return self.context.fail(error, path)

    def index_abort(
        self, marker: ControlMarker, header: BatchHeader, base: Offset, segment: Segment
    ) -> None:
        """Write the `.txnindex` entry of an abort marker, before the marker. Raises StorageError.

        So no abort marker is in the log without its entry. An entry whose marker could not be
        written is harmless: the transaction is still open, and the next start rebuilds the file.
        """
        aborted = self.producers.aborted_by(header, marker, base)
        if aborted is None:
            return
        if not segment.txn_index.entries:
            self.unflushed.add_directory(self.directory)  # the first entry creates the file
        try:
            segment.txn_index.append(aborted)
        except OSError as error:
            raise self.context.fail(error, segment.txn_index.path) from error

    # --- epochs ------------------------------------------------------------------------------

    def assign_epoch(self, epoch: LeaderEpoch, start: Offset) -> None:
        """Store that `epoch` starts at `start`, durably before a batch of it is flushed."""
        if self.epochs.assign(epoch, start):
            self.save_epochs()
            self.context.events.write_indexes_soon(self)  # which closes the new file, too

    def save_epochs(self) -> None:
        """Replace `leader-epoch-checkpoint`; durable with the next flush. Raises StorageError."""
        try:
            self.small_files.write(
                file_names.LEADER_EPOCHS, text_files.write_epochs(self.epochs.entries)
            )
        except OSError as error:
            raise self.context.fail(error, self.directory) from error

    def adopt_topic_id(self, topic_id: bytes) -> None:
        """Write a missing `partition.metadata`, for a directory written by Kafka older than 2.8."""
        self.small_files.write(
            file_names.PARTITION_METADATA, text_files.write_partition_metadata(topic_id)
        )
        self.topic_id = topic_id

    # --- roll and flush ----------------------------------------------------------------------

    def roll(self) -> Segment:
        """Seal the active segment and begin a new one at the log's end. Raises StorageError."""
        active = self.segments.active
        invariant(active.size > 0, f"{active!r}: an empty segment is not rolled")
        try:
            self.unflushed.add_segment(active, [*active.seal(), self.write_snapshot()])
            return self.new_segment(self.end_offset)
        except OSError as error:
            raise self.context.fail(error, self.directory) from error

    def new_segment(self, base: Offset, *, fresh: bool = False) -> Segment:
        """Add an empty segment at the log's end; `fresh`: the directory is new. Raises OSError."""
        segment = self.segments.make(base, self.config)
        segment.create(fresh=fresh)
        self.segments.add(segment)
        self.unflushed.add_directory(self.directory)
        return segment

    def write_snapshot(self) -> DiskFile:
        """Write the producer `.snapshot` at the log's end; return its open, unflushed file."""
        name = file_names.segment_file(self.end_offset, file_names.SNAPSHOT)
        file = self.context.disk.open(f"{self.directory}/{name}", create=True)
        content = self.producers.kept.snapshot()
        file.truncate(0)
        file.write_at(0, (content,))
        self.snapshot_offset = self.end_offset
        return file

    def flush_work(self) -> FlushWork:
        """Return the files that a flush must write now; pass the result to `flushed` afterwards."""
        return self.unflushed.work(
            self.segments.active.written_files, self.end_offset, self.truncations
        )

    def flushed(self, work: FlushWork, now_ms: int = 0) -> None:
        """Advance `flushed_offset` after the flush of `work` and notify the listeners."""
        for file in work.loose:
            file.close()
        if self.closed:
            return
        self.last_flush_ms = now_ms
        if work.sealed:
            self.unflushed.settled(work)
        if self.flushed_offset < work.upto and work.truncations == self.truncations:
            self.flushed_offset = work.upto
        for listener in self.listeners:
            listener.log_flushed(self.flushed_offset)

    # --- shorten -----------------------------------------------------------------------------

    def delete_records(self, before: Offset) -> Offset:
        """Move the log's start to `before`, at most the high watermark; return the new start.

        Retention later deletes the segments wholly below. The offset is durable with the next
        checkpoint, which the directory writes at once. ApiError: OFFSET_OUT_OF_RANGE, or
        POLICY_VIOLATION if a hold still needs records below `before`.
        """
        self.check_appendable()
        if before > self.high_watermark or before < 0:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"cannot delete records below {before}, high watermark {self.high_watermark}",
            )
        held = self.context.holds.first(self.topic_partition)
        if held is not None and before > max(held, self.start_offset):
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"cannot delete records below {before}: those from {held} on are undelivered",
            )
        if before > self.start_offset:
            self.begin_at(before)
            self.context.events.publish((self,))
            self.context.events.start_moved()
        return self.start_offset

    def begin_at(self, start: Offset) -> None:
        """Set the start offset to `start`, trim the leader epochs, notify the listeners."""
        self.start_offset = start
        for listener in self.listeners:
            listener.log_readable()
        if self.epochs.truncate_from_start(start):
            self.save_epochs()

    def close(self, clean: bool = True) -> None:
        """Close all files; if `clean`, flush and write indexes first. Raises OSError."""
        if self.closed:
            return
        try:
            if clean and self.context.failure is None:
                self._close_clean()
        finally:
            self.closed = True
            self.release()

    def _close_clean(self) -> None:
        if self.snapshot_offset != self.end_offset:
            self.write_snapshot().close()
        active = self.segments.active
        if active.is_open or self.unflushed.segments:
            active.seal()
        work = self.flush_work()
        if self.flushed_offset < self.end_offset or work.sealed or work.directories:
            # Torn indexes and snapshots are detected by content at a start, and rebuilt.
            for path in work.directories:
                self.context.disk.sync_directory(path)
            for file in work.files:
                file.sync()
        for file in work.loose:
            file.close()
        self.flushed_offset = self.end_offset

    def retire(self) -> None:
        """Stop flushes and notifications, as the partition is being deleted. Files stay open."""
        self.closed = True
        self.listeners = ()

    def release(self) -> None:
        """Close the files of a log that is closed or retired."""
        self.unflushed.close()
        for segment in self.segments:
            segment.close()
