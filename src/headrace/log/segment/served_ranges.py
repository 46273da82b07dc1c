"""Whole batches of a segment as a range of its file, checked piece by piece while they are sent.

For large answers. Neither is the answer held in memory (the first touch of 16 MB of fresh memory
costs more than sending them does), nor does the client wait while all of it is read and checked:
it receives one piece while the next one is looked at. Where the range ends is known from the index,
without a look at the batches.

The promise stays that of `batch_reader`: no batch goes out unseen. Yet what this process has seen,
and what has not left the page cache since (`sound`), it need not see again: the system sends it
past the process (`BatchRange.send`). Found to have left the cache in the middle of an answer, it is
read and looked at from there on.

The length of an answer precedes it, so damage met on the way cannot be told in it any more: the
connection ends, and the answer never becomes whole. From then on the segment is read by `reader`
(`Segment.suspect`), which gives what is sound and refuses what is not.
"""

import errno
from collections.abc import Callable
from typing import NamedTuple, Protocol

from headrace.log import file_names
from headrace.log.segment.scan import BadBatch, Fetch, NotCached
from headrace.log.segment.segment import Segment
from headrace.model.errors import ApiError, CorruptLogError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.disk import Buffer, Disk
from headrace.ports.file_ranges import FileRange, Part, RangeLost
from headrace.record.batch import parse_header
from headrace.record.batch_layout import (
    CRC_FROM,
    FRAME,
    HEADER_BYTES,
    LENGTH_MIN,
    MAGIC,
    OVERHEAD_BYTES,
)
from headrace.record.crc32c import crc32c

RANGE_BYTES_MIN = 128 << 10
"""Smaller answers are read at once: they fit into memory that is at hand."""
COLD_BYTES = 1 << 20
"""How much is read on from the disk at a time."""

_OF_THE_FILE = {errno.EIO, errno.EBADF, errno.ENOENT}
"""What sendfile says of the file; all else is the socket's."""
_unpack_frame = FRAME.unpack_from


class Served(NamedTuple):
    """Whole batches for a client, the first of which holds the offset asked for."""

    data: Part
    next_offset: Offset
    """Where to read on."""


class Cut(Protocol):
    """How often a log has been cut short: what lies at an offset may be another batch since."""

    topic_partition: TopicPartition
    truncations: int


class Unreadable(Protocol):
    """Who is told of damage. See `ReportedDamage`."""

    def unreadable(self, error: CorruptLogError) -> ApiError:
        """Say once what is damaged; returns what a client is told."""


class Stretch(NamedTuple):
    """Where whole batches lie in a segment."""

    position: int
    end: int
    next_offset: Offset
    """All their offsets are below; the batch behind them begins there, if there is one."""


def stretch_from(
    segment: Segment,
    position: int,
    max_bytes: int,
    below: Offset,
    limit: Offset,
    at_least_one: bool,
    fetch: Fetch,
) -> Stretch | None:
    """Return whole batches from `position` on, at most `max_bytes` of them and all below `below`.

    One step of the index may be more than `max_bytes` if `at_least_one`. None where the index
    knows of no such end, or of a wrong one. `limit`: where the segment's offsets end. NotCached.
    """
    end_max = position + max_bytes
    if segment.size <= end_max and limit <= below:
        return Stretch(position, segment.size, limit)
    index = segment.index
    found = index.last_within(end_max, below)
    if found is None or found[1] <= position:
        found = index.first_behind(position) if at_least_one else None
        if found is None or found[0] > below:
            return None
    last_offset, end = found
    data = fetch(end, HEADER_BYTES)
    if data is None:
        raise NotCached
    if len(data) < HEADER_BYTES or end > segment.size:
        return None
    header = parse_header(data)
    ends_at = header.base_offset + header.last_offset_delta
    if header.magic != MAGIC or ends_at != last_offset:
        return None  # the index is not this segment's: it is built again when it misleads `find`
    return Stretch(position, end, Offset(header.base_offset))


class BatchRange(FileRange):
    """Whole batches on their way to a client. `ports.file_ranges.FileRange`."""

    __slots__ = (
        "_at", "_batch_at", "_batch_left", "_begun", "_crc", "_crc_wanted", "_damage", "_disk",
        "_expected", "_failure", "_fetched", "_file", "_limit", "_log", "_offset", "_segment",
        "_size", "_skip", "_truncations", "left", "sendable",
    )  # fmt: skip

    def __init__(
        self,
        log: Cut,
        damage: Unreadable,
        disk: Disk,
        segment: Segment,
        stretch: Stretch,
        offset: Offset,
    ) -> None:
        """`offset`: what was asked for; the first batch holds it."""
        self._log = log
        self._damage = damage
        self._disk = disk
        self._segment = segment
        self._file = segment.file  # held: it stays readable when the segment is renamed away
        self._truncations = log.truncations
        self._at = self._begun = stretch.position  # where the looking begins, with a batch
        self._size = self.left = stretch.end - stretch.position
        self._limit = stretch.next_offset
        self._offset = offset
        self._expected: int = segment.base_offset
        self._batch_at = 0
        self._batch_left = 0
        self._crc = 0
        self._crc_wanted = 0
        self._fetched: memoryview | None = None
        self._failure: Exception | None = None
        self._skip = 0  # bytes that have gone already and are looked at again
        self.sendable = segment.sound.covers(stretch.position, stretch.end)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"BatchRange({self._file.path!r}, {self.left} of {self._size} left)"

    def send(self, socket: int, size: int) -> int | None:
        """Send the next bytes, unless they are to be looked at first."""
        self._not_cut()
        size = min(size, self.left)
        if not self._known(size):
            return None
        try:
            sent = self._file.send(self._at, size, socket)
        except OSError as error:
            if error.errno in _OF_THE_FILE:
                raise self._lost(error) from error
            raise
        self._at += sent
        self.left -= sent
        return sent

    def take(self, into: memoryview) -> int:
        """Put the next bytes, checked as far as they go unless they were before, into `into`."""
        self._not_cut()
        size = min(len(into), self.left)
        if self._known(size):
            got = self._read(into[:size])
            if got:
                self._at += got
                self.left -= got
                return got
            self._distrust()
        while self._skip:
            got = self._take(into)
            if not got:
                return 0
            fresh = got - self._skip
            self._skip = max(-fresh, 0)
            if fresh > 0:
                into[:fresh] = into[got - fresh : got]
                return fresh
        return self._take(into)

    def _not_cut(self) -> None:
        if self._log.truncations != self._truncations:
            raise RangeLost(f"{self._log.topic_partition} was cut while it was being sent")

    def _known(self, size: int) -> bool:
        """Tell whether the next `size` bytes need no look, and can be had at once."""
        if not self.sendable:
            return False
        at, sound = self._at, self._segment.sound
        if sound.covers(at, at + size):
            try:
                cached = self._file.cached(at, size)
            except OSError as error:
                raise self._lost(error) from error
            if cached:
                return True
            if cached is False:
                sound.evicted(at, size)
        self._distrust()
        return False

    def _distrust(self) -> None:
        """Look at all that is left, from the batch on that has left in part."""
        self.sendable = False
        self._begun = max(self._begun, self._segment.index.position_before(self._at))
        self._skip = self._at - self._begun
        self.left += self._skip
        self._at = self._begun

    def _take(self, into: memoryview) -> int:
        if self._failure is not None:
            raise self._lost(self._failure)
        wanted = min(len(into), self.left)
        fetched = self._fetched
        if fetched is not None and len(fetched) < min(HEADER_BYTES, self.left):
            fetched = self._fetched = None
        if fetched is not None:
            got = min(wanted, len(fetched))
            into[:got] = fetched[:got]
        else:
            got = self._read(into[:wanted])
            if not got:
                return 0
        try:
            sound = self._check(into[:got])
        except BadBatch as error:
            raise self._damaged(error) from error
        if fetched is not None:
            self._fetched = fetched[sound:]
        self._at += sound
        self.left -= sound
        self._segment.sound.add(self._begun, self._batch_at if self._batch_left else self._at)
        return sound

    def _read(self, into: memoryview) -> int:
        try:
            return self._file.read_cached_into(self._at, into)
        except OSError as error:
            raise self._lost(error) from error

    def fetch(self, done: Callable[[], None]) -> None:
        """Read on from the disk."""
        file, at, size = self._file, self._at, min(COLD_BYTES, self.left)
        self._segment.sound.evicted(at, size)

        def have(outcome: Buffer | BaseException) -> None:
            if isinstance(outcome, Exception):
                self._failure = outcome
            elif not isinstance(outcome, BaseException):
                self._fetched = memoryview(outcome)
                if len(outcome) < size:
                    self._failure = self._cut_short()
            done()

        self._disk.run(lambda: file.read(at, size), have)

    def _check(self, view: memoryview) -> int:
        """Return how many bytes of `view` may go out: all but a batch's header that is cut off."""
        at, end = 0, len(view)
        if self._batch_left:
            at = min(self._batch_left, end)
            self._crc = crc32c(view[:at], self._crc)
            self._end_piece(at)
        while end - at >= HEADER_BYTES:
            size = self._begin_batch(view, at)
            after = at + size
            if after <= end:
                if crc32c(view[at + CRC_FROM : after]) != self._crc_wanted:
                    raise self._bad("the checksum does not match")
                at = after
                continue
            self._crc = crc32c(view[at + CRC_FROM :])
            self._batch_left = size
            self._end_piece(end - at)
            at = end
        if at < end and end == self.left:
            raise self._bad(f"{end - at} bytes are no batch")
        return at

    def _end_piece(self, size: int) -> None:
        """Note that `size` more bytes of a batch that is in several pieces have been seen."""
        self._batch_left -= size
        if not self._batch_left and self._crc != self._crc_wanted:
            raise self._bad("the checksum does not match")

    def _begin_batch(self, view: memoryview, at: int) -> int:
        """Check a batch's frame as `reader` does; returns its size."""
        base, length, _, magic, self._crc_wanted, _, delta = _unpack_frame(view, at)
        self._batch_at = self._at + at
        size: int = OVERHEAD_BYTES + length
        last = base + delta
        if magic != MAGIC or length < LENGTH_MIN or delta < 0:
            raise self._bad("that is no batch")
        # A base offset is under no checksum: one that leaves a gap is believed until the next
        # batch, or the range's end, contradicts it.
        if base < self._expected or last >= self._limit or last < self._offset:
            raise self._bad(f"offset {base} (+{delta}) where {self._expected} or more belongs")
        if size > self.left - at:
            raise self._bad("runs past the end")
        self._expected = last + 1
        return size

    def _bad(self, reason: str) -> BadBatch:
        return BadBatch(self._segment.path(file_names.LOG), self._batch_at, reason)

    def _cut_short(self) -> BadBatch:
        self._batch_at = self._at
        return self._bad("the file is shorter than what was appended")

    def _damaged(self, error: BadBatch) -> BadBatch:
        """Have the segment read with care from now on, and say what is wrong, once."""
        self._segment.suspect = True
        self._segment.sound.lost(0, self._segment.size)
        self._damage.unreadable(error)
        return error

    def _lost(self, error: Exception) -> Exception:
        if isinstance(error, BadBatch):
            return self._damaged(error)
        return RangeLost(f"{self._file.path} while it was being sent: {error}")
