"""Messages of transient and exclusive queues: in memory, and on disk while memory is short.

No message is dropped. Above a mark for all queues together, messages of the largest stores are
written to disk (`spill`). Publishers are blocked at a higher mark (`memory_use`), and above the
hard limit a message is refused.
"""

import logging
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from typing import Protocol

from headrace.model.errors import HeadraceError
from headrace.queue_stores.memory.memory_use import SWEEP_MESSAGES, MemoryUse, SpillPort
from headrace.queue_stores.memory.message_run import MESSAGE_BYTES, Found, MessageRun, Stretch
from headrace.queue_stores.memory.spill_extent import Extent
from headrace.queue_stores.memory.spilled_messages import SpilledMessages
from headrace.queue_stores.message_store import Kept
from headrace.queue_stores.queue_settings import Published

_logger = logging.getLogger(__name__)


class MemoryFull(HeadraceError):
    """The queues in memory are at their hard limit: a message is refused."""


class Owner(Protocol):
    """The queue of a store. Implemented by `hosted_queue.HostedQueue`."""

    title: str

    def readable(self) -> None:
        """Note that more messages can be read: a delivery may succeed."""

    def failed(self, error: HeadraceError) -> None:
        """Note that the store has failed: it accepts and returns no messages any more."""


class MemoryMessages(MessageRun):
    """An in-memory message store, lost with the process; the run itself has the newest messages."""

    __slots__ = ("_error", "_expiries", "_older", "_owner", "_unswept", "_use", "bytes")

    def __init__(self, use: MemoryUse) -> None:
        """Create an empty store. `use` counts the memory of the messages of all queues."""
        super().__init__()
        self.bytes = 0
        """Bytes of its messages in memory."""
        self._use = use
        self._owner: Owner | None = None
        self._error: HeadraceError | None = None
        """Why some of its messages cannot be read back; None: no failure."""
        self._unswept: list[range | list[int]] = []
        """Settled positions whose messages are still in memory, the highest first."""
        self._older: SpilledMessages | None = None
        """The older messages, of which some are on disk; None: all are in this run."""
        self._expiries: dict[int, float] = {}
        """Expiries in monotonic seconds of messages that are in no extent, by position."""

    def attach(self, owner: Owner) -> "MemoryMessages":
        """Set the queue of this message store; return the store."""
        self._owner = owner
        return self

    def kept(self) -> Kept:
        """Return empty contents: memory does not outlive its queue."""
        return Kept()

    def append(self, published: Published, expires_at: float | None) -> int:
        """Store a message; return its position. Raises MemoryFull, or the store's error."""
        message = published.message
        size = len(message.body) + len(message.header) + MESSAGE_BYTES
        slots, use = self._slots, self._use
        if use.bytes + size > use.spill_at or self._error is not None:
            self._check_room(size)
        self.bytes += size
        use.bytes += size
        slots.append(message)
        position = self._first + len(slots) - 1
        if expires_at is not None:
            self._expiries[position] = expires_at
        return position

    def _check_room(self, size: int) -> None:
        use = self._use
        if self._error is not None:
            raise self._error
        if use.bytes + size > use.bytes_hard_max:
            raise MemoryFull(
                f"queues in memory hold {use.bytes} bytes and may hold {use.bytes_hard_max}: "
                "consume from them, or set amqp.memory.bytes.max higher"
            )
        if use.spill is not None:
            use.spill.note_grown(self)

    def _read_older(self, position: int, count: int) -> Found | None:
        if self._older is None:
            return None
        return self._older.read(position, count) if self._error is None else ((), ())

    def settle(self, positions: Sequence[int]) -> None:
        """Settle messages; many of them leave memory in parts (`sweep`)."""
        if len(positions) <= SWEEP_MESSAGES:
            self._forget(positions)
        else:
            # The lowest come last: removed first, they leave no gap below the others.
            self._unswept.append(
                positions[::-1] if type(positions) is range else [*positions][::-1]
            )
            self._use.to_sweep(self)

    def drop(self) -> None:
        """Delete all messages, delivered ones too: the queue is deleted."""
        self._owner = None
        start = self.start if self._older is None else self._older.start
        self.settle(range(start, self.end))

    def sweep(self, count: int) -> int:
        """Free up to `count` settled messages; return how many are left.

        Implements `memory_use.Sweepable`.
        """
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
        if self._expiries:
            for position in positions:
                self._expiries.pop(position, None)
        if self._older is not None:
            positions = self._forget_older(self._older, positions)
        freed = self.forget(positions)
        self.bytes -= freed
        self._use.bytes -= freed

    def _forget_older(self, older: SpilledMessages, positions: Sequence[int]) -> Sequence[int]:
        """Settle positions of older messages; return the positions of this run."""
        if type(positions) is not range:
            positions = sorted(positions)
        below = bisect_left(positions, self.start)
        older.forget(positions[:below])
        if older.is_empty:
            self._older = None
        return positions[below:]

    def expires_at(self, position: int) -> float | None:
        """Return the expiry of a message in memory, in monotonic seconds; None: none."""
        expires_at = self._expiries.get(position)
        if expires_at is None and self._older is not None:
            return self._older.expires_at(position)
        return expires_at

    def note_handed_out(self, below: int) -> None:
        """Note that messages below a position may have been delivered."""
        if self._older is not None:
            self._older.note_handed_out(below)

    def note_returned(self, position: int, count: int) -> None:
        """Ignore the count of requeues: it does not outlive the process."""

    # Spilling to disk

    def cut(self, size: int) -> list[Extent]:
        """Remove messages needed last, to be written to disk. Implements `memory_use.Spillable`."""
        older, spill = self._older, self._use.spill
        if spill is None or self._unswept:
            return []
        if older is None:
            older = self._older = SpilledMessages(self, spill, self.split())
        extents: list[Extent] = []
        while size > 0 and (stretch := self._stretch(spill, older.front)) is not None:
            base, slots, _ = stretch
            extent = Extent(older, stretch, self._take_expiries(base, len(slots)))
            older.add(extent)
            extents.append(extent)
            size -= extent.full
        return extents

    def _stretch(self, spill: SpillPort, front: MessageRun) -> Stretch | None:
        """Remove the messages to write next: the newest, the last of the oldest, then rests."""
        size, least = spill.extent_bytes, spill.extent_bytes_min
        return (
            self.take_first(size, size)
            or front.take_last(size, least)
            or self.take_first(size, least)
        )

    def _take_expiries(self, base: int, count: int) -> "array[float] | None":
        expiries = self._expiries
        if not expiries:
            return None
        found = array("d", [expiries.pop(each, inf) for each in range(base, base + count)])
        return found if min(found) < inf else None

    # `spilled_messages.Store`

    def note_bytes(self, size: int) -> None:
        """Count `size` more bytes of memory of the queue's messages (negative: fewer)."""
        self.bytes += size
        self._use.bytes += size

    def readable(self) -> None:
        """Have the queue deliver: more messages can be read."""
        if self._owner is not None:
            self._owner.readable()

    def failed(self, error: Exception) -> None:
        """Refuse all later publishes and reads: messages on disk cannot be read back."""
        if self._owner is None or self._error is not None:
            return
        self._error = HeadraceError(f"messages that were on disk cannot be read back: {error}")
        _logger.error(
            "%s: %s. The queue is unavailable: check the disk of log.dirs, then delete the queue"
            " and declare it again", self._owner.title, self._error,
        )  # fmt: skip
        self._owner.failed(self._error)
