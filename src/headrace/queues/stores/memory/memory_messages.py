"""Messages of transient and exclusive queues: in memory, and on disk where memory is short.

Nothing is dropped. From a mark of all queues together on, messages of the largest stores are
written to disk (`spill`); a message above the bound of all is refused, and whoever published it is
told. Publishers are stopped long before (`memory_use`).
"""

import logging
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from typing import Protocol

from headrace.model.errors import HeadraceError
from headrace.queues.message_store import Kept
from headrace.queues.queue_settings import Published
from headrace.queues.stores.memory.memory_use import SWEEP_MESSAGES, MemoryUse, SpillPort
from headrace.queues.stores.memory.message_run import MESSAGE_BYTES, Found, MessageRun, Stretch
from headrace.queues.stores.memory.spill_extent import Extent
from headrace.queues.stores.memory.spilled_messages import SpilledMessages

_logger = logging.getLogger(__name__)


class MemoryFull(HeadraceError):
    """The queues in memory are at their bound."""


class Owner(Protocol):
    """Whose messages they are. `hosted_queue.HostedQueue`."""

    title: str

    def readable(self) -> None:
        """Note that the store can be read further: handing out is worth a try."""

    def failed(self, error: HeadraceError) -> None:
        """Note that the store takes and gives nothing any more."""


class MemoryMessages(MessageRun):
    """A message store that is gone with the process. What it is itself are its newest messages."""

    __slots__ = ("_error", "_expiries", "_older", "_owner", "_unswept", "_use", "bytes")

    def __init__(self, use: MemoryUse) -> None:
        """`use`: that of all queues together."""
        super().__init__()
        self.bytes = 0
        """What is in memory takes so much."""
        self._use = use
        self._owner: Owner | None = None
        self._error: HeadraceError | None = None
        """Why some of its messages cannot be read back."""
        self._unswept: list[range | list[int]] = []
        """Positions that are settled, whose messages are still here; the highest first."""
        self._older: SpilledMessages | None = None
        """What lies below its own, where some of it is on disk; None: nothing is."""
        self._expiries: dict[int, float] = {}
        """Of messages that are in no extent."""

    def attach(self, owner: Owner) -> "MemoryMessages":
        """Say whose messages they are; returns the store."""
        self._owner = owner
        return self

    def kept(self) -> Kept:
        """Return that there is nothing: memory does not outlive its queue."""
        return Kept()

    def append(self, published: Published, expires_at: float | None) -> int:
        """Keep a message; returns its position. HeadraceError: MemoryFull, or why it failed."""
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
        self._owner = None
        start = self.start if self._older is None else self._older.start
        self.settle(range(start, self.end))

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
        if self._expiries:
            for position in positions:
                self._expiries.pop(position, None)
        if self._older is not None:
            positions = self._forget_older(self._older, positions)
        freed = self.forget(positions)
        self.bytes -= freed
        self._use.bytes -= freed

    def _forget_older(self, older: SpilledMessages, positions: Sequence[int]) -> Sequence[int]:
        """Settle what is not of its own; returns the others."""
        if type(positions) is not range:
            positions = sorted(positions)
        below = bisect_left(positions, self.start)
        older.forget(positions[:below])
        if older.is_empty:
            self._older = None
        return positions[below:]

    def expires_at(self, position: int) -> float | None:
        """Return when a message at hand expires, monotonic seconds; None: never."""
        expires_at = self._expiries.get(position)
        if expires_at is None and self._older is not None:
            return self._older.expires_at(position)
        return expires_at

    def note_handed_out(self, below: int) -> None:
        """Note that what lies below `below` may have been handed out."""
        if self._older is not None:
            self._older.note_handed_out(below)

    def note_returned(self, position: int, count: int) -> None:
        """Note nothing: after a restart there is nobody to be told."""

    # What goes to disk

    def cut(self, size: int) -> list[Extent]:
        """Give out messages that are needed last, to be written. `memory_use.Spillable`."""
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
        """Take what is next to be written: the newest, then the last of the oldest, then scraps."""
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
        """Note that messages take `size` bytes more in memory, or fewer."""
        self.bytes += size
        self._use.bytes += size

    def readable(self) -> None:
        """Have the queue hand out: messages are at hand that were not."""
        if self._owner is not None:
            self._owner.readable()

    def failed(self, error: Exception) -> None:
        """Take and give nothing any more: messages that were on disk cannot be read back."""
        if self._owner is None or self._error is not None:
            return
        self._error = HeadraceError(f"messages that were on disk cannot be read back: {error}")
        _logger.error(
            "%s: %s. It takes and gives nothing any more: delete it, and look after the disk of"
            " log.dirs", self._owner.title, self._error,
        )  # fmt: skip
        self._owner.failed(self._error)
