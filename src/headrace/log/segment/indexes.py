"""The sparse indexes beside a segment: offset to position, and timestamp to offset.

`.index` has 8-byte entries (i32 offset relative to the segment's base, i32 position), `.timeindex`
12-byte ones (i64 greatest timestamp so far, i32 relative offset), big-endian and growing. Both
files exist from the first batch of a segment on: Kafka's tools look for them. Those of an active
segment with many entries are preallocated (sparse), and trimmed when it is rolled or closed.

Entries are kept in memory from their first use on (a bisection of an array takes a third of what
one of a mapped file does; to load those of a full segment of 1 GB takes 50 ms or more, so readers
leave it to a thread) and written out behind the log, within a second (`index_writer`): a kill
loses some, and a start that was not preceded by a clean stop builds them again. There is no
checksum; what does not grow strictly is not an index (`load` raises CorruptLogError, the owner
rebuilds).
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
"""So far from its base may a segment's offsets be: entries hold the distance in 32 bits."""
_PENDING_BYTES_MAX = 4096


def offset_limit(base: Offset) -> int:
    """Return the offset that all offsets of a segment that begins at `base` are below."""
    return base + RELATIVE_OFFSET_MAX + 1


class _Index:
    """What both indexes share: one file of fixed entries, loaded late and written behind."""

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
        """Whether the entries are in memory; a new index of an empty segment calls `reset`."""
        self.path = path

    def make_file(self) -> None:
        """Create the file where it does not exist. OSError."""
        if self._file is None:
            self._disk.open(self.path, create=True).close()

    def reset(self, *, fresh: bool = False) -> None:
        """Forget every entry, and cut the file. `fresh`: there is no file."""
        self._pending.clear()
        self._written = 0
        self.loaded = True
        if not fresh and (self._file is not None or self._disk.exists(self.path)):
            self._open().truncate(0)

    def load(self) -> None:
        """Read the file; a missing one is empty. CorruptLogError where it cannot be an index."""
        if self.loaded:
            return
        content = self._stored() or b""
        size = self.ENTRY.size
        # A kill leaves the preallocated rest: zeros, cut in whole entries.
        used = len(content.rstrip(b"\0"))
        content = content[: -(-used // size) * size]
        if len(content) % size:
            raise CorruptLogError(f"{self.path}: {len(content)} bytes are no whole entries")
        self._take(content)
        self._written = len(content)
        self.loaded = True

    def _replace(self, content: bytes) -> None:
        """Have the file hold just `content`; one that does already is not touched."""
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
        """Hand what is pending to the file."""
        if not self._pending:
            return
        file = self._open()
        if preallocate and file.size() < self._limit * self.ENTRY.size:
            file.truncate(self._limit * self.ENTRY.size)
        self._written += file.write_at(self._written, (self._pending,))
        self._pending = bytearray()

    def trim(self) -> DiskFile:
        """Write everything and cut the file to its entries; returns it open, to be flushed."""
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
        """Close the file; entries in memory stay usable."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _strictly_growing(numbers: "array[int]") -> bool:
    return all(map(lt, numbers, islice(numbers, 1, None)))


class OffsetIndex(_Index):
    """`.index`: the last offset of a batch, and where that batch starts."""

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
        """Whether no further entry fits: the segment is rolled."""
        return len(self._offsets) >= self._limit

    @property
    def room(self) -> int:
        """How many entries until it is `full`."""
        return self._limit - len(self._offsets)

    @property
    def last(self) -> tuple[Offset, Position]:
        """The last entry (offset, position); (base offset, 0) where there is none."""
        if not self._offsets:
            return self.base_offset, Position(0)
        return Offset(self.base_offset + self._offsets[-1]), Position(self._positions[-1])

    def peek(self) -> tuple[Offset, Position]:
        """Return `last`, read from the file's end if the entries are not in memory. Not checked."""
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
        """Forget every entry."""
        super().reset(fresh=fresh)
        del self._offsets[:]
        del self._positions[:]

    def _take(self, content: bytes) -> None:
        numbers = array("i", content)
        if sys.byteorder == "little":
            numbers.byteswap()
        offsets, positions = numbers[0::2], numbers[1::2]
        if not _strictly_growing(offsets) or not _strictly_growing(positions):
            raise CorruptLogError(f"{self.path}: entries do not grow")
        if offsets and (offsets[0] < 0 or positions[0] < 0):
            raise CorruptLogError(f"{self.path}: negative entry")
        self._offsets, self._positions = offsets, positions

    def append(self, offset: Offset, position: int) -> None:
        """Add an entry; both must be greater than the last one's."""
        relative = offset - self.base_offset
        self._offsets.append(relative)
        self._positions.append(position)
        self._push(OFFSET_ENTRY.pack(relative, position))

    def fill(self, offsets: "array[int]", positions: "array[int]") -> None:
        """Take these entries, offsets relative to the base, in place of all there were."""
        packed = array("i", bytes(2 * offsets.itemsize * len(offsets)))
        packed[0::2], packed[1::2] = offsets, positions
        if sys.byteorder == "little":
            packed.byteswap()
        self._offsets, self._positions = offsets, positions
        self._replace(packed.tobytes())

    def keep_below(self, position: int) -> None:
        """Forget, in memory, the entries of batches from `position` on; `store` tells the file."""
        count = bisect_left(self._positions, position)
        self._offsets, self._positions = self._offsets[:count], self._positions[:count]

    def store(self) -> None:
        """Have the file hold just the entries in memory; on any thread."""
        self.fill(self._offsets, self._positions)

    def lookup(self, target: Offset) -> Position:
        """Return the position of a batch at or before the one that holds `target`."""
        at = bisect_right(self._offsets, target - self.base_offset) - 1
        return Position(self._positions[at]) if at >= 0 else Position(0)

    def entry_before(self, target: Offset) -> tuple[Offset, Position]:
        """Return the greatest entry not beyond `target`; (base offset, 0) where there is none."""
        at = bisect_right(self._offsets, target - self.base_offset) - 1
        if at < 0:
            return self.base_offset, Position(0)
        return Offset(self.base_offset + self._offsets[at]), Position(self._positions[at])

    def last_within(self, position_max: int, offset_max: int) -> tuple[Offset, Position] | None:
        """Return the greatest entry that is beyond neither."""
        by_position = bisect_right(self._positions, position_max)
        at = min(by_position, bisect_right(self._offsets, offset_max - self.base_offset)) - 1
        if at < 0:
            return None
        return Offset(self.base_offset + self._offsets[at]), Position(self._positions[at])

    def first_behind(self, position: int) -> tuple[Offset, Position] | None:
        """Return the least entry whose batch starts beyond `position`."""
        at = bisect_right(self._positions, position)
        if at >= len(self._positions):
            return None
        return Offset(self.base_offset + self._offsets[at]), Position(self._positions[at])

    def position_before(self, position: int) -> Position:
        """Return the greatest indexed batch start not beyond `position`; 0 where there is none."""
        at = bisect_right(self._positions, position) - 1
        return Position(self._positions[at]) if at >= 0 else Position(0)

    def entries(self) -> list[tuple[Offset, Position]]:
        """Return all entries (offset, position)."""
        base = self.base_offset
        pairs = zip(self._offsets, self._positions, strict=True)
        return [(Offset(base + o), Position(p)) for o, p in pairs]


class TimeIndex(_Index):
    """`.timeindex`: up to this offset no record is newer than this timestamp."""

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
        """Whether only the entry that closing forces in still fits: the segment is rolled."""
        return len(self._times) >= self._limit - 1

    @property
    def room(self) -> int:
        """How many entries until it is `full`."""
        return self._limit - 1 - len(self._times)

    @property
    def last(self) -> tuple[int, Offset]:
        """The last entry (timestamp, offset); (-1, base offset) where there is none."""
        if not self._times:
            return NO_TIMESTAMP, self.base_offset
        return self._times[-1], Offset(self.base_offset + self._offsets[-1])

    def reset(self, *, fresh: bool = False) -> None:
        """Forget every entry."""
        super().reset(fresh=fresh)
        del self._times[:]
        del self._offsets[:]

    def _take(self, content: bytes) -> None:
        words = array("i", content)  # of each entry: the halves of its time, its offset
        halves = array("i", bytes(8 * (len(words) // 3)))
        if sys.byteorder == "little":
            words.byteswap()
            halves[0::2], halves[1::2] = words[1::3], words[0::3]
        else:
            halves[0::2], halves[1::2] = words[0::3], words[1::3]
        times, offsets = array("q", halves.tobytes()), words[2::3]
        if not _strictly_growing(times) or not all(map(le, offsets, islice(offsets, 1, None))):
            raise CorruptLogError(f"{self.path}: entries do not grow")
        if offsets and offsets[0] < 0:
            raise CorruptLogError(f"{self.path}: negative entry")
        self._times, self._offsets = times, offsets

    def maybe_append(self, timestamp: int, offset: Offset) -> None:
        """Add an entry if `timestamp` is greater than the last one's."""
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
        """Take these entries, offsets relative to the base, in place of all there were."""
        self._times, self._offsets = times, offsets
        self._replace(b"".join(map(TIME_ENTRY.pack, times, offsets)))

    def keep_below(self, offset: Offset) -> None:
        """Forget, in memory, the entries from `offset` on; `store` tells the file."""
        count = bisect_left(self._offsets, offset - self.base_offset)
        self._times, self._offsets = self._times[:count], self._offsets[:count]

    def store(self) -> None:
        """Have the file hold just the entries in memory; on any thread."""
        self.fill(self._times, self._offsets)

    def lookup(self, target: int) -> tuple[int, Offset]:
        """Return the greatest entry not newer than `target`; (-1, base offset): there is none."""
        at = bisect_right(self._times, target) - 1
        if at < 0:
            return NO_TIMESTAMP, self.base_offset
        return self._times[at], Offset(self.base_offset + self._offsets[at])

    def entries(self) -> list[tuple[int, Offset]]:
        """Return all entries (timestamp, offset)."""
        base = self.base_offset
        pairs = zip(self._times, self._offsets, strict=True)
        return [(t, Offset(base + o)) for t, o in pairs]
