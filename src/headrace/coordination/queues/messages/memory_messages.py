"""Messages of transient and exclusive queues: in memory, up to a bound of all, then spilled.

Nothing is dropped at the bound. A message above it goes to the spill, its place in the order stays
here; without a spill it is refused, and whoever published it is told. Publishers are stopped long
before (`memory_use`).
"""

from collections.abc import Hashable, Sequence
from typing import Protocol, cast

from headrace.coordination.queues.message_store import Kept
from headrace.coordination.queues.messages.memory_use import SWEEP_MESSAGES, MemoryUse
from headrace.coordination.queues.queue_settings import Published
from headrace.model.errors import HeadraceError
from headrace.wire.amqp.content import Message

MESSAGE_BYTES = 200
"""What a message takes beside its body and its header: objects, and its place here."""
_TRIM_AT = 1024
_PASS_MAX = 100_000
"""How many empty places one call passes over."""
_ALL_MESSAGES = frozenset({Message})


class MemoryFull(HeadraceError):
    """The queues in memory are at their bound and there is nowhere to spill to."""


class Spill(Protocol):
    """Keeps messages for which there is no room in memory."""

    def put(self, message: Message) -> Hashable:
        """Keep a message; returns what it is asked for by."""

    def get(self, key: Hashable) -> Message | None:
        """Return a message; None: it is being read, the store's owner is told when it is there."""

    def drop(self, key: Hashable) -> None:
        """Forget a message."""


class _Spilled:
    """The place of a message that is elsewhere."""

    __slots__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        self.key = key


class MemoryMessages:
    """A message store that is gone with the process."""

    __slots__ = ("_expiries", "_first", "_head", "_slots", "_spill", "_unswept", "_use", "bytes")

    def __init__(self, use: MemoryUse, *, spill: Spill | None = None) -> None:
        """`use`: that of all queues together."""
        self.bytes = 0
        """What is in memory takes so much."""
        self._use = use
        self._unswept: list[range | list[int]] = []
        """Positions that are settled, whose messages are still here; the highest first."""
        self._spill = spill
        self._slots: list[Message | _Spilled | None] = []
        """Position `_first` + i is at i; None: settled. All below `_head` are."""
        self._first = 0
        self._head = 0
        self._expiries: dict[int, float] = {}

    @property
    def end(self) -> int:
        """The position above all that are kept."""
        return self._first + len(self._slots)

    def kept(self) -> Kept:
        """Return that there is nothing: memory does not outlive its queue."""
        return Kept()

    def append(self, published: Published, expires_at: float | None) -> int:
        """Keep a message; returns its position. MemoryFull."""
        message = published.message
        size = len(message.body) + len(message.header) + MESSAGE_BYTES
        slots, use = self._slots, self._use
        if use.bytes + size <= use.bytes_hard_max:
            self.bytes += size
            use.bytes += size
            slots.append(message)
        elif self._spill is not None:
            slots.append(_Spilled(self._spill.put(message)))
        else:
            raise MemoryFull(
                f"queues in memory hold {use.bytes} bytes and may hold {use.bytes_hard_max}: "
                "consume from them, or set amqp.memory.bytes.max higher"
            )
        position = self._first + len(slots) - 1
        if expires_at is not None:
            self._expiries[position] = expires_at
        return position

    def read(self, position: int, count: int) -> tuple[Sequence[int], Sequence[Message]]:
        """Return the lowest unsettled positions and messages from `position` on."""
        at = max(position - self._first, self._head)
        slots = self._slots
        found = slots[at : at + count]
        if _ALL_MESSAGES.issuperset(map(type, found)):
            start = self._first + at
            return range(start, start + len(found)), cast(list[Message], found)
        positions: list[int] = []
        messages: list[Message] = []
        for index in range(at, len(slots)):
            slot = slots[index]
            if slot is None:
                continue
            message = slot if type(slot) is Message else self._spilled(slot)
            if message is None or len(positions) == count:
                break
            positions.append(self._first + index)
            messages.append(message)
        return positions, messages

    def settle(self, positions: Sequence[int]) -> None:
        """Forget messages; where they are many they go from memory a few at a time."""
        if len(positions) <= SWEEP_MESSAGES:
            self._forget(positions)
        else:
            # The lowest last: those taken out first leave no gap below the others.
            self._unswept.append(
                positions[::-1] if type(positions) is range else [*positions][::-1]
            )
            self._use.to_sweep(self)

    def drop(self) -> None:
        """Forget all, also what is out: the queue is deleted."""
        self.settle(range(self._first + self._head, self.end))

    def sweep(self, count: int) -> int:
        """Let messages go that were settled. `memory_use.Sweepable`."""
        settled = self._unswept.pop()
        self._forget(settled[-count:][::-1])
        if type(settled) is list:
            del settled[-count:]
        else:
            settled = settled[:-count]
        if settled:
            self._unswept.append(settled)
        return sum(map(len, self._unswept))

    def _forget(self, positions: Sequence[int]) -> None:
        slots, first = self._slots, self._first
        freed = 0
        for position in positions:
            at = position - first
            message = slots[at] if at >= 0 else None
            if type(message) is Message:
                freed += len(message.body) + len(message.header) + MESSAGE_BYTES
                slots[at] = None
            elif message is not None:
                self._drop_spilled(message)
                slots[at] = None
        self.bytes -= freed
        self._use.bytes -= freed
        if self._expiries:
            for position in positions:
                self._expiries.pop(position, None)
        self._advance()

    def expires_at(self, position: int) -> float | None:
        """Return when a message expires, monotonic seconds; None: never."""
        return self._expiries.get(position)

    def note_handed_out(self, below: int) -> None:
        """Note nothing: after a restart there is nobody to be told."""

    def note_returned(self, position: int, count: int) -> None:
        """Note nothing: after a restart there is nobody to be told."""

    def _advance(self) -> None:
        """Give the places below the lowest unsettled message back, many at a time."""
        slots, head = self._slots, self._head
        end = len(slots)
        stop = min(end, head + _PASS_MAX)
        while head < stop and slots[head] is None:
            head += 1
        if head >= _TRIM_AT and 2 * head >= end:
            del slots[:head]
            self._first += head
            head = 0
        self._head = head

    def _spilled(self, slot: object) -> Message | None:
        if isinstance(slot, _Spilled) and self._spill is not None:
            return self._spill.get(slot.key)
        return None

    def _drop_spilled(self, slot: object) -> None:
        if isinstance(slot, _Spilled) and self._spill is not None:
            self._spill.drop(slot.key)
