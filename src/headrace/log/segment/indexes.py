"""The sparse indexes of a segment: offset to file position, and timestamp to offset.

    .index        8 bytes:   i32 relative offset | i32 file position         big-endian, ascending;
    .timeindex   12 bytes:   i64 greatest timestamp so far | i32 relative offset

A relative offset is the distance from the segment's base offset. Both files exist from the first
batch of a segment on, as Kafka's tools expect. Long files of an active segment are preallocated
(sparse) and trimmed when the segment is sealed or closed.

Entries are loaded into memory at first use: a bisection of an array takes a third of the time that
one of a mapped file takes. Loading the index of a full segment of 1 GB takes 50 ms or more, so
readers do it on a thread. New entries reach the file within a second (`index_writer`); a crash
loses some, and an unclean start rebuilds them. There is no checksum: `load` raises CorruptLogError
for entries that do not ascend strictly, and the owner rebuilds the index.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import le, lt
from struct import Struct

from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, Position
from headrace.ports.disk import Disk, DiskFile

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
NO_TIMESTAMP = -1
RELATIVE_OFFSET_MAX = (1 << 31) - 1
"""Greatest distance of an offset from its segment's base: entries hold it in 32 bits."""
_PENDING_BYTES_MAX = 4096


def offset_limit(base: Offset) -> int:
    """Return the least offset that is too large for a segment with base offset `base`."""
    return base + RELATIVE_OFFSET_MAX + 1


class _Index:
    """An index file of fixed-size entries: loaded at first use, appended to with a delay."""

    ENTRY: Struct

    __slots__ = (
        "_disk",
        "_file",
        "_limit",
        "_pending",
        "_written",
        "base_offset",
        "loaded",
        "path",
    )

    def __init__(self, disk: Disk, path: str, base_offset: Offset, bytes_max: int) -> None:
        self._disk = disk
        self._file: DiskFile | None = None
        self._limit = max(bytes_max // self.ENTRY.size, 1)
        self._pending = bytearray()
        self._written = 0
        self.base_offset = base_offset
        self.loaded = False
        """Whether the entries are in memory. `reset` sets it for the index of an empty segment."""
        self.path = path

    def make_file(self) -> None:
        """Create the index file if it does not exist. Raises OSError."""
        if self._file is None:
            self._disk.open(self.path, create=True).close()

    def reset(self, *, fresh: bool = False) -> None:
        """Remove all entries from memory and from the file; `fresh`: no file exists yet."""
        self._pending.clear()
        self._written = 0
        self.loaded = True
        if not fresh and (self._file is not None or self._disk.exists(self.path)):
            self._open().truncate(0)

    def load(self) -> None:
        """Load the entries from the file, none if it is missing. CorruptLogError if it is
        invalid."""
        if self.loaded:
            return
        content = self._stored() or b""
        size = self.ENTRY.size
        # After a crash the preallocated tail is zeros: drop it in whole entries.
        used = len(content.rstrip(b"\0"))
        content = content[: -(-used // size) * size]
        if len(content) % size:
            raise CorruptLogError(f"{self.path}: {len(content)} bytes are not whole entries")
        self._take(content)
        self._written = len(content)
        self.loaded = True

    def _replace(self, content: bytes) -> None:
        """Make `content` the file's content; a file that equals it is not written."""
        self._pending.clear()
        self.loaded = True
        if self._stored() == content:
            self._written = len(content)
            return
        self._written = 0
        self._open().truncate(0)
        self._pending += content

    def _stored(self) -> bytes | None:
        try:
            file = self._file or self._disk.open(self.path, writable=False)
        except FileNotFoundError:
            return None
        try:
            return file.read(0, file.size())
        finally:
            if file is not self._file:
                file.close()

    def _take(self, content: bytes) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def _push(self, entry: bytes) -> None:
        pending = self._pending
        pending += entry
        if len(pending) >= _PENDING_BYTES_MAX:
            self.write_out()

    def write_out(self, preallocate: bool = True) -> None:
        """Append the pending entries to the file."""
        if not self._pending:
            return
        file = self._open()
        if preallocate and file.size() < self._limit * self.ENTRY.size:
            file.truncate(self._limit * self.ENTRY.size)
        self._written += file.write_at(self._written, (self._pending,))
        self._pending = bytearray()

    def trim(self) -> DiskFile:
        """Write all entries and cut the file to them; return it open, to be flushed."""
        self.write_out(preallocate=False)
        file = self._open()
        if self.loaded and file.size() != self._written:
            file.truncate(self._written)
        return file

    def _open(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def close(self) -> None:
        """Close the file; the entries in memory stay usable."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _strictly_growing(numbers: "array[int]") -> bool:
    return all(map(lt, numbers, islice(numbers, 1, None)))


class OffsetIndex(_Index):
    """A segment's `.index`: the last offset of a batch, and the batch's file position."""

    ENTRY = OFFSET_ENTRY
    __slots__ = ("_offsets", "_positions")

    def __init__(self, disk: Disk, path: str, base_offset: Offset, bytes_max: int) -> None:
        super().__init__(disk, path, base_offset, bytes_max)
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def full(self) -> bool:
        """Whether no further entry fits, so that the segment must be rolled."""
        return len(self._offsets) >= self._limit

    @property
    def room(self) -> int:
        """Number of entries that still fit."""
        return self._limit - len(self._offsets)

    @property
    def last(self) -> tuple[Offset, Position]:
        """The last entry (offset, position); (base offset, 0) if the index is empty."""
        if not self._offsets:
            return self.base_offset, Position(0)
        return Offset(self.base_offset + self._offsets[-1]), Position(self._positions[-1])

    def peek(self) -> tuple[Offset, Position]:
        """Return the last entry (offset, position), unvalidated, without loading the others."""
        if self.loaded:
            return self.last
        try:
            file = self._disk.open(self.path, writable=False)
        except FileNotFoundError:
            return self.base_offset, Position(0)
        try:
            size = OFFSET_ENTRY.size
            entry = file.read(max(file.size() - size, 0), size)
        finally:
            file.close()
        if len(entry) < size:
            return self.base_offset, Position(0)
        relative, position = OFFSET_ENTRY.unpack(entry)
        return Offset(self.base_offset + relative), Position(position)

    def reset(self, *, fresh: bool = False) -> None:
        """Remove all entries from memory and from the file; `fresh`: no file exists yet."""
        super().reset(fresh=fresh)
        del self._offsets[:]
        del self._positions[:]

    def _take(self, content: bytes) -> None:
        numbers = array("i", content)
        if sys.byteorder == "little":
            numbers.byteswap()
        offsets, positions = numbers[0::2], numbers[1::2]
        if not _strictly_growing(offsets) or not _strictly_growing(positions):
            raise CorruptLogError(f"{self.path}: entries are not ascending")
        if offsets and (offsets[0] < 0 or positions[0] < 0):
            raise CorruptLogError(f"{self.path}: negative entry")
        self._offsets, self._positions = offsets, positions

    def append(self, offset: Offset, position: int) -> None:
        """Add an entry; offset and position must be greater than those of the last one."""
        relative = offset - self.base_offset
        self._offsets.append(relative)
        self._positions.append(position)
        self._push(OFFSET_ENTRY.pack(relative, position))

    def fill(self, offsets: "array[int]", positions: "array[int]") -> None:
        """Replace all entries, in memory and in the file; `offsets` are relative to the base."""
        packed = array("i", bytes(2 * offsets.itemsize * len(offsets)))
        packed[0::2], packed[1::2] = offsets, positions
        if sys.byteorder == "little":
            packed.byteswap()
        self._offsets, self._positions = offsets, positions
        self._replace(packed.tobytes())

    def keep_below(self, position: int) -> None:
        """Remove the entries of batches at or behind byte `position` from memory; `store` writes.

        The file is unchanged until `store`.
        """
        count = bisect_left(self._positions, position)
        self._offsets, self._positions = self._offsets[:count], self._positions[:count]

    def store(self) -> None:
        """Make the file equal to the entries in memory. May be called on any thread."""
        self.fill(self._offsets, self._positions)

    def lookup(self, target: Offset) -> Position:
        """Return the file position of an indexed batch at or before the one that contains
        `target`."""
        at = bisect_right(self._offsets, target - self.base_offset) - 1
        return Position(self._positions[at]) if at >= 0 else Position(0)

    def entry_before(self, target: Offset) -> tuple[Offset, Position]:
        """Return the greatest entry with an offset <= `target`; (base offset, 0) if none."""
        at = bisect_right(self._offsets, target - self.base_offset) - 1
        if at < 0:
            return self.base_offset, Position(0)
        return Offset(self.base_offset + self._offsets[at]), Position(self._positions[at])

    def last_within(self, position_max: int, offset_max: int) -> tuple[Offset, Position] | None:
        """Return the greatest entry with position <= `position_max` and offset <= `offset_max`.

        None if no entry qualifies.
        """
        by_position = bisect_right(self._positions, position_max)
        at = min(by_position, bisect_right(self._offsets, offset_max - self.base_offset)) - 1
        if at < 0:
            return None
        return Offset(self.base_offset + self._offsets[at]), Position(self._positions[at])

    def first_behind(self, position: int) -> tuple[Offset, Position] | None:
        """Return the least entry whose batch starts behind byte `position`, or None."""
        at = bisect_right(self._positions, position)
        if at >= len(self._positions):
            return None
        return Offset(self.base_offset + self._offsets[at]), Position(self._positions[at])

    def position_before(self, position: int) -> Position:
        """Return the greatest indexed batch position that is <= `position`; 0 if none."""
        at = bisect_right(self._positions, position) - 1
        return Position(self._positions[at]) if at >= 0 else Position(0)

    def entries(self) -> list[tuple[Offset, Position]]:
        """Return all entries as (offset, position)."""
        base = self.base_offset
        pairs = zip(self._offsets, self._positions, strict=True)
        return [(Offset(base + o), Position(p)) for o, p in pairs]


class TimeIndex(_Index):
    """A segment's `.timeindex`: no record up to the offset is newer than the timestamp."""

    ENTRY = TIME_ENTRY
    __slots__ = ("_offsets", "_times")

    def __init__(self, disk: Disk, path: str, base_offset: Offset, bytes_max: int) -> None:
        super().__init__(disk, path, base_offset, bytes_max)
        self._times = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._times)

    @property
    def full(self) -> bool:
        """Whether only the last entry, written when the segment is sealed, still fits."""
        return len(self._times) >= self._limit - 1

    @property
    def room(self) -> int:
        """Number of entries that still fit before the index is `full`."""
        return self._limit - 1 - len(self._times)

    @property
    def last(self) -> tuple[int, Offset]:
        """The last entry (timestamp, offset); (-1, base offset) if the index is empty."""
        if not self._times:
            return NO_TIMESTAMP, self.base_offset
        return self._times[-1], Offset(self.base_offset + self._offsets[-1])

    def reset(self, *, fresh: bool = False) -> None:
        """Remove all entries from memory and from the file; `fresh`: no file exists yet."""
        super().reset(fresh=fresh)
        del self._times[:]
        del self._offsets[:]

    def _take(self, content: bytes) -> None:
        # An entry is three 32-bit words: two halves of the timestamp, then the offset. `array` has
        # no strided 64-bit view, so the halves are gathered into `halves` in the order of the
        # machine and read as 64-bit numbers: slices in C instead of a Python loop over entries.
        words = array("i", content)
        halves = array("i", bytes(8 * (len(words) // 3)))
        if sys.byteorder == "little":
            words.byteswap()
            halves[0::2], halves[1::2] = words[1::3], words[0::3]
        else:
            halves[0::2], halves[1::2] = words[0::3], words[1::3]
        times, offsets = array("q", halves.tobytes()), words[2::3]
        if not _strictly_growing(times) or not all(map(le, offsets, islice(offsets, 1, None))):
            raise CorruptLogError(f"{self.path}: entries are not ascending")
        if offsets and offsets[0] < 0:
            raise CorruptLogError(f"{self.path}: negative entry")
        self._times, self._offsets = times, offsets

    def maybe_append(self, timestamp: int, offset: Offset) -> None:
        """Add an entry if `timestamp` is greater than that of the last entry."""
        if self._times:
            if timestamp <= self._times[-1]:
                return
        elif timestamp <= NO_TIMESTAMP:
            return
        relative = offset - self.base_offset
        self._times.append(timestamp)
        self._offsets.append(relative)
        self._push(TIME_ENTRY.pack(timestamp, relative))

    def fill(self, times: "array[int]", offsets: "array[int]") -> None:
        """Replace all entries, in memory and in the file; `offsets` are relative to the base."""
        self._times, self._offsets = times, offsets
        self._replace(b"".join(map(TIME_ENTRY.pack, times, offsets)))

    def keep_below(self, offset: Offset) -> None:
        """Remove the entries at or above `offset` from memory; `store` writes the file."""
        count = bisect_left(self._offsets, offset - self.base_offset)
        self._times, self._offsets = self._times[:count], self._offsets[:count]

    def store(self) -> None:
        """Make the file equal to the entries in memory. May be called on any thread."""
        self.fill(self._times, self._offsets)

    def lookup(self, target: int) -> tuple[int, Offset]:
        """Return the greatest entry with a timestamp <= `target`; (-1, base offset) if none."""
        at = bisect_right(self._times, target) - 1
        if at < 0:
            return NO_TIMESTAMP, self.base_offset
        return self._times[at], Offset(self.base_offset + self._offsets[at])

    def entries(self) -> list[tuple[int, Offset]]:
        """Return all entries as (timestamp, offset)."""
        base = self.base_offset
        pairs = zip(self._times, self._offsets, strict=True)
        return [(t, Offset(base + o)) for t, o in pairs]
