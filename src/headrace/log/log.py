"""One partition's log: append, read, roll, flush, retain, truncate.

Life cycle: made by `recover.open_log` (which reads a directory) or `recover.create_log` (which
makes one); used on the deciding thread; `close`d once. Only `read_from_disk`, `serve_from_disk`,
`offset_for_time`, `max_timestamp_offset` and `aborted_transactions` may run elsewhere
(`Disk.run`): they change nothing but what they load.

Offsets: `start_offset` <= `high_watermark` <= `end_offset`; everything below `flushed_offset` is on
the platter. Nothing here waits for that: `Flusher` does, and says so through `on_flushed`.
"""

import logging
from typing import NamedTuple

from headrace.log import batch_limits, file_names, retention, text_files, truncation
from headrace.log.batch_limits import Origin
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.producers.kept_states import BATCHES_KEPT
from headrace.log.readable_log import ReadableLog
from headrace.log.segment.batch_reader import NeedsDisk, ReadResult
from headrace.log.segment.segment import Segment
from headrace.log.segment.served_ranges import Served
from headrace.log.unflushed import FlushWork
from headrace.model.errors import StorageError
from headrace.model.invariant import invariant
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.ports.disk import DiskFile
from headrace.record.batch import (
    CONTROL,
    BatchHeader,
    ControlMarker,
    parse_control,
    records,
    stamp,
    stamp_append_time,
)

__all__ = ["Appended", "FlushWork", "Log", "NeedsDisk", "Origin", "ReadResult", "Served"]

_logger = logging.getLogger(__name__)
_new = tuple.__new__


class Appended(NamedTuple):
    """Where a batch lies now."""

    base_offset: Offset
    last_offset: Offset
    append_time_ms: int
    """The broker's time where the topic stamps it (LogAppendTime), else -1."""


class Log(ReadableLog):
    """A partition's log. See the module for who may call what, and when."""

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
        if self.shared.failure is not None:
            raise self.shared.failure
        config = self.config
        size = len(batch)
        append_time = -1
        stamped = config.message_timestamp_type == "LogAppendTime"
        timed = origin is Origin.CLIENT and not stamped
        if not (
            batch_limits.takes(config, size, header, now_ms)
            if timed
            else batch_limits.fits(config, size)
        ):
            batch_limits.refuse(config, size, header, now_ms)
        if stamped:
            header = stamp_append_time(batch, now_ms)
            append_time = now_ms
        base = self.end_offset
        last = base + header.last_offset_delta
        newest = header.max_timestamp
        active = self.segments[-1]
        if active.should_roll(size, last, newest, config.segment_bytes, config.segment_ms):
            active = self.roll()
        if leader_epoch != self._epoch:
            self.assign_epoch(leader_epoch, base)
        stamp(batch, base, leader_epoch)
        marker = None
        if header.attributes & CONTROL and header.producer_id >= 0:
            marker = parse_control(next(iter(records(batch))))
            self._index_abort(marker, header, base, active)
        try:
            active.append((batch,), size, last, newest, config.index_interval_bytes)
        except OSError as error:
            raise self._append_failed(active, error) from error
        if marker is not None:
            self.producers.update_marker(header, marker, base)
        elif header.producer_id >= 0:
            self.producers.update(header, base, now_ms)
        self._ends_at(last + 1)
        appended: Appended = _new(Appended, (base, last, append_time))
        return appended

    def append_run(
        self,
        batches: list[memoryview],
        headers: list[BatchHeader],
        leader_epoch: LeaderEpoch,
        now_ms: int,
    ) -> int:
        """Append a client's batches at once, as `append` would one by one; how many of them.

        From the first one up to the first that may need more than being written: a refusal, a new
        segment, another time. Whatever is not taken is as it was: `append` it. The batches are of
        one producer, or of none.
        """
        config = self.config
        active = self.segments[-1]
        if (
            self.shared.failure is not None
            or config.message_timestamp_type == "LogAppendTime"
            or leader_epoch != self._epoch
            or not active.room_for(len(batches))
        ):
            return 0
        size = 0
        last = self.end_offset - 1
        lasts: list[int] = []
        newest: list[int] = []
        for batch, header in zip(batches, headers, strict=True):
            length = len(batch)
            if not batch_limits.takes(config, length, header, now_ms):
                break
            size += length
            last += header[6] + 1
            lasts.append(last)
            newest.append(header[8])
        taken = len(lasts)
        if taken == 0 or active.should_roll(
            size, last, max(newest), config.segment_bytes, config.segment_ms
        ):
            return 0
        batches, headers = batches[:taken], headers[:taken]
        for batch, header, end in zip(batches, headers, lasts, strict=True):
            stamp(batch, end - header[6], leader_epoch)
        try:
            active.append_run(batches, size, lasts, newest, config.index_interval_bytes)
        except OSError as error:
            self._append_failed(active, error)  # fenced: `append` will say so
            for batch in batches:
                stamp(batch, 0, leader_epoch)
            return 0
        self._note_run(headers, lasts, now_ms)
        self._ends_at(last + 1)
        return taken

    def _note_run(self, headers: list[BatchHeader], lasts: list[int], now_ms: int) -> None:
        if headers[0].producer_id >= 0:
            for header, end in zip(headers[-BATCHES_KEPT:], lasts[-BATCHES_KEPT:], strict=True):
                self.producers.update(header, end - header[6], now_ms)

    def _ends_at(self, following: int) -> None:
        """What was appended is in the log."""
        self.end_offset = Offset(following)
        if following - self.flushed_offset >= self.config.flush_messages:
            soon = self.shared.flush_soon
            if soon is not None:
                soon(self)

    def _append_failed(self, segment: Segment, error: OSError) -> StorageError:
        """Take back what a failed write left, as far as the disk lets us, and fence."""
        path = segment.path(file_names.LOG)
        try:
            segment.file.truncate(segment.size)
        except OSError:
            _logger.error("%s: could not be cut back to %d bytes", path, segment.size)
        return self.shared.fail(error, path)

    def _index_abort(
        self, marker: ControlMarker, header: BatchHeader, base: Offset, segment: Segment
    ) -> None:
        """Write the `.txnindex` entry of a marker that aborts, ahead of the marker. StorageError.

        So that no marker is in the log of which nobody was told. An entry whose marker could not be
        written is harmless: its transaction is open, and the next start builds the file again.
        """
        aborted = self.producers.aborted_by(header, marker, base)
        if aborted is None:
            return
        if not segment.txn_index.entries:
            self.unflushed.add_directory(self.directory)  # its file is made now
        try:
            segment.txn_index.append(aborted)
        except OSError as error:
            raise self.shared.fail(error, segment.txn_index.path) from error

    # --- epochs ------------------------------------------------------------------------------

    def assign_epoch(self, epoch: LeaderEpoch, start: Offset) -> None:
        """Note that `epoch` begins at `start`; durable before a batch of it counts as flushed."""
        if self._epochs.assign(epoch, start):
            self.save_epochs()
        self._epoch = epoch

    def save_epochs(self) -> None:
        """Replace `leader-epoch-checkpoint`; durable with the next flush. StorageError."""
        try:
            self.write_beside(
                file_names.LEADER_EPOCHS, text_files.write_epochs(self._epochs.entries)
            )
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
        self.unflushed.add_file(file)
        self.unflushed.add_directory(self.directory)

    def adopt_topic_id(self, topic_id: bytes) -> None:
        """Write `partition.metadata` where a directory came without (older than Kafka 2.8)."""
        self.write_beside(
            file_names.PARTITION_METADATA, text_files.write_partition_metadata(topic_id)
        )
        self.topic_id = topic_id

    # --- roll and flush ----------------------------------------------------------------------

    def roll(self) -> Segment:
        """Close the active segment for good and begin a new one at the log's end. StorageError."""
        active = self.segments[-1]
        invariant(active.size > 0, f"{active!r}: an empty segment is not rolled")
        try:
            self.unflushed.add_segment(active, [*active.seal(), self.write_snapshot()])
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

    def new_segment(self, base: Offset, *, fresh: bool = False) -> Segment:
        """Begin an empty segment behind all others; `fresh`: in a new directory. OSError."""
        segment = self.make_segment(base)
        segment.create(fresh=fresh)
        self.segments.append(segment)
        self._bases.append(base)
        # Who read up to the old segment's end goes on in this one.
        self._ends.clear()
        self.unflushed.add_directory(self.directory)
        return segment

    def set_segments(self, segments: list[Segment]) -> None:
        """Take over segments that are there, oldest first."""
        # Readers on other threads take `segments` first: with the old list and the new bases they
        # begin too early at worst, never too late.
        self._bases = [segment.base_offset for segment in segments]
        self.segments = segments
        self._ends.clear()

    def write_snapshot(self) -> DiskFile:
        """Write the `.snapshot` of the log's end; returns it open, to be flushed. OSError."""
        name = file_names.segment_file(self.end_offset, file_names.SNAPSHOT)
        file = self.shared.disk.open(f"{self.directory}/{name}", create=True)
        content = self.producers.snapshot()
        file.truncate(0)
        file.write_at(0, (content,))
        self.snapshot_offset = self.end_offset
        return file

    def flush_work(self) -> FlushWork:
        """What to flush now; hand it back to `flushed` when that is done."""
        return self.unflushed.work(
            self.segments[-1].written_files, self.end_offset, self.truncations
        )

    def flushed(self, work: FlushWork, now_ms: int = 0) -> None:
        """`work` is on the platter: move `flushed_offset`, and say so through `on_flushed`."""
        for file in work.loose:
            file.close()
        if self.closed:
            return
        self.last_flush_ms = now_ms
        if work.sealed:
            self.unflushed.settled(work)
        if self.flushed_offset < work.upto and work.truncations == self.truncations:
            self.flushed_offset = work.upto
        if self.on_flushed is not None:
            self.on_flushed(self.flushed_offset)

    def publish(self) -> None:
        """Let readers of the files go as far as the high watermark and the flush allow now."""
        if self.shared.publish is not None:
            self.shared.publish((self,))

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
        truncation.truncate_to(self, offset)

    def drop_segments(self, count: int) -> list[Segment]:
        """Take the oldest `count` segments out of the log; renames and removal are the caller's."""
        gone = self.segments[:count]
        self.set_segments(self.segments[count:])
        return gone

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
            self.unflushed.close()
            for segment in self.segments:
                segment.close()

    def _close_clean(self) -> None:
        if self.snapshot_offset != self.end_offset:
            self.write_snapshot().close()
        active = self.segments[-1]
        if active.is_open or self.unflushed.segments:
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
        self.on_flushed = self.on_readable = None

    def release(self) -> None:
        """Close the files of a retired log."""
        self.unflushed.close()
        for segment in self.segments:
            segment.close()
