"""A partition's segment files, listed and read while a broker may write them.

Takes no locks and writes nothing. Files may appear and disappear: an open descriptor stays
readable, a segment that is missing when opened triggers a new listing, and a directory that is
missing or belongs to a recreated topic is an error.
"""

import os
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress

from headrace.log import file_names, text_files
from headrace.log.lookup import first_in
from headrace.log.producers.producer_states import ProducerStates
from headrace.log.segment.indexes import OffsetIndex, TimeIndex
from headrace.log.segment.scan import BadBatch, batches, headers
from headrace.log.segment.transaction_index import AbortedTransaction, read_entries
from headrace.log.text_files import read_file
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import Offset, TopicPartition
from headrace.posix.read_only_disk import ReadOnlyDisk, ReadOnlyFile
from headrace.record.batch import CONTROL, BatchHeader, parse_control, records

_DISK = ReadOnlyDisk()
_INDEX_BYTES_MAX = 1 << 31
_OFFSET_MAX = 1 << 62
_VANISHED_MAX = 100
_SWAP_WAIT_SECONDS = 0.02
_SWAP_WAITS_MAX = 250


class SegmentFile:
    """An open `.log` file. Reads all of its bytes; callers know up to which offset they are
    valid."""

    def __init__(self, directory: str, base_offset: int) -> None:
        """Open the file; FileNotFoundError if it does not exist."""
        self.directory = directory
        self.base_offset = Offset(base_offset)
        self.path = self._path(file_names.LOG)
        self.file = ReadOnlyFile(self.path)

    def _path(self, suffix: str) -> str:
        return f"{self.directory}/{file_names.segment_file(self.base_offset, suffix)}"

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def is_same_file(self, other: "SegmentFile") -> bool:
        """Return whether both are the same file on disk, whatever its current name."""
        return os.path.sameopenfile(self.file.fileno(), other.file.fileno())

    def position_of(self, offset: int) -> int:
        """Return the position of the first batch whose last offset is at least `offset`, else the
        size.

        BadBatch if bytes on the way are not a valid batch.
        """
        if offset <= self.base_offset:
            return 0
        size = self.file.size()
        for position, header in self._headers(self._indexed(offset), size):
            if header.base_offset + header.last_offset_delta >= offset:
                return position
        return size

    def _headers(self, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        return headers(self.file.read, start, end, self.path)

    def _index(self) -> OffsetIndex:
        return OffsetIndex(_DISK, self._path(file_names.INDEX), self.base_offset, _INDEX_BYTES_MAX)

    def _indexed(self, offset: int) -> int:
        """Return a byte position at or before the batch of an offset by the index; 0 if unknown."""
        index = self._index()
        with suppress(CorruptLogError, OSError):
            index.load()
            position = index.lookup(Offset(offset))
            # The broker writes a live index concurrently, and after a kill it may hold any bytes.
            header = self._batch_at(position)
            if header is not None and header.base_offset <= offset:
                return position
        return 0

    def _last_indexed(self) -> int:
        """Return the indexed position of the greatest offset, from the last entry alone if it is
        valid."""
        with suppress(CorruptLogError, OSError):
            last, position = self._index().peek()
            header = self._batch_at(position)
            if position and header and header.base_offset + header.last_offset_delta == last:
                return position
        return self._indexed(_OFFSET_MAX)

    def _batch_at(self, position: int) -> BatchHeader | None:
        """Return the header of the valid batch at this position.

        None at the end of the file. Raises CorruptLogError.
        """
        size = self.file.size()
        batch = next(batches(self.file.read, position, size, self.path, self.base_offset), None)
        return None if batch is None else batch.header

    def first_from_time(self, timestamp: int, start: int, end: int) -> int | None:
        """Return the first offset in [start, end) of a record with at least this timestamp, or
        None."""
        times = TimeIndex(
            _DISK, self._path(file_names.TIME_INDEX), self.base_offset, _INDEX_BYTES_MAX
        )
        near = self.base_offset
        with suppress(CorruptLogError, OSError):
            times.load()
            near = times.lookup(timestamp)[1]
        # One batch earlier: the entry's offset bounds older records, it is not a batch's start.
        position = self.position_of(max(near, start))
        for at, header in self._headers(position, self.file.size()):
            if header.base_offset >= end:
                return None
            if header.max_timestamp >= timestamp:
                record = first_in(self.file.read, self.path, at, header, timestamp, start)
                if record is not None:
                    return record[1] if record[1] < end else None
            if header.base_offset + header.last_offset_delta + 1 >= end:
                return None
        return None

    def end_offset(self) -> int:
        """Return the offset after the last batch, of a file that is not being written.

        Raises BadBatch.
        """
        end: int = self.base_offset
        for _, header in self._headers(self._last_indexed(), self.file.size()):
            end = header.base_offset + header.last_offset_delta + 1
        return end

    def aborted(self) -> list[AbortedTransaction]:
        """Return the aborted transactions in the `.txnindex`."""
        path = self._path(file_names.TXN_INDEX)
        content = read_file(_DISK, path)
        return read_entries(content, path) if content else []


class PartitionFiles:
    """The segment files of one partition at the last listing."""

    def __init__(self, log_dir: str, place: TopicPartition) -> None:
        """List the partition's directory; ApiError UNKNOWN_TOPIC_OR_PARTITION if it does not
        exist."""
        self.place = place
        self.directory = f"{log_dir}/{place}"
        self.topic_id = self._topic_id()
        self.bases: list[int] = []
        """Base offsets of the segments at the last listing."""
        self.list_again()

    def _topic_id(self) -> bytes:
        path = f"{self.directory}/{file_names.PARTITION_METADATA}"
        content = read_file(_DISK, path)
        if content is None:
            return text_files.NO_TOPIC_ID  # Kafka before 2.8 wrote no partition.metadata.
        return text_files.read_partition_metadata(content, path)

    def _gone(self, how: str) -> ApiError:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.directory} {how}")

    def list_again(self) -> None:
        """List the segments again. ApiError if the partition was deleted.

        Raises CorruptLogError.
        """
        for _ in range(_SWAP_WAITS_MAX):
            try:
                # A listing that races with a rename may miss the file under both its names.
                present = _DISK.list(self.directory)
                if present != _DISK.list(self.directory):
                    continue
            except FileNotFoundError:
                raise self._gone("does not exist (any more)") from None
            if self._topic_id() != self.topic_id:
                raise self._gone("belongs to another topic now: it was deleted and made again")
            files = [parsed for name in present if (parsed := file_names.parse_segment_file(name))]
            if not any(suffix.endswith(file_names.SWAP) for _, suffix in files):
                self.bases = sorted(base for base, suffix in files if suffix == file_names.LOG)
                return
            time.sleep(_SWAP_WAIT_SECONDS)  # A compaction is replacing segments.
        raise CorruptLogError(
            f"{self.directory}: a compaction was interrupted; start the broker once to settle it"
        )

    def segment_at(self, offset: int) -> SegmentFile | None:
        """Return the segment that holds `offset`, else the next one; None if there is no segment.

        ApiError if the partition was deleted.
        """
        for _ in range(_VANISHED_MAX):
            if not self.bases:
                return None
            base = self.bases[max(bisect_right(self.bases, offset) - 1, 0)]
            try:
                return SegmentFile(self.directory, base)
            except FileNotFoundError:
                self.list_again()
        raise CorruptLogError(f"{self.directory}: segments are listed and cannot be opened")

    def following(self, segment: SegmentFile, position: int) -> SegmentFile | None:
        """Return the segment to continue with at `position` after `segment` was read; None at the
        end.

        Usually the next segment. Compaction may have merged the following records into a file that
        now has this segment's name, or an earlier one's. ApiError if the partition was deleted.
        """
        self.list_again()
        # An empty segment leaves the position below its base offset: all before it has been read.
        next_segment = self.segment_at(max(position, segment.base_offset))
        if next_segment is None or next_segment.base_offset > segment.base_offset:
            return next_segment
        if not next_segment.is_same_file(segment):
            return next_segment
        next_segment.close()
        at = bisect_right(self.bases, segment.base_offset)
        return self.segment_at(self.bases[at]) if at < len(self.bases) else None

    def limit_of(self, segment: SegmentFile, end: int) -> int:
        """Return the base offset of the next known segment, or `end` after the last one."""
        at = bisect_right(self.bases, segment.base_offset)
        return self.bases[at] if at < len(self.bases) else end

    def end_offset(self) -> int:
        """Return the log end offset according to the files, after a clean shutdown.

        Raises BadBatch.
        """
        segment = self.segment_at(_OFFSET_MAX)
        if segment is None:
            return 0
        try:
            return segment.end_offset()
        finally:
            segment.close()

    def first_from_time(self, timestamp: int, start: int, end: int) -> int:
        """Return the offset of the first record in [start, end) with at least this timestamp, or
        `end`."""
        for segment in self.segments_from(start, end):
            offset = segment.first_from_time(timestamp, start, end)
            if offset is not None:
                return offset
        return end

    def aborted(self, start: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that end at or after `start`."""
        return [
            entry
            for segment in self.segments_from(start, 1 << 62)
            for entry in segment.aborted()
            if entry.last_offset >= start
        ]

    def segments_from(self, start: int, end: int) -> Iterator[SegmentFile]:
        """Yield the current segments with offsets in [start, end); each is closed after its
        turn."""
        segment = self.segment_at(start)
        while segment is not None:
            following = None
            try:
                if segment.base_offset < end:
                    yield segment
                    following = self.following(segment, self.limit_of(segment, end))
            finally:
                segment.close()
            segment = following

    def stable_offset(self, end: int) -> int:
        """Return the last stable offset, from the newest producer snapshot and the batches after
        it."""
        producers = ProducerStates()
        at = self._load_snapshot(producers, end)
        for segment in self.segments_from(at, end):
            if self._replay(producers, segment, at, end):
                break
        unstable = producers.first_unstable_offset()
        return end if unstable is None else min(unstable, end)

    def _load_snapshot(self, producers: ProducerStates, end: int) -> int:
        parsed = filter(None, map(file_names.parse_segment_file, _DISK.list(self.directory)))
        snapshots = [offset for offset, suffix in parsed if suffix == file_names.SNAPSHOT]
        for offset in sorted((offset for offset in snapshots if offset <= end), reverse=True):
            path = f"{self.directory}/{file_names.segment_file(offset, file_names.SNAPSHOT)}"
            with suppress(CorruptLogError):
                content = read_file(_DISK, path)
                if content is not None:
                    producers.kept.load(content, path)
                    return offset
        return self.bases[0] if self.bases else 0

    @staticmethod
    def _replay(producers: ProducerStates, segment: SegmentFile, start: int, end: int) -> bool:
        """Replay the segment's batches in [start, end) into `producers`; return whether `end` was
        reached."""
        fetch, size = segment.file.read, segment.file.size()
        position = segment.position_of(start)
        for at, header in headers(fetch, position, size, segment.path):
            if header.base_offset >= end:
                return True
            if header.producer_id >= 0 and header.base_offset >= start:
                if header.attributes & CONTROL:
                    view = next(batches(fetch, at, size, segment.path)).view
                    for record in records(view):
                        marker = parse_control(record)
                        producers.update_marker(header, marker, Offset(header.base_offset))
                else:
                    producers.update(header, header.base_offset)
            if header.base_offset + header.last_offset_delta + 1 >= end:
                return True
        return False


__all__ = ["BadBatch", "PartitionFiles", "SegmentFile"]
