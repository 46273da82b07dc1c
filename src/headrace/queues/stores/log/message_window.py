"""Messages of a log in memory: all unsettled ones from what was handed out up to some position."""

from bisect import bisect_left
from collections.abc import Sequence

from headrace.queues.stores.memory.message_run import MESSAGE_BYTES
from headrace.wire.amqp.content import Message

CACHE_BYTES_MAX = 8 * 1024 * 1024
"""A queue's messages in memory; the others are read from the log when they are next."""
WINDOWS_BYTES_MAX = 64 * 1024 * 1024
"""Those of all queues: beyond it messages are not kept in memory when they are written."""
_TRIM_AT = 1024


class WindowsBytes:
    """What the windows of all queues hold."""

    __slots__ = ("bytes", "bytes_max")

    def __init__(self, bytes_max: int = WINDOWS_BYTES_MAX) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max


class MessageWindow:
    """What is at hand of what is to be handed out next."""

    __slots__ = (
        "_all", "_bytes", "_bytes_max", "_expiries", "_head", "_messages", "_positions",
        "following",
    )  # fmt: skip

    def __init__(
        self, start: int, bytes_max: int = CACHE_BYTES_MAX, windows: WindowsBytes | None = None
    ) -> None:
        """`windows`: of all queues together."""
        self._all = windows or WindowsBytes()
        self._bytes_max = bytes_max
        self._bytes = 0
        self._positions: list[int] = []
        self._messages: list[Message] = []
        self._expiries: list[float | None] = []
        self._head = 0
        self.following = start
        """It has all from the mark up to here."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is at hand."""
        return self._head == len(self._positions)

    @property
    def has_room(self) -> bool:
        """Whether it may grow."""
        return self._bytes < self._bytes_max and self._all.bytes < self._all.bytes_max

    def release(self) -> None:
        """Hold nothing any more: its queue is gone."""
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
        """Take in messages from `following` on, up to another `following`."""
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
        """Return at most `count` messages from `position` on, all below `below`."""
        positions = self._positions
        at = bisect_left(positions, position, self._head)
        stop = min(at + count, len(positions))
        if stop > at and positions[stop - 1] >= below:
            stop = bisect_left(positions, below, at, stop)
        return positions[at:stop], self._messages[at:stop]

    def expires_at(self, position: int) -> float | None:
        """Return when a message at hand expires, monotonic seconds; None: never, or not here."""
        at = bisect_left(self._positions, position, self._head)
        if at < len(self._positions) and self._positions[at] == position:
            return self._expiries[at]
        return None

    def put_off(self, first: int, below: int, seconds: float, after: float) -> None:
        """Let what lies from `first` on and below `below` expire later, where it does `after`."""
        at = bisect_left(self._positions, first, self._head)
        stop = bisect_left(self._positions, below, at)
        expiries = self._expiries
        for index in range(at, stop):
            expires_at = expiries[index]
            if expires_at is not None and expires_at > after:
                expiries[index] = expires_at + seconds

    def pass_to(self, below: int) -> tuple[Sequence[int], Sequence[int]]:
        """Let go of what lies below `below`; returns positions and the sizes of bodies."""
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
