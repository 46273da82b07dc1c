"""A window of a log's messages in memory: the unsettled ones that are delivered next."""

from bisect import bisect_left
from collections.abc import Sequence

from headrace.queue_stores.memory.message_run import MESSAGE_BYTES
from headrace.wire.amqp.content import Message

CACHE_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of a queue's messages in memory; others are read from the log when needed."""
WINDOWS_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of all queues' windows; above, written messages are not kept in memory."""
_TRIM_AT = 1024


class WindowsBytes:
    """The bytes that the windows of all queues have in memory."""

    __slots__ = ("bytes", "bytes_max")

    def __init__(self, bytes_max: int = WINDOWS_BYTES_MAX) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max


class MessageWindow:
    """The messages that are delivered next, as far as they are in memory.

    delivered ... | positions and messages in memory ... | not read yet ...
                  ^ _head                                ^ following
    """

    __slots__ = (
        "_all", "_bytes", "_bytes_max", "_expiries", "_head", "_messages", "_positions",
        "following",
    )  # fmt: skip

    def __init__(
        self, start: int, bytes_max: int = CACHE_BYTES_MAX, windows: WindowsBytes | None = None
    ) -> None:
        """Create an empty window. `windows` counts the bytes of all queues."""
        self._all = windows or WindowsBytes()
        self._bytes_max = bytes_max
        self._bytes = 0
        self._positions: list[int] = []
        self._messages: list[Message] = []
        self._expiries: list[float | None] = []
        self._head = 0
        self.following = start
        """The position after the window: it has all unsettled messages below."""

    @property
    def is_empty(self) -> bool:
        """Whether the window has no message in memory."""
        return self._head == len(self._positions)

    @property
    def has_room(self) -> bool:
        """Whether there is memory for more messages in the window."""
        return self._bytes < self._bytes_max and self._all.bytes < self._all.bytes_max

    def release(self) -> None:
        """Free the window's memory: the queue is deleted or closed."""
        self._all.bytes -= self._bytes
        self._positions, self._messages, self._expiries = [], [], []
        self._bytes = self._head = 0

    def extend(
        self,
        positions: Sequence[int],
        messages: Sequence[Message],
        expiries: Sequence[float | None],
        following: int,
    ) -> None:
        """Add the messages from the old `following` up to the new one."""
        self._positions += positions
        self._messages += messages
        self._expiries += expiries
        size = _size_of(messages)
        self._bytes += size
        self._all.bytes += size
        self.following = following

    def slice(
        self, position: int, count: int, below: int
    ) -> tuple[Sequence[int], Sequence[Message]]:
        """Return positions, and messages: at most `count`, from `position` to below `below`."""
        positions = self._positions
        at = bisect_left(positions, position, self._head)
        stop = min(at + count, len(positions))
        if stop > at and positions[stop - 1] >= below:
            stop = bisect_left(positions, below, at, stop)
        return positions[at:stop], self._messages[at:stop]

    def expires_at(self, position: int) -> float | None:
        """Return the expiry of a message in monotonic seconds; None: none, or not in the window."""
        at = bisect_left(self._positions, position, self._head)
        if at < len(self._positions) and self._positions[at] == position:
            return self._expiries[at]
        return None

    def put_off(self, first: int, below: int, seconds: float, after: float) -> None:
        """Move expiries after `after` by `seconds`, of messages from `first` to below `below`."""
        at = bisect_left(self._positions, first, self._head)
        stop = bisect_left(self._positions, below, at)
        expiries = self._expiries
        for index in range(at, stop):
            expires_at = expiries[index]
            if expires_at is not None and expires_at > after:
                expiries[index] = expires_at + seconds

    def pass_to(self, below: int) -> tuple[Sequence[int], Sequence[int]]:
        """Remove messages below a position; return their positions, and their body sizes."""
        at = bisect_left(self._positions, below, self._head)
        positions = self._positions[self._head : at]
        messages = self._messages[self._head : at]
        size = _size_of(messages)
        self._bytes -= size
        self._all.bytes -= size
        self._head = at
        if at >= _TRIM_AT and 2 * at >= len(self._positions):
            del self._positions[:at], self._messages[:at], self._expiries[:at]
            self._head = 0
        elif at == len(self._positions):
            self._positions, self._messages, self._expiries, self._head = [], [], [], 0
        self.following = max(self.following, below)
        return positions, [len(message.body) for message in messages]


def _size_of(messages: Sequence[Message]) -> int:
    sizes = sum([len(message.body) + len(message.header) for message in messages])
    return sizes + MESSAGE_BYTES * len(messages)
