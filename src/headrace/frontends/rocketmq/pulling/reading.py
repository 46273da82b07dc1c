"""Records of a partition as messages: reads of the log, decoded. On any thread."""

from typing import TYPE_CHECKING, NamedTuple

from headrace.delivery.batches import stretches
from headrace.log.segment.batch_reader import ReadResult
from headrace.model.nouns import Offset
from headrace.record.batch import CODEC_MASK, iterate
from headrace.record.batch_layout import ATTRIBUTES, RECORD_COUNT
from headrace.record.record_cursor import RecordCursor
from headrace.wire.rocketmq.pulled_messages import PulledQueue, Wanted

if TYPE_CHECKING:
    from headrace.log.log import Log

RECORDS_MAX = 1 << 31
"""More records than any read has: no bound."""
READ_BYTES = 256 * 1024
"""Bytes of the log that one read returns at most, and of an answer but for its first message."""


class ReadMessages(NamedTuple):
    """The messages of one read."""

    parts: list[bytes]
    message_count: int
    next_offset: int


class ReadLimits(NamedTuple):
    """The most that one read returns; a first message of any size is returned."""

    messages: int
    bytes: int = READ_BYTES
    records: int = RECORDS_MAX
    """Records that the filter looks at, wanted or not."""


def read_messages(
    log: "Log",
    queue: PulledQueue,
    at: int,
    end: int,
    limits: ReadLimits,
    wanted: Wanted | None = None,
) -> ReadMessages:
    """Read and decode some messages from offset `at` on, below `end`; may block.

    ApiError OFFSET_OUT_OF_RANGE: retention has deleted the offset.
    """
    read = log.read_from_disk(Offset(at), limits.bytes, below=Offset(end))
    return MessageReader(log, read, at, end).take(queue, limits, wanted)


class MessageReader:
    """The messages of one read of the log, returned in several steps. On one thread at a time."""

    __slots__ = (
        "_compressed", "_cursor", "_data", "_following", "_last", "_longest", "_records",
        "_stretches", "at", "is_done",
    )  # fmt: skip

    def __init__(self, log: "Log", read: ReadResult, at: int, end: int) -> None:
        """Begin at offset `at` of some batches below `end`; may block."""
        data = self._data = read.data if isinstance(read.data, bytes) else bytes(read.data)
        self._following = min(read.next_offset, end) if read.next_offset > at else end
        aborted = log.aborted_transactions(Offset(at), Offset(self._following))
        self._stretches = stretches(data, at, aborted)
        self._cursor: RecordCursor | None = None
        self._last = at
        """The last offset of the cursor's batch."""
        self.at = at
        """The offset from which the next step reads."""
        self.is_done = False
        """Whether nothing is left."""
        self._compressed = False
        self._records = self._longest = 0
        for _, header in iterate(data):
            self._compressed = self._compressed or bool(header[ATTRIBUTES] & CODEC_MASK)
            self._records += header[RECORD_COUNT]
            self._longest = max(self._longest, header[RECORD_COUNT])

    def takes_long(self, records_at_once: int, wants_all: bool) -> bool:
        """Return whether a step is for another thread: batches are compressed, or it may have to
        look at more records than the loop may."""
        records = self._longest if wants_all else self._records
        return self._compressed or records > records_at_once

    def take(
        self, queue: PulledQueue, limits: ReadLimits, wanted: Wanted | None = None
    ) -> ReadMessages:
        """Return the next wanted messages. Raises CorruptBatch."""
        parts: list[bytes] = []
        count = size = seen = 0
        while count < limits.messages and size < limits.bytes:
            cursor = self._cursor or self._next_batch()
            if cursor is None:
                break
            pulled = queue.take(
                cursor,
                self.at,
                count_max=limits.messages - count,
                bytes_max=limits.bytes - size,
                seen_max=limits.records - seen,
                wanted=wanted,
                # A first message of any size is delivered only if there is no other.
                any_size=not parts,
            )
            parts += pulled.parts
            count += pulled.message_count
            size += pulled.size
            seen += pulled.seen_count
            self.at = pulled.next_offset
            if cursor.left:
                break
            self.at, self._cursor = self._last + 1, None
        return ReadMessages(parts, count, self.at)

    def _next_batch(self) -> RecordCursor | None:
        for stretch in self._stretches:
            if stretch.wanted:
                self._last = stretch.last
                self._cursor = RecordCursor(self._data, stretch.begin)
                return self._cursor
            self.at = stretch.last + 1
        self.at, self.is_done = max(self.at, self._following), True
        return None
