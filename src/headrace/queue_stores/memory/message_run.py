"""A run of messages at neighbouring positions in memory: a list with a slot for each."""

from collections.abc import Sequence
from typing import cast

from headrace.wire.amqp.content import Message

MESSAGE_BYTES = 200
"""Bytes of a message without its body and header: objects, and its slot in a store."""
_TRIM_AT = 1024
_PASS_MAX = 100_000
"""Empty slots that one call skips at most."""
_ALL_MESSAGES = frozenset({Message})

Slots = list[Message | None]
Found = tuple[Sequence[int], Sequence[Message]]
"""Positions and their messages."""
Stretch = tuple[int, Slots, int]
"""A first position, the slots from there on, and the bytes of memory of their messages."""


def size_of(message: Message) -> int:
    """Return the bytes of memory that a message counts for."""
    return len(message.body) + len(message.header) + MESSAGE_BYTES


class MessageRun:
    """Messages from a first position on; slots of settled ones are None."""

    __slots__ = ("_first", "_head", "_slots")

    def __init__(self, first: int = 0, slots: Slots | None = None) -> None:
        self._slots: Slots = [] if slots is None else slots
        """Slot i has position `_first` + i; None: no message. Slots below `_head` are None."""
        self._first = first
        self._head = 0

    @property
    def end(self) -> int:
        """Position after the last slot of the run."""
        return self._first + len(self._slots)

    @property
    def start(self) -> int:
        """Position below which the run has no message."""
        return self._first + self._head

    @property
    def is_empty(self) -> bool:
        """Whether the run has no message."""
        return self._head == len(self._slots)

    def split(self) -> "MessageRun":
        """Move all messages to a new run and return it; this run begins after it."""
        before = MessageRun(self._first, self._slots)
        before._head = self._head
        self._first, self._slots, self._head = self.end, [], 0
        return before

    def clear(self) -> None:
        """Free all slots, none of which has a message."""
        self._first, self._slots, self._head = self.end, [], 0

    def read(self, position: int, count: int) -> Found:
        """Return up to `count` unsettled positions and messages, from `position` on."""
        at = position - self._first
        if at < self._head:
            older = self._read_older(position, count)
            if older is not None:
                return older
            at = self._head
        slots = self._slots
        found = slots[at : at + count]
        if _ALL_MESSAGES.issuperset(map(type, found)):
            start = self._first + at
            return range(start, start + len(found)), cast(list[Message], found)
        positions: list[int] = []
        messages: list[Message] = []
        for index in range(at, len(slots)):
            message = slots[index]
            if message is None:
                continue
            if len(positions) == count:
                break
            positions.append(self._first + index)
            messages.append(message)
        return positions, messages

    def _read_older(self, position: int, count: int) -> Found | None:
        """Return messages from a position below the start on; None: there are no older ones."""
        return None

    def forget(self, positions: Sequence[int]) -> int:
        """Remove settled messages; return the bytes of memory they took.

        Slots below the lowest message are freed, many at a time.
        """
        slots, first = self._slots, self._first
        freed = 0
        for position in positions:
            at = position - first
            message = slots[at] if at >= 0 else None
            if message is not None:
                freed += len(message.body) + len(message.header) + MESSAGE_BYTES
                slots[at] = None
        head, end = self._head, len(slots)
        stop = min(end, head + _PASS_MAX)
        while head < stop and slots[head] is None:
            head += 1
        if head >= _TRIM_AT and 2 * head >= end:
            del slots[:head]
            self._first += head
            head = 0
        self._head = head
        return freed

    def take_first(self, size: int, least: int) -> Stretch | None:
        """Remove about `size` bytes of messages from the start.

        Returns None and removes nothing if there are fewer than `least` bytes.
        """
        slots, head = self._slots, self._head
        stop, end, found = head, len(slots), 0
        while stop < end and found < size:
            message = slots[stop]
            found += 0 if message is None else size_of(message)
            stop += 1
        if found < least:
            return None
        taken = slots[head:stop]
        slots[head:stop] = [None] * len(taken)
        start = self.start
        self.forget(())
        return start, taken, found

    def take_last(self, size: int, least: int) -> Stretch | None:
        """Remove messages from the end, as `take_first` does from the start, with their slots."""
        slots, head = self._slots, self._head
        start, found = len(slots), 0
        while start > head and found < size:
            start -= 1
            message = slots[start]
            found += 0 if message is None else size_of(message)
        if found < least:
            return None
        taken = slots[start:]
        del slots[start:]
        return self._first + start, taken, found
