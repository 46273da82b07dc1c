"""One partition's log: append, read, roll, flush, retain, truncate.

Life cycle: made by `recover.open_log` (which reads a directory) or `recover.create_log` (which
makes one); used on the deciding thread; `close`d once. Only `read_from_disk`, `offset_for_time`,
`max_timestamp_offset` and `aborted_transactions` may run elsewhere (`Disk.run`): they change
nothing but what they load.

Offsets: `start_offset` <= `high_watermark` <= `end_offset`; everything below `flushed_offset` is on
the platter. Nothing here waits for that: `Flusher` does, and says so through `on_flushed`.
"""

import logging
from bisect import bisect_right
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.config.topic import LogConfig
from headrace.log import files, lookup, names, retention, truncate
from headrace.log.epochs import LeaderEpochs
from headrace.log.producers import ProducerStates
from headrace.log.reader import NeedsDisk, ReadResult, read_batches
from headrace.log.scan import BadBatch, Fetch, NotCached, headers
from headrace.log.segment import Segment
from headrace.log.shared import Shared
from headrace.log.txnindex import AbortedTransaction
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode, StorageError
from headrace.model.invariant import invariant
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.wire.kafka.batch import (
    CONTROL,
    LOG_APPEND_TIME,
    BatchHeader,
    parse_control,
    records,
    stamp,
    stamp_append_time,
)
from headrace.world.disk import Buffer, DiskFile

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Appended", "FlushWork", "Log", "NeedsDisk", "Origin", "ReadResult"]

_logger = logging.getLogger(__name__)
_ENDS_MAX = 64


class Origin(Enum):
    """Whose batch it is: decides which of the topic's limits are asked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class Appended(NamedTuple):
    """Where a batch lies now."""

    base_offset: Offset
    last_offset: Offset
    append_time_ms: int
    """The broker's time where the topic stamps it (LogAppendTime), else -1."""


class FlushWork(NamedTuple):
    """What must reach the platter so that everything below `upto` is there."""

    files: list[DiskFile]
    directories: list[str]
    """Directories whose entries must be durable too, before the files count."""
    upto: Offset
    sealed: list[Segment]
    loose: list[DiskFile]
    """Small files, closed once they are flushed."""


class Log:
    """A partition's log. See the module for who may call what, and when."""

    def __init__(
        self,
        shared: Shared,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
    ) -> None:
        """An empty shell, filled by `recover`."""
        self.shared = shared
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        """May be set at any time; takes effect with the next append or retention."""
        self.start_offset = Offset(0)
        self.end_offset = Offset(0)
        self.flushed_offset = Offset(0)
        self.high_watermark = Offset(0)
        """The partition's to move; kept here for its checkpoint, and retention stays below it."""
        self.on_flushed: Callable[[Offset], None] | None = None
        """Told the new `flushed_offset` after every flush."""
        self.producers = ProducerStates()
        self.closed = False
        self.snapshot_offset = Offset(-1)
        """Offset of the newest `.snapshot` there is."""
        self.last_flush_ms = 0
        self._epochs = LeaderEpochs()
        self._epoch = -1
        self.segments: list[Segment] = []
        self._bases: list[Offset] = []
        self._sealed: list[tuple[Segment, list[DiskFile]]] = []
        self._loose: list[DiskFile] = []
        self._new_directories: list[str] = []
        self._ends: dict[int, tuple[Segment, int]] = {}
        self._reported: set[str] = set()

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.start_offset}..{self.end_offset})"

    # --- append ------------------------------------------------------------------------------

    def append(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
    ) -> Appended:
        """Append one checked batch: stamped in place, written at once, flushed later.

        `batch` must be writable and is not kept. Updates the producer's state; whether the batch is
        a duplicate or out of order, `producers.check` says, before.

        ApiError: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP: nothing was written.
        StorageError: the directory has failed, now or before; whether the batch is in the log is
        not known, it was not acknowledged and will not be read.
        """
        shared = self.shared
        if shared.failure is not None:
            raise shared.failure
        config = self.config
        size = len(batch)
        if size > config.max_message_bytes or size > config.segment_bytes:
            self._refuse_size(size)
        append_time = -1
        if config.message_timestamp_type == "LogAppendTime":
            header = stamp_append_time(batch, now_ms)
            append_time = now_ms
        elif origin is Origin.CLIENT:
            newest = header.max_timestamp
            if (
                newest - now_ms > config.message_timestamp_after_max_ms
                or now_ms - header.base_timestamp > config.message_timestamp_before_max_ms
                or header.attributes & LOG_APPEND_TIME
            ):
                self._refuse_timestamp(header, now_ms)
        base = self.end_offset
        last = base + header.last_offset_delta
        newest = header.max_timestamp
        active = self.segments[-1]
        if active.should_roll(size, last, newest, config.segment_bytes, config.segment_ms):
            active = self.roll()
        if leader_epoch != self._epoch:
            self.assign_epoch(leader_epoch, base)
        stamp(batch, base, leader_epoch)
        try:
            active.append((batch,), size, last, newest, config.index_interval_bytes)
        except OSError as error:
            raise self._append_failed(active, error) from error
        if header.producer_id >= 0:
            self._note_producer(batch, header, base, active)
        self.end_offset = following = Offset(last + 1)
        if following - self.flushed_offset >= config.flush_messages and shared.flush_soon:
            shared.flush_soon(self)
        return Appended(base, Offset(last), append_time)

    def _refuse_size(self, size: int) -> None:
        if size > self.config.max_message_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {size} bytes, max.message.bytes is {self.config.max_message_bytes}",
            )
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes, segment.bytes is {self.config.segment_bytes}",
        )

    def _refuse_timestamp(self, header: BatchHeader, now_ms: int) -> None:
        if header.attributes & LOG_APPEND_TIME:
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP, "only the broker sets the LogAppendTime bit"
            )
        # Without a timestamp (-1) there is nothing to be out of bounds.
        ahead = header.max_timestamp - now_ms > self.config.message_timestamp_after_max_ms
        if header.base_timestamp >= 0 or ahead:
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamps {header.base_timestamp} to {header.max_timestamp} are out of the "
                f"topic's bounds at {now_ms}",
            )

    def _append_failed(self, segment: Segment, error: OSError) -> StorageError:
        """Take back what a failed write left, as far as the disk lets us, and fence."""
        path = segment.path(names.LOG)
        try:
            segment.file.truncate(segment.size)
        except OSError:
            _logger.error("%s: could not be cut back to %d bytes", path, segment.size)
        return self.shared.fail(error, path)

    def _note_producer(
        self, batch: Buffer, header: BatchHeader, base: Offset, segment: Segment
    ) -> None:
        if not header.attributes & CONTROL:
            self.producers.update(header, base)
            return
        marker = parse_control(next(iter(records(batch))))
        aborted = self.producers.update_marker(header, marker, base)
        if aborted is not None:
            try:
                segment.txn_index.append(aborted)
            except OSError as error:
                raise self.shared.fail(error, segment.txn_index.path) from error

    # --- epochs ------------------------------------------------------------------------------

    @property
    def epochs(self) -> LeaderEpochs:
        """Which epoch began where. Changed through `assign_epoch` only."""
        return self._epochs

    def assign_epoch(self, epoch: LeaderEpoch, start: Offset) -> None:
        """Note that `epoch` begins at `start`; durable before a batch of it counts as flushed."""
        if self._epochs.assign(epoch, start):
            self.save_epochs()
        self._epoch = epoch

    def save_epochs(self) -> None:
        """Replace `leader-epoch-checkpoint`; durable with the next flush. StorageError."""
        try:
            self.write_beside(names.LEADER_EPOCHS, files.write_epochs(self._epochs.entries))
        except OSError as error:
            raise self.shared.fail(error, self.directory) from error

    def set_epochs(self, epochs: LeaderEpochs) -> None:
        """Take over epochs that are known."""
        self._epochs = epochs
        self._epoch = epochs.latest

    def write_beside(self, name: str, content: bytes) -> None:
        """Replace a small file of the directory without waiting; durable with the next flush.

        A power cut before that may leave it torn: what is written so can be told from the log or
        from the metadata store, and a kill of the process does it no harm. OSError.
        """
        disk = self.shared.disk
        path = f"{self.directory}/{name}"
        file = disk.open(f"{path}.tmp", create=True)
        file.truncate(0)
        file.write_at(0, (content,))
        disk.rename(f"{path}.tmp", path)
        self._loose.append(file)
        self.directory_changed(self.directory)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The greatest epoch not above `epoch` and its end; (-1, -1) where it is not known."""
        return self._epochs.end_offset_for(epoch, self.end_offset)

    def adopt_topic_id(self, topic_id: bytes) -> None:
        """Write `partition.metadata` where a directory came without (older than Kafka 2.8)."""
        self.write_beside(names.PARTITION_METADATA, files.write_partition_metadata(topic_id))
        self.topic_id = topic_id

    # --- read --------------------------------------------------------------------------------

    def read(
        self, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
    ) -> ReadResult | NeedsDisk:
        """Whole batches from the one that holds `offset` on, all of them below `below`.

        At most `max_bytes` of them, yet the first one whatever its size if `at_least_one`. Empty
        where there is nothing below `below` yet. From the page cache only.

        ApiError: OFFSET_OUT_OF_RANGE outside start..end, KAFKA_STORAGE_ERROR for bytes that are not
        what was written (said once in the log, with file and position).
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise self._out_of_range(offset)
        if offset >= below:
            return ReadResult(b"", offset)
        try:
            return self._read(offset, max_bytes, below, at_least_one, True)
        except NotCached:
            return NeedsDisk(offset)

    def read_from_disk(
        self, offset: Offset, max_bytes: int, *, below: Offset, at_least_one: bool = True
    ) -> ReadResult:
        """`read`, waiting for the disk. For `Disk.run`."""
        if offset < self.start_offset or offset > self.end_offset:
            raise self._out_of_range(offset)
        if offset >= below:
            return ReadResult(b"", offset)
        return self._read(offset, max_bytes, below, at_least_one, False)

    def _out_of_range(self, offset: Offset) -> ApiError:
        return ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.topic_partition} holds {self.start_offset} to {self.end_offset}, not {offset}",
        )

    def _read(
        self, offset: Offset, max_bytes: int, below: Offset, at_least_one: bool, cached: bool
    ) -> ReadResult:
        try:
            place = self._ends.get(offset) or self._find(offset, cached)
            if place is None:
                return ReadResult(b"", offset)
            segment, position = place
            file = segment.file
            fetch: Fetch = file.read_cached if cached else file.read
            data, following = read_batches(
                segment, position, offset, max_bytes, below, at_least_one, fetch
            )
        except BadBatch as error:
            raise self.unreadable(error) from error
        if data:
            self._remember_end(following, segment, position + len(data))
        return ReadResult(data, following)

    def _find(self, offset: Offset, cached: bool) -> tuple[Segment, int] | None:
        segments = self.segments
        at = max(bisect_right(self._bases, offset) - 1, 0)
        while at < len(segments):
            segment = segments[at]
            if segment.size:
                file = segment.file
                found = segment.find(offset, file.read_cached if cached else file.read)
                if found is not None:
                    return segment, found[0]
            at += 1
        return None

    def _remember_end(self, following: Offset, segment: Segment, position: int) -> None:
        """Readers go on where they ended: they need no index then."""
        ends = self._ends
        if position >= segment.size and segment is not self.segments[-1]:
            return
        if len(ends) >= _ENDS_MAX:
            ends.clear()
        ends[following] = (segment, position)

    def unreadable(self, error: CorruptLogError) -> ApiError:
        """Say once what is damaged; returns what the client is told."""
        text = str(error)
        if text not in self._reported:
            self._reported.add(text)
            _logger.error("%s: damaged, not served: %s", self.topic_partition, text)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the data at this offset is damaged")

    # --- search ------------------------------------------------------------------------------

    def offset_for_time(self, timestamp: int) -> tuple[int, Offset, LeaderEpoch] | None:
        """(timestamp, offset, epoch) of the first record not older than `timestamp`; blocking.

        Record by record inside the batch that holds it, which is decompressed for it.
        """
        return lookup.offset_for_time(self, timestamp)

    def max_timestamp_offset(self) -> tuple[int, Offset, LeaderEpoch] | None:
        """(timestamp, offset, epoch) of the newest record (KIP-734), or None; blocking."""
        return lookup.max_timestamp_offset(self)

    def aborted_transactions(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """Aborted transactions with records in [start, end), for readers of committed data."""
        return lookup.aborted_transactions(self, start, end)

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Where readers of committed data end."""
        return self.producers.last_stable_offset(high_watermark)

    def first_unstable_offset(self) -> Offset | None:
        """First offset of the oldest open transaction."""
        return self.producers.first_unstable_offset()

    # --- roll and flush ----------------------------------------------------------------------

    def roll(self) -> Segment:
        """Close the active segment for good and begin a new one at the log's end. StorageError."""
        active = self.segments[-1]
        invariant(active.size > 0, f"{active!r}: an empty segment is not rolled")
        try:
            self._sealed.append((active, active.seal()))
            snapshot = self.write_snapshot()
            self._sealed[-1][1].append(snapshot)
            segment = self.new_segment(self.end_offset)
        except OSError as error:
            raise self.shared.fail(error, self.directory) from error
        return segment

    def make_segment(self, base: Offset) -> Segment:
        """A Segment of this log, its files not touched yet."""
        config = self.config
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        return Segment(
            self.shared.disk,
            self.directory,
            base,
            index_bytes_max=config.segment_index_bytes,
            jitter_ms=int(self.shared.random.uniform(0, jitter)) if jitter > 0 else 0,
        )

    def new_segment(self, base: Offset) -> Segment:
        """Begin an empty segment behind all others. OSError."""
        segment = self.make_segment(base)
        segment.create()
        self.segments.append(segment)
        self._bases.append(base)
        # Who read up to the old segment's end goes on in this one.
        self._ends.clear()
        self.directory_changed(self.directory)
        return segment

    def set_segments(self, segments: list[Segment]) -> None:
        """Take over segments that are there, oldest first."""
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._ends.clear()

    def directory_changed(self, directory: str) -> None:
        """The next flush makes the entries of `directory` durable first."""
        if directory not in self._new_directories:
            self._new_directories.append(directory)

    def write_snapshot(self) -> DiskFile:
        """Write the `.snapshot` of the log's end; returns it open, to be flushed. OSError."""
        name = names.segment_file(self.end_offset, names.SNAPSHOT)
        file = self.shared.disk.open(f"{self.directory}/{name}", create=True)
        content = self.producers.snapshot()
        file.truncate(0)
        file.write_at(0, (content,))
        self.snapshot_offset = self.end_offset
        return file

    def flush_work(self) -> FlushWork:
        """What to flush now; hand it back to `flushed` when that is done."""
        found = [file for _, sealed in self._sealed for file in sealed]
        loose, self._loose = self._loose, []
        found += loose
        active = self.segments[-1]
        if active.is_open:
            found.append(active.file)
            if active.txn_index.open_file is not None:
                found.append(active.txn_index.open_file)
        sealed = [segment for segment, _ in self._sealed]
        directories, self._new_directories = self._new_directories, []
        return FlushWork(found, directories, self.end_offset, sealed, loose)

    def flushed(self, work: FlushWork, now_ms: int = 0) -> None:
        """`work` is on the platter: move `flushed_offset`, and tell."""
        for file in work.loose:
            file.close()
        if self.closed:
            return
        self.last_flush_ms = now_ms
        if work.sealed:
            for segment, opened in self._sealed:
                if segment in work.sealed:
                    opened[-1].close()
                    segment.close_indexes()
            self._sealed = [pair for pair in self._sealed if pair[0] not in work.sealed]
        if work.upto > self.flushed_offset and work.upto <= self.end_offset:
            self.flushed_offset = work.upto
        if self.on_flushed is not None:
            self.on_flushed(self.flushed_offset)

    # --- shorten -----------------------------------------------------------------------------

    def apply_retention(self, now_ms: int, hold: Offset | None = None) -> int:
        """Delete what time and size say, nothing at or beyond `hold`; returns segments deleted."""
        return retention.apply_retention(self, now_ms, hold)

    def delete_records(self, before: Offset) -> Offset:
        """Move the log's start to `before` (at most the high watermark); returns the new start.

        The offset is durable with the next checkpoint, which the directory makes at once.
        ApiError: OFFSET_OUT_OF_RANGE.
        """
        return retention.delete_records(self, before)

    def truncate_to(self, offset: Offset) -> None:
        """Cut everything from the batch that holds `offset` on. Blocking; StorageError.

        For followers, by leader epoch only.
        """
        truncate.truncate_to(self, offset)

    def floor_of(self, offset: Offset) -> Offset:
        """Base offset of the batch that holds `offset`; blocking."""
        place = self._find(offset, False)
        if place is None:
            return offset
        for _, header in headers(place[0].file.read, place[1], place[0].size, self.directory):
            return Offset(min(header.base_offset, offset))
        return offset

    def drop_segments(self, count: int) -> list[Segment]:
        """Take the oldest `count` segments out of the log; renames and removal are the caller's."""
        gone = self.segments[:count]
        del self.segments[:count]
        del self._bases[:count]
        self._ends.clear()
        return gone

    def forget_unflushed(self, gone: list[Segment]) -> None:
        """Segments that are about to go need no flush any more."""
        kept = []
        for segment, opened in self._sealed:
            if segment in gone:
                opened[-1].close()
            else:
                kept.append((segment, opened))
        self._sealed = kept

    def forget_positions(self) -> None:
        """Readers' remembered positions are void."""
        self._ends.clear()

    # --- end ---------------------------------------------------------------------------------

    def close(self, clean: bool = True) -> None:
        """Close every file. If `clean`: complete the indexes, snapshot and flush first. OSError."""
        if self.closed:
            return
        try:
            if clean and self.shared.failure is None:
                self._close_clean()
        finally:
            self.closed = True
            for _, opened in self._sealed:
                opened[-1].close()
            self._sealed.clear()
            for file in self._loose:
                file.close()
            self._loose.clear()
            for segment in self.segments:
                segment.close()

    def _close_clean(self) -> None:
        if self.snapshot_offset != self.end_offset:
            self.write_snapshot().close()
        active = self.segments[-1]
        if active.is_open or self._sealed:
            active.seal()
        work = self.flush_work()
        if self.flushed_offset < self.end_offset or work.sealed or work.directories:
            # Indexes and snapshots that a power cut tears are told by their content, and rebuilt.
            for path in work.directories:
                self.shared.disk.sync_directory(path)
            for file in work.files:
                file.sync()
        for file in work.loose:
            file.close()
        self.flushed_offset = self.end_offset

    def retire(self) -> None:
        """The partition is being deleted: nothing more is flushed or told. Files stay open."""
        self.closed = True
        self.on_flushed = None

    def release(self) -> None:
        """Close the files of a retired log."""
        for file in self._loose:
            file.close()
        self._loose.clear()
        self.forget_unflushed(self.segments)
        for segment in self.segments:
            segment.close()
