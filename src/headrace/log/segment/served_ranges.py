"""Serve large fetch responses as ranges of a segment's file, verified piece by piece.

A large response is not held in memory (the first touch of 16 MB of fresh memory costs more than
sending them), and the client does not wait until all of it is read: it receives one piece while the
next one is verified. The index gives the end of the range; the batches are not read for it.

As in `batch_reader`, no batch is sent unverified. Bytes that this process has verified and that
have stayed in the page cache since (`Segment.sound`) are sent by sendfile (`BatchRange.send`). If
bytes have left the cache in the middle of a response, they are read and verified from there on.

The size of a response precedes it, so damage found on the way cannot be reported in it: the
connection is closed and the response stays incomplete. From then on the segment is read by
`batch_reader` (`Segment.suspect`), which serves the valid batches and reports the damaged ones.
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
"""Smaller responses are read into memory at once."""
COLD_BYTES = 1 << 20
"""Bytes per read from the disk."""

_OF_THE_FILE = {errno.EIO, errno.EBADF, errno.ENOENT}
"""Error numbers of sendfile that concern the file; all others concern the socket."""
_unpack_frame = FRAME.unpack_from


class Served(NamedTuple):
    """Whole batches for a client; the first one contains the requested offset."""

    data: Part
    next_offset: Offset
    """The offset at which the next read begins."""


class TruncationCount(Protocol):
    """A log's truncation counter: after a truncation an offset may belong to another batch."""

    topic_partition: TopicPartition
    truncations: int


class Unreadable(Protocol):
    """The receiver of damage reports: `ReportedDamage`."""

    def unreadable(self, error: CorruptLogError) -> ApiError:
        """Log the damage once; return the error for the client."""


class Stretch(NamedTuple):
    """The byte range [position, end) of whole batches in a segment."""

    position: int
    end: int
    next_offset: Offset
    """The offset after the last batch: that of the next batch, if one follows."""


def stretch_from(
    segment: Segment,
    position: int,
    max_bytes: int,
    below: Offset,
    limit: Offset,
    at_least_one: bool,
    fetch: Fetch,
) -> Stretch | None:
    """Return the byte range of whole batches from `position` on, ended at an index entry.

    At most `max_bytes`, or one index interval if `at_least_one`; all offsets below `below`. None
    if no index entry fits or if the index is wrong. `limit`: end offset of the segment. Raises
    NotCached.
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
        return None  # index of another segment: `find` rebuilds it when it fails
    return Stretch(position, end, Offset(header.base_offset))


class BatchRange(FileRange):
    """A `FileRange` of whole batches that is being sent to a client."""

    __slots__ = (
        "_at", "_batch_at", "_batch_left", "_begun", "_crc", "_crc_wanted", "_damage", "_disk",
        "_expected", "_failure", "_fetched", "_file", "_limit", "_log", "_offset", "_segment",
        "_size", "_skip", "_truncations", "left", "sendable",
    )  # fmt: skip

    def __init__(
        self,
        log: TruncationCount,
        damage: Unreadable,
        disk: Disk,
        segment: Segment,
        stretch: Stretch,
        offset: Offset,
    ) -> None:
        """Make the range of `stretch`; its first batch must contain `offset`, which was
        requested."""
        self._log = log
        self._damage = damage
        self._disk = disk
        self._segment = segment
        # held open: readable even after the segment is renamed for deletion
        self._file = segment.file
        self._truncations = log.truncations
        # verification starts here, at a batch's first byte
        self._at = self._begun = stretch.position
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
        self._skip = 0  # bytes already sent that are verified again
        self.sendable = segment.sound.covers(stretch.position, stretch.end)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"BatchRange({self._file.path!r}, {self.left} of {self._size} left)"

    def send(self, socket: int, size: int) -> int | None:
        """Send the next bytes by sendfile; None if they must be verified first (`take`)."""
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
        """Copy the next bytes into `into`, verified now unless they were before; return their
        number."""
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
            raise RangeLost(f"{self._log.topic_partition} was truncated while a response was sent")

    def _known(self, size: int) -> bool:
        """Return whether the next `size` bytes are verified and in the page cache."""
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
        """Verify all remaining bytes, starting at the batch that was sent in part."""
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
        """Read the next piece from the disk on a thread; `done` is called when it is in memory."""
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
        """Check frames and CRCs of the batches in `view`; return the bytes that may be sent.

        These are all but an incomplete batch header at the end.
        """
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
            raise self._bad(f"{end - at} bytes, less than a batch header")
        return at

    def _end_piece(self, size: int) -> None:
        """Count `size` more verified bytes of a batch that spans pieces; check its CRC at its
        end."""
        self._batch_left -= size
        if not self._batch_left and self._crc != self._crc_wanted:
            raise self._bad("the checksum does not match")

    def _begin_batch(self, view: memoryview, at: int) -> int:
        """Check a batch's frame as `batch_reader` does; return the batch's size in bytes."""
        base, length, _, magic, self._crc_wanted, _, delta = _unpack_frame(view, at)
        self._batch_at = self._at + at
        size: int = OVERHEAD_BYTES + length
        last = base + delta
        if magic != MAGIC or length < LENGTH_MIN or delta < 0:
            raise self._bad("invalid batch header")
        # The CRC does not cover base offsets: an offset gap is accepted until the next batch or the
        # end of the range contradicts it.
        if base < self._expected or last >= self._limit or last < self._offset:
            raise self._bad(f"offset {base} (+{delta}), expected {self._expected} or more")
        if size > self.left - at:
            raise self._bad("runs past the end")
        self._expected = last + 1
        return size

    def _bad(self, reason: str) -> BadBatch:
        return BadBatch(self._segment.path(file_names.LOG), self._batch_at, reason)

    def _cut_short(self) -> BadBatch:
        self._batch_at = self._at
        return self._bad("the file is shorter than its appended data")

    def _damaged(self, error: BadBatch) -> BadBatch:
        """Mark the segment as damaged, so that `batch_reader` serves it, and log the damage
        once."""
        self._segment.suspect = True
        self._segment.sound.lost(0, self._segment.size)
        self._damage.unreadable(error)
        return error

    def _lost(self, error: Exception) -> Exception:
        if isinstance(error, BadBatch):
            return self._damaged(error)
        return RangeLost(f"{self._file.path}: read failed while a response was sent: {error}")
