"""`Segment`: a `.log` file that begins at a base offset, with its indexes.

The owner decides when to roll, flush or delete a segment. Files are opened at their first use;
indexes are loaded by the first search.
"""

import logging
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from headrace.log import file_names
from headrace.log.segment import find_batch
from headrace.log.segment.indexes import NO_TIMESTAMP, RELATIVE_OFFSET_MAX, OffsetIndex, TimeIndex
from headrace.log.segment.scan import BadBatch, Fetch, headers
from headrace.log.segment.segment_summary import Swept
from headrace.log.segment.transaction_index import TxnIndex
from headrace.log.segment.verified_bytes import Sound
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, Position
from headrace.ports.disk import Buffer, Disk, DiskFile
from headrace.record.batch import BatchHeader

_logger = logging.getLogger(__name__)
NOT_KNOWN: Final = -2
"""Stored in place of a greatest timestamp that has not been read from the segment."""


class Segment:
    """A part of a partition's log: one `.log` file of `size` valid bytes, with its indexes."""

    __slots__ = (
        "_disk", "_doubted", "_file", "_index_bytes_max", "_indexes", "_max_known",
        "_max_timestamp", "_max_timestamp_offset", "_sound", "base_offset", "bytes_since_index",
        "directory", "entries_due", "first_timestamp", "jitter_ms", "size", "suffix", "suspect",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: Offset,
        *,
        index_bytes_max: int,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        self._disk = disk
        self._file: DiskFile | None = None
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        """`.deleted` once the segment is deleted, `.cleaned` while compaction writes it, else
        empty."""
        self.size = 0
        self.suspect = False
        """Whether damage was found: batches are then verified before their size is announced."""
        self._index_bytes_max = index_bytes_max
        self._indexes: tuple[OffsetIndex, TimeIndex, TxnIndex] | None = None
        self.bytes_since_index = 0
        self.entries_due = False
        """Whether index entries were added since the last `write_out_indexes`."""
        self.first_timestamp: int | None = None
        """Greatest timestamp of the first batch, from which segment.ms counts; None if unknown."""
        self.jitter_ms = jitter_ms
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._max_known = False
        self._doubted = False
        self._sound: Sound | None = None

    def __repr__(self) -> str:
        return f"Segment({self.path(file_names.LOG)!r}, {self.size} bytes)"

    def path(self, suffix: str) -> str:
        """Return the path of the segment's file with that suffix."""
        return f"{self.directory}/{file_names.segment_file(self.base_offset, suffix)}{self.suffix}"

    def _made(self) -> tuple[OffsetIndex, TimeIndex, TxnIndex]:
        """Return the indexes, created at first use: most segments never need them."""
        made = self._indexes
        if made is None:
            disk, base, most = self._disk, self.base_offset, self._index_bytes_max
            made = self._indexes = (
                OffsetIndex(disk, self.path(file_names.INDEX), base, most),
                TimeIndex(disk, self.path(file_names.TIME_INDEX), base, most),
                TxnIndex(disk, self.path(file_names.TXN_INDEX)),
            )
        return made

    @property
    def sound(self) -> Sound:
        """Bytes of the `.log` verified by CRC. For the deciding thread."""
        sound = self._sound
        if sound is None:
            sound = self._sound = Sound()
        return sound

    @property
    def index(self) -> OffsetIndex:
        """The `.index`: offset to file position."""
        return (self._indexes or self._made())[0]

    @property
    def time_index(self) -> TimeIndex:
        """The `.timeindex`: timestamp to offset."""
        return (self._indexes or self._made())[1]

    @property
    def txn_index(self) -> TxnIndex:
        """The `.txnindex`: aborted transactions."""
        return (self._indexes or self._made())[2]

    @property
    def txn_file(self) -> DiskFile | None:
        """The open `.txnindex` if it was written to, else None."""
        return None if self._indexes is None else self._indexes[2].open_file

    @property
    def file(self) -> DiskFile:
        """The `.log` file, opened at first use."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path(file_names.LOG))
        return file

    @property
    def written_files(self) -> Sequence[DiskFile]:
        """The open files that a flush must include; not the indexes, which can be rebuilt."""
        if self._file is None:
            return ()
        txn_file = self.txn_file
        return (self._file,) if txn_file is None else (self._file, txn_file)

    @property
    def is_open(self) -> bool:
        """Whether the `.log` file is open."""
        return self._file is not None

    # --- making and loading ------------------------------------------------------------------

    def create(self, *, fresh: bool = False) -> None:
        """Create the `.log` of a new, empty segment; index files are created with its first batch.

        `fresh`: the directory is new, so no old file can exist.
        """
        self._file = self._disk.open(self.path(file_names.LOG), create=True)
        if not fresh and self._file.size():
            self._file.truncate(0)
        self.index.reset(fresh=fresh)
        self.time_index.reset(fresh=fresh)
        if not fresh:
            self.txn_index.reset()
        self._max_known = True
        self.sound.appended_from(0)

    def load_size(self) -> None:
        """Set `size` from the length of the `.log` file; leave the file closed if it was."""
        if self._file is not None:
            self.size = self._file.size()
            return
        with closing(self._disk.open(self.path(file_names.LOG), writable=False)) as file:
            self.size = file.size()

    def load_indexes(self) -> None:
        """Load both indexes; rebuild them if they are missing or invalid."""
        if self.index.loaded and self.time_index.loaded:
            return
        try:
            self.index.load()
            self.time_index.load()
            find_batch.check_indexes(self)
        except CorruptLogError:
            self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Rebuild both indexes from the batch headers. On BadBatch they are unchanged."""
        path = self.path(file_names.LOG)
        self.take_swept(Swept.of(self.file.read, self.size, path, self.base_offset))
        self.write_out_indexes()

    def take_swept(self, swept: Swept) -> None:
        """Set the indexes, timestamps and counters from the result of a sweep.

        The last timestamp gets an entry, as when the segment is sealed.
        """
        swept.note_time(swept.max_timestamp, swept.max_timestamp_offset)
        self.index.fill(swept.offsets, swept.positions)
        self.time_index.fill(swept.times, swept.time_offsets)
        self.bytes_since_index = swept.bytes_since_index
        self.first_timestamp = swept.first_timestamp
        self._max_timestamp = swept.max_timestamp
        self._max_timestamp_offset = swept.max_timestamp_offset
        self._max_known = True

    # --- appending ---------------------------------------------------------------------------

    def append(
        self, parts: Sequence[Buffer], size: int, last_offset: int, max_timestamp: int, every: int
    ) -> None:
        """Append one batch; add an index entry if more than `every` bytes have none.

        OSError: nothing counts as appended.
        """
        position = self.size
        (self._file or self.file).write_at(position, parts)
        if max_timestamp > self._max_timestamp or self.bytes_since_index > every or not position:
            self.note(last_offset, max_timestamp, position, every)
        self.bytes_since_index += size
        self.size = position + size

    def append_run(
        self, batches: Sequence[Buffer], size: int, last_offsets: Sequence[int],
        newest: Sequence[int], every: int,
    ) -> None:  # fmt: skip
        """Append several batches, `size` bytes in all; `room_for` has returned True for them."""
        position = self.size
        (self._file or self.file).write_at(position, batches)
        for batch, last_offset, timestamp in zip(batches, last_offsets, newest, strict=True):
            if timestamp > self._max_timestamp or self.bytes_since_index > every:
                self.note(last_offset, timestamp, position, every)
            length = len(batch)
            self.bytes_since_index += length
            position += length
        self.size += size

    def room_for(self, batches: int) -> bool:
        """Return whether `batches` more index entries fit, without loading the indexes.

        False for an empty segment: `append` must note its first batch's timestamp for segment.ms.
        """
        indexes = self._indexes
        if self.size == 0 or indexes is None or not self._max_known:
            return False
        offsets, times, _ = indexes
        return offsets.loaded and times.loaded and min(offsets.room, times.room) >= batches

    def note(self, last_offset: int, max_timestamp: int, position: int, every: int) -> None:
        """Update the timestamps and indexes for a batch at byte `position`. Raises OSError.

        The caller writes the batch and adds its size to the counters.
        """
        if position == 0:
            self.first_timestamp = max_timestamp
            self.index.make_file()
            self.time_index.make_file()
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = Offset(last_offset)
        if self.bytes_since_index <= every:
            return
        indexes = self._indexes
        if indexes is None or not (self._max_known and indexes[0].loaded and indexes[1].loaded):
            # First entry since a start: earlier batches' timestamps count as well.
            self.load_indexes()
            known, _ = self.max_timestamp
            if max_timestamp > known:
                self._max_timestamp = max_timestamp
                self._max_timestamp_offset = Offset(last_offset)
        self.index.append(Offset(last_offset), position)
        self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        self.bytes_since_index = 0
        self.entries_due = True

    def should_roll(
        self, size: int, last_offset: int, max_timestamp: int, bytes_max: int, roll_ms: int
    ) -> bool:
        """Return whether a batch of `size` bytes belongs into a new segment.

        As Kafka's LogSegment.shouldRoll. segment.ms is measured between record timestamps: from the
        first batch's to this one's.
        """
        if self.size > bytes_max - size:
            return True
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        first = self.first_timestamp
        if first is not None and first >= 0 and max_timestamp - first > roll_ms - self.jitter_ms:
            return self.size > 0
        indexes = self._indexes
        return indexes is not None and (indexes[0].full or indexes[1].full)

    def forget_newest(self) -> None:
        """Forget the greatest timestamp after a truncation; the next use reads it again."""
        self._max_known = False
        self._max_timestamp = NO_TIMESTAMP

    # --- closing -----------------------------------------------------------------------------

    def finish_timestamps(self) -> None:
        """Add the greatest timestamp to the time index, as rolling and closing do."""
        self.time_index.maybe_append(*self.max_timestamp)

    def write_out_indexes(self) -> None:
        """Append pending index entries to their files, without preallocating."""
        self.entries_due = False
        self.index.write_out(preallocate=False)
        self.time_index.write_out(preallocate=False)

    def seal(self) -> list[DiskFile]:
        """Complete and trim the index files of a full segment; return the files to be flushed."""
        self.load_indexes()
        self.finish_timestamps()
        files = [self.file, self.index.trim(), self.time_index.trim()]
        if self.txn_file is not None:
            files.append(self.txn_file)
        return files

    def close(self) -> None:
        """Close every file of the segment; the next use opens them again."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self.close_indexes()

    def close_indexes(self) -> None:
        """Close the index files; a sealed segment that is flushed needs them open no longer."""
        for index in self._indexes or ():
            index.close()

    def rename_away(self, suffix: str) -> None:
        """Rename all files of the segment to `…<suffix>`; open descriptors stay valid."""
        paths = [self.path(each) for each in file_names.SEGMENT_SUFFIXES]
        for path in [path for path in paths if self._disk.exists(path)]:
            self._disk.rename(path, path + suffix)
        self.suffix = suffix
        # Another segment may take the old names: load no index from there.
        for beside in self._indexes or ():
            beside.path += suffix

    def at_rest(self) -> list[int]:
        """Return base offset, size and greatest timestamp as `AtRest` stores them."""
        newest = self._max_timestamp if self._max_known else NOT_KNOWN
        return [self.base_offset, self.size, newest, self._max_timestamp_offset]

    def set_at_rest(self, size: int, newest: int, newest_offset: int) -> None:
        """Set size and greatest timestamp from `AtRest`, without reading files."""
        self.size = size
        if newest != NOT_KNOWN:
            self._max_timestamp, self._max_timestamp_offset = newest, Offset(newest_offset)
            self._max_known = True

    # --- finding -----------------------------------------------------------------------------

    @property
    def max_timestamp(self) -> tuple[int, Offset]:
        """Greatest timestamp and the offset at which it was reached; (-1, base offset) if none.

        Blocks at first use after a start.
        """
        if not self._max_known:
            self.load_indexes()
            if not self._max_known:
                newest = find_batch.newest(self, *self.time_index.last)
                if not self._max_known:  # else the indexes were rebuilt meanwhile
                    self._max_timestamp, self._max_timestamp_offset = newest
                    self._max_known = True
        return self._max_timestamp, self._max_timestamp_offset

    def load_first_timestamp(self) -> None:
        """Read the first batch's timestamp; required before the segment accepts appends."""
        if self.first_timestamp is None and self.size:
            for _, header in headers(self.file.read, 0, self.size, self.path(file_names.LOG)):
                self.first_timestamp = header.max_timestamp
                break

    def find(self, target: Offset, fetch: Fetch) -> tuple[Position, BatchHeader] | None:
        """Return position and header of the first batch whose last offset is >= `target`.

        None if the segment ends before. Raises NotCached if `fetch` does.
        """
        if not self.index.loaded:
            self.load_indexes()
        return find_batch.find(self, target, fetch)

    def start_of(self, target: Offset, fetch: Fetch) -> Position:
        """Return where a scan for offset `target` begins: at or before its batch."""
        self.load_indexes()
        return find_batch.start_of(self, target, fetch)

    def doubt_indexes(self, problem: CorruptLogError) -> bool:
        """Rebuild the indexes because an entry contradicted a batch; return whether it was done.

        At most once: if it does not help, the segment is damaged. Indexes have no checksum, and one
        of another segment looks valid. Blocking.
        """
        if self._doubted:
            return False
        self._doubted = True
        try:
            self.rebuild_indexes()
        except BadBatch:
            return False
        _logger.warning("%s; the indexes were rebuilt from the segment", problem)
        return True

    def largest_timestamp(self) -> int:
        """Return the greatest record timestamp, or the file's modification time if none."""
        timestamp, _ = self.max_timestamp
        return timestamp if timestamp >= 0 else self.file.mtime_ms()
