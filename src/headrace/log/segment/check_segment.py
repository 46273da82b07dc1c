"""Read a whole segment in one pass: check every CRC and collect the content of its indexes.

Recovery and the scrub spend most of their time here. Files are read in pieces of 1 MiB, in order.
The loop over batches is one flat function: with 16 KB batches it costs about as much as the CRCs.
The CRCs and the loop hold the interpreter's lock and reads do not, so two threads on two logs do
not fully use two cores.
"""

from collections import deque
from collections.abc import Callable

from headrace.log import file_names
from headrace.log.producers.kept_states import BATCHES_KEPT
from headrace.log.segment.indexes import offset_limit
from headrace.log.segment.scan import BadBatch, check_frame
from headrace.log.segment.segment import Segment
from headrace.log.segment.segment_summary import Swept
from headrace.model.nouns import Offset
from headrace.record.batch import CONTROL, TRANSACTIONAL, parse_header
from headrace.record.batch_layout import (
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_MIN,
    MAGIC,
    OVERHEAD_BYTES,
    TIMED_FRAME,
)
from headrace.record.crc32c import crc32c

CHUNK_BYTES = 1 << 20
_SEARCHED_BYTES = 4 << 20
NO_INDEX = 1 << 62
"""An index interval in bytes that is never reached: a sweep that collects no index entries."""
GAPS_ANYWHERE = 1 << 63
_ORDERED = CONTROL | TRANSACTIONAL

Fetch = Callable[[int, int], bytes]
"""A function from (position, size) to bytes that blocks for the disk."""
ProducerBatch = Callable[[bytes, memoryview], None]
"""A callback for a batch with a producer id: (header, whole batch or b"" if not needed)."""


def sweep(
    segment: Segment,
    expected: Offset,
    limit: int,
    every: int,
    producers: ProducerBatch | None = None,
    gaps_below: int = GAPS_ANYWHERE,
) -> Swept:
    """Check a segment to its last byte and collect the entries of its indexes. Raises OSError.

    `every`: index.interval.bytes. `gaps_below`: above this offset a batch must begin where the one
    before it ends. `producers` gets the batches with a producer id in log order: of plain batches
    the last five of each producer, of transactions and their markers all.
    """
    under_way = Sweep(segment, expected, limit, every, producers, gaps_below=gaps_below)
    fetch, size = segment.file.read, segment.size
    while under_way.step(fetch, size):
        pass
    return under_way.found


class Sweep:
    """A pass over a segment that checks its batches, one piece per `step`."""

    __slots__ = ("_every", "_gaps_below", "_limit", "_path", "_pending", "_producers", "found")

    def __init__(
        self,
        segment: Segment,
        expected: Offset,
        limit: int,
        every: int = NO_INDEX,
        producers: ProducerBatch | None = None,
        position: int = 0,
        gaps_below: int = GAPS_ANYWHERE,
    ) -> None:
        """Begin a pass at byte `position`, at which a batch begins.

        `expected`: the least base offset allowed; `limit`: all offsets must be below. Both catch
        damage that no CRC covers (base offsets, leader epochs).
        """
        base = segment.base_offset
        self.found = Swept(base, expected)
        self.found.position = position
        self._path = segment.path(file_names.LOG)
        self._limit = min(limit, offset_limit(base))
        self._every = every
        self._gaps_below = gaps_below
        self._producers = producers
        self._pending: dict[int, deque[bytes]] = {}

    def step(self, fetch: Fetch, size: int) -> bool:
        """Check the next piece, at least one batch; return False when the pass has ended.

        `size`: the byte at which the last batch ends. Raises OSError.
        """
        found = self.found
        left = size - found.position
        if found.bad is None and left > 0:
            try:
                chunk = fetch(found.position, min(CHUNK_BYTES, left))
                if self._walk(chunk) == 0:
                    self._take_large(chunk, fetch, left)
            except BadBatch as bad:
                found.bad = bad
        if found.bad is None and found.position < size:
            return True
        for kept in self._pending.values():
            self._tell(kept)
        return False

    def _take_large(self, chunk: bytes, fetch: Fetch, left: int) -> None:
        position = self.found.position
        if len(chunk) >= HEADER_BYTES:
            wanted = parse_header(chunk).batch_length + OVERHEAD_BYTES
            if wanted <= left and self._walk(fetch(position, wanted)):
                return
        reason = f"the file ends {left} bytes into the batch"
        raise BadBatch(self._path, position, reason, cut_off=True)

    def _walk(self, chunk: bytes) -> int:
        """Check the whole batches at the head of `chunk`; return their size in bytes.

        Raises BadBatch.
        """
        found, limit, every = self.found, self._limit, self._every
        gaps_below = self._gaps_below
        view = memoryview(chunk)
        unpack, checksum = TIMED_FRAME.unpack_from, crc32c
        start, have = found.position, len(chunk)
        newest, newest_offset = found.max_timestamp, found.max_timestamp_offset
        latest = found.epochs[-1][0] if found.epochs else -1
        since, expected = found.bytes_since_index, found.end
        watched = self._producers is not None
        at = 0
        try:
            while have - at >= HEADER_BYTES:
                base, length, epoch, magic, crc, kind, delta, _, time, producer = unpack(chunk, at)
                last = base + delta
                if magic != MAGIC or length < LENGTH_MIN or not expected <= base <= last < limit:
                    raise self._refused(chunk, at, start + at, expected)
                if base != expected and base > gaps_below:
                    reason = f"offset {base} after {expected - 1}: a gap not left by compaction"
                    raise BadBatch(self._path, start + at, reason)
                after = at + OVERHEAD_BYTES + length
                if after > have:
                    break
                if checksum(view[at + CRC_FROM : after]) != crc:
                    raise BadBatch(self._path, start + at, "the checksum does not match")
                if time > newest:
                    newest, newest_offset = time, last
                if since > every:
                    found.index(last, start + at, newest, newest_offset)
                    since = 0
                since += after - at
                if epoch > latest:
                    found.epochs.append((epoch, base))
                    latest = epoch
                if producer >= 0 and watched:
                    self._note(producer, kind, chunk[at : at + HEADER_BYTES], view[at:after])
                if start + at == 0:
                    found.first_timestamp = time
                expected = last + 1
                at = after
        finally:
            found.max_timestamp, found.max_timestamp_offset = newest, Offset(newest_offset)
            found.bytes_since_index, found.end = since, Offset(expected)
            found.position = start + at
        return at

    def _note(self, producer: int, attributes: int, header: bytes, batch: memoryview) -> None:
        kept = self._pending.get(producer)
        if kept is None:
            kept = self._pending[producer] = deque(maxlen=BATCHES_KEPT)
        if attributes & _ORDERED and self._producers is not None:
            self._tell(kept)
            self._producers(header, batch)
        else:
            kept.append(header)

    def _tell(self, kept: deque[bytes]) -> None:
        if self._producers is not None:
            for header in kept:
                self._producers(header, memoryview(b""))
        kept.clear()

    def _refused(self, chunk: bytes, at: int, position: int, expected: int) -> BadBatch:
        header = parse_header(chunk, at)
        try:
            check_frame(header, expected, self._path, position)
        except BadBatch as bad:
            return bad
        first, delta = header.base_offset, header.last_offset_delta
        reason = f"offset {first} (+{delta}), but the segment ends at {self._limit}"
        return BadBatch(self._path, position, reason)


def sound_batch_behind(
    fetch: Fetch, size: int, position: int, base_offset: Offset, expected: Offset
) -> int | None:
    """Return the position of a valid batch at or after `position` with an offset >= `expected`.

    None if not found. If one is found, the damage before it is not the log's torn tail.
    `base_offset`: the segment's. Blocking and slow, for damaged segments only: each byte may be
    tried as the magic byte (2) of a batch.
    """
    magic_at = CRC_FROM - 5
    while size - position >= HEADER_BYTES:
        chunk = fetch(position, min(_SEARCHED_BYTES, size - position))
        at = chunk.find(b"\x02", magic_at)
        while 0 <= at <= len(chunk) - HEADER_BYTES + magic_at:
            start = position + at - magic_at
            header = parse_header(chunk, at - magic_at)
            end = start + OVERHEAD_BYTES + header.batch_length
            if (
                header.batch_length >= LENGTH_MIN
                and expected <= header.base_offset < offset_limit(base_offset)
                and header.last_offset_delta >= 0
                and end <= size
                and crc32c(memoryview(fetch(start, end - start))[CRC_FROM:]) == header.crc
            ):
                return start
            at = chunk.find(b"\x02", at + 1)
        if len(chunk) < HEADER_BYTES:
            return None
        position += len(chunk) - HEADER_BYTES + 1
    return None
