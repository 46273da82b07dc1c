"""A stretch of a stream in memory, as its consumers are to see it; and those that are kept.

Each message goes out with its offset in the header `x-stream-offset`, the same for all readers, so
it is put in once.
"""

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Collection, Sequence
from struct import Struct

from headrace.model.errors import Malformed
from headrace.queues.stores.log.message_window import WindowsBytes
from headrace.queues.stores.memory.message_run import MESSAGE_BYTES
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_table import Long
from headrace.wire.amqp.properties import Properties, header_value, make_header, with_header

OFFSET_HEADER = "x-stream-offset"
FILTER_HEADER = "x-stream-filter-value"
CACHE_BYTES_MAX = 32 * 1024 * 1024
"""The chunks of one stream that are kept for its readers."""
CHUNK_BYTES = 1000
"""What a chunk takes beside its messages."""
_pack_offset = Struct(">q").pack
_OFFSET_BYTES = 8


class Chunk:
    """Messages at offsets from `begin` on, and none other below `following`."""

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
        """What it takes of memory, as it is counted."""
        sizes = sum([len(message.body) + len(message.header) for message in self._messages])
        return sizes + MESSAGE_BYTES * len(self.positions) + CHUNK_BYTES

    def part(
        self, at: int, count: int, below: int, wanted: Collection[str] | None
    ) -> tuple[Sequence[int], Sequence[Message]]:
        """Return at most `count` messages from `at` on and below `below`, with their offsets.

        `wanted`: values of the filter, the empty one where a message has none; None: all.
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
    """Return messages with their offsets in their headers. Neighbours often have equal headers."""
    delivered: list[Message] = []
    raw: bytes | None = None
    parts: tuple[bytes, bytes] | None = None
    for offset, message in zip(positions, messages, strict=True):
        header, body = message.header, message.body
        if header != raw:
            raw, parts = header, None
            header = _with_offset(header, offset, len(body))
        else:
            # An equal header announces as many bytes of body.
            parts = parts or _parts(header, len(body))
            header = b"".join((parts[0], _pack_offset(offset), parts[1]))
        delivered.append(Message(message.exchange, message.routing_key, header, body))
    return delivered


def _with_offset(header: bytes, offset: int, body_size: int) -> bytes:
    try:
        return with_header(header, OFFSET_HEADER, Long(offset))
    except Malformed:
        # Nobody walked its headers before: it came from a Kafka producer.
        return make_header(body_size, Properties(headers={OFFSET_HEADER: Long(offset)}))


def _parts(header: bytes, body_size: int) -> tuple[bytes, bytes]:
    """Return what is before and behind the offset in a header that has one."""
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
    """The chunks of one stream that are kept, up to a bound; those used longest ago go first."""

    def __init__(self, windows: WindowsBytes, bytes_max: int = CACHE_BYTES_MAX) -> None:
        """`windows`: what all queues on logs keep together."""
        self._windows = windows
        self._bytes_max = bytes_max
        self._chunks: OrderedDict[int, tuple[Chunk, int]] = OrderedDict()
        """By where they begin, each with its bytes; the last was used last."""
        self._begins: list[int] = []
        self.bytes = 0

    def find(self, offset: int) -> Chunk | None:
        """Return a chunk that tells of `offset`; None: there is none."""
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
        """Keep a chunk, and let others go for it."""
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
        """Let chunks go that lie below `below`: no reader is there."""
        passed = 0
        for begin in self._begins:
            if self._chunks[begin][0].following > below:
                break
            _, size = self._chunks.pop(begin)
            self._count(-size)
            passed += 1
        del self._begins[:passed]

    def clear(self) -> None:
        """Keep nothing any more."""
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
