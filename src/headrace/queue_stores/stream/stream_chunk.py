"""Chunks of a stream in memory, with messages as delivered, and the cache of chunks.

Each message is delivered with its offset in the header `x-stream-offset`. It is the same for all
readers, so the header is written once.
"""

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Collection, Sequence
from struct import Struct

from headrace.model.errors import Malformed
from headrace.queue_stores.log.message_window import WindowsBytes
from headrace.queue_stores.memory.message_run import MESSAGE_BYTES
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_table import Long
from headrace.wire.amqp.properties import Properties, header_value, make_header, with_header

OFFSET_HEADER = "x-stream-offset"
FILTER_HEADER = "x-stream-filter-value"
CACHE_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of one stream's cached chunks."""
CHUNK_BYTES = 1000
"""Bytes of memory of a chunk without its messages."""
_pack_offset = Struct(">q").pack
_OFFSET_BYTES = 8


class Chunk:
    """The messages of a stream from offset `begin` to below `following`."""

    __slots__ = ("_delivered", "_filter_values", "_messages", "begin", "following", "positions")

    def __init__(
        self, begin: int, following: int, positions: Sequence[int], messages: Sequence[Message]
    ) -> None:
        self.begin = begin
        self.following = following
        self.positions = positions
        self._messages = messages
        self._delivered: list[Message] | None = None
        self._filter_values: list[str] | None = None

    def __contains__(self, offset: int) -> bool:
        return self.begin <= offset < self.following

    @property
    def bytes(self) -> int:
        """Bytes of memory that the chunk counts for."""
        sizes = sum([len(message.body) + len(message.header) for message in self._messages])
        return sizes + MESSAGE_BYTES * len(self.positions) + CHUNK_BYTES

    def part(
        self, at: int, count: int, below: int, wanted: Collection[str] | None
    ) -> tuple[Sequence[int], Sequence[Message]]:
        """Return offsets, and messages: at most `count`, from offset `at` to below `below`.

        `wanted`: values of the filter, an empty one for messages without; None: all messages.
        """
        positions = self.positions
        begin = bisect_left(positions, at)
        end = bisect_left(positions, below, begin)
        if self._delivered is None:
            self._delivered = with_offsets(positions, self._messages)
        delivered = self._delivered
        if wanted is None:
            end = min(end, begin + count)
            return positions[begin:end], delivered[begin:end]
        if self._filter_values is None:
            self._filter_values = [_filter_value(message.header) for message in self._messages]
        values = self._filter_values
        found = [number for number in range(begin, end) if values[number] in wanted][:count]
        return [positions[number] for number in found], [delivered[number] for number in found]


def with_offsets(positions: Sequence[int], messages: Sequence[Message]) -> list[Message]:
    """Return messages with the header `x-stream-offset`; equal neighbours share the work."""
    delivered: list[Message] = []
    raw: bytes | None = None
    parts: tuple[bytes, bytes] | None = None
    for offset, message in zip(positions, messages, strict=True):
        header, body = message.header, message.body
        if header != raw:
            raw, parts = header, None
            header = _with_offset(header, offset, len(body))
        else:
            # An equal header announces an equal size of the body.
            parts = parts or _parts(header, len(body))
            header = b"".join((parts[0], _pack_offset(offset), parts[1]))
        delivered.append(Message(message.exchange, message.routing_key, header, body))
    return delivered


def _with_offset(header: bytes, offset: int, body_size: int) -> bytes:
    try:
        return with_header(header, OFFSET_HEADER, Long(offset))
    except Malformed:
        # Its headers were never decoded before: a Kafka producer wrote it.
        return make_header(body_size, Properties(headers={OFFSET_HEADER: Long(offset)}))


def _parts(header: bytes, body_size: int) -> tuple[bytes, bytes]:
    """Return the bytes of a header before and after its `x-stream-offset` value."""
    low, high = (_with_offset(header, offset, body_size) for offset in (0, -1))
    at = next(
        at for at, (first, second) in enumerate(zip(low, high, strict=True)) if first ^ second
    )
    return low[:at], low[at + _OFFSET_BYTES :]


def _filter_value(header: bytes) -> str:
    try:
        value = header_value(header, FILTER_HEADER)
    except Malformed:
        return ""
    return value if isinstance(value, str) else ""


class ChunkCache:
    """The cached chunks of one stream, up to a bound; the least recently used goes first."""

    def __init__(self, windows: WindowsBytes, bytes_max: int = CACHE_BYTES_MAX) -> None:
        """Create an empty cache. `windows` counts the memory of all queues on logs."""
        self._windows = windows
        self._bytes_max = bytes_max
        self._chunks: OrderedDict[int, tuple[Chunk, int]] = OrderedDict()
        """Chunks with their bytes by first offset; the last used one is last."""
        self._begins: list[int] = []
        self.bytes = 0

    def find(self, offset: int) -> Chunk | None:
        """Return a cached chunk that includes `offset`, or None."""
        place = bisect_right(self._begins, offset) - 1
        if place < 0:
            return None
        begin = self._begins[place]
        chunk, _ = self._chunks[begin]
        if offset not in chunk:
            return None
        self._chunks.move_to_end(begin)
        return chunk

    def add(self, chunk: Chunk) -> None:
        """Add a chunk to the cache, and drop others beyond the bound."""
        if chunk.begin in self._chunks:
            self._remove(chunk.begin)
        size = chunk.bytes
        self._chunks[chunk.begin] = chunk, size
        insort(self._begins, chunk.begin)
        self._count(size)
        windows = self._windows
        while len(self._chunks) > 1 and (
            self.bytes > self._bytes_max or windows.bytes > windows.bytes_max
        ):
            self._remove(next(iter(self._chunks)))

    def pass_to(self, below: int) -> None:
        """Drop cached chunks below `below`, where no reader is."""
        passed = 0
        for begin in self._begins:
            if self._chunks[begin][0].following > below:
                break
            _, size = self._chunks.pop(begin)
            self._count(-size)
            passed += 1
        del self._begins[:passed]

    def clear(self) -> None:
        """Drop all cached chunks."""
        self._chunks.clear()
        self._begins.clear()
        self._count(-self.bytes)

    def _remove(self, begin: int) -> None:
        _, size = self._chunks.pop(begin)
        del self._begins[bisect_left(self._begins, begin)]
        self._count(-size)

    def _count(self, size: int) -> None:
        self.bytes += size
        self._windows.bytes += size
