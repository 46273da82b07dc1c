"""The ready messages of one priority, in the order of delivery.

    positions   ... settled, unacknowledged or in `returned` ... | ready, never delivered ...
                                                                 ^ next           store.end ^

The cursor of share groups (`delivery/cursor.py`) is not used here: it stores acquired
offsets as runs with leases, so a delivery and its acknowledgement rewrite its map twice, 20 to 40
µs a message. In AMQP the channel maps delivery tags to consumers. The queue needs only the position
below which all was delivered, a heap of requeued positions, and the store, which alone knows the
settled positions.
"""

import sys
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from headrace.queue_stores.message_store import Kept, MessageStore
from headrace.queues.engine.requeued_positions import ReturnedPositions
from headrace.wire.amqp.content import Message


class Taken(NamedTuple):
    """Ready messages taken from a priority level for delivery, in their order."""

    level: "MessageLevel"
    positions: Sequence[int]
    messages: Sequence[Message]
    sizes: Sequence[int]
    """Bytes of the messages' bodies."""
    redelivered: bool
    """Whether the messages may have been delivered before."""


class MessageLevel:
    """The ready messages of a queue that have one priority."""

    __slots__ = (
        "_redelivered_below", "claimed", "fresh", "next", "priority", "returned", "returns",
        "store",
    )  # fmt: skip

    def __init__(self, priority: int, store: MessageStore) -> None:
        kept = store.kept()
        self.priority = priority
        self.store = store
        self.next = kept.start
        """Position of the first message never taken; ready ones below are in `returned`."""
        self.fresh = kept.ready
        """Number of ready messages from `next` on."""
        self.claimed = 0
        """Number of the first fresh messages that do not expire.

        A consumer had credit for each of them when it was published: they wait only for the
        broker's own write.
        """
        self.returned = ReturnedPositions()
        """Positions that were requeued."""
        self.returns: dict[int, int] = dict(kept.returns)
        """Number of requeues by position, where the queue has a delivery limit."""
        self._redelivered_below = kept.handed_out

    def open(self, store: MessageStore) -> Kept:
        """Use the queue's log, which is open now; return its contents, which go first."""
        kept = store.kept()
        self.store = store
        self.next = kept.start
        self.fresh += kept.ready
        if kept.ready:
            self.claimed = 0
        self.returns = dict(kept.returns)
        self._redelivered_below = kept.handed_out
        return kept

    @property
    def ready(self) -> int:
        """Number of ready messages of this priority, requeued ones included."""
        return self.fresh + len(self.returned)

    def head(self) -> int | None:
        """Return the position of the next message; None: none is ready, or it is not loaded yet."""
        if not self.ready:
            return None
        # A requeued message is read, too: its expiry may be known only from then on.
        positions, _ = self.store.read(self.returned.lowest if self.returned else self.next, 1)
        return positions[0] if positions else None

    @property
    def head_is_claimed(self) -> bool:
        """Whether the next message does not expire before consumers were offered it."""
        return self.claimed > 0 and not self.returned

    def take(self, count: int, bytes_max: int, now: float = 0.0) -> Taken | None:
        """Take the next loaded messages: at most `count`, and `bytes_max` bytes but for the first.

        Either all were delivered before, or none was. Returns None if no message is ready and
        loaded. Behind the first message, those expired by `now` (monotonic seconds) and all after
        are not taken; with `now` 0 no expiry is checked.
        """
        taken = self._take_returned(count, bytes_max, now)
        return taken or self._take_fresh(count, bytes_max, now)

    def take_below(self, below: int, count: int) -> Taken | None:
        """Take the next messages below a position; None: none are left; empty: not loaded yet."""
        if self.returned:
            if self.returned.lowest < below:
                taken = self._take_returned(count, sys.maxsize, 0.0, below)
                return taken or Taken(self, (), (), (), True)
            return None
        if not self.fresh or self.next >= below:
            return None
        positions, _ = self.store.read(self.next, min(count, self.fresh))
        if not positions:
            return Taken(self, (), (), (), False)
        wanted = bisect_left(positions, below)
        return self._take_fresh(wanted, sys.maxsize, 0.0) if wanted else None

    def give_back(self, positions: Sequence[int]) -> None:
        """Make requeued positions ready again."""
        self.returned.add(positions)

    def clear(self) -> None:
        """Settle all ready messages of this priority (a purge)."""
        self.store.settle(self.returned.take_all())
        self.store.settle(range(self.next, self.store.end))
        self.next = self.store.end
        self.fresh = self.claimed = 0

    def settle(self, positions: Sequence[int]) -> None:
        """Settle delivered positions in the store, and drop their counts of requeues."""
        self.store.settle(positions)
        if self.returns:
            for position in positions:
                self.returns.pop(position, None)

    def _is_of_age(self, position: int, now: float) -> bool:
        expires_at = self.store.expires_at(position)
        return expires_at is not None and expires_at < now

    def _take_fresh(self, count: int, bytes_max: int, now: float) -> Taken | None:
        """Take messages that were never taken, unless a requeued one goes first."""
        if self.returned or not self.fresh:
            return None
        positions, messages = self.store.read(self.next, min(count, self.fresh))
        if not positions:
            return None
        redelivered = positions[0] < self._redelivered_below
        if redelivered:
            count = sum(position < self._redelivered_below for position in positions)
            positions, messages = positions[:count], messages[:count]
        if now:
            first = max(self.claimed, 1)
            of_age = (
                first + at
                for at, each in enumerate(positions[first:])
                if self._is_of_age(each, now)
            )
            count = next(of_age, len(positions))
            positions, messages = positions[:count], messages[:count]
        sizes = [len(message.body) for message in messages]
        if sum(sizes) > bytes_max:
            count = _fitting(sizes, bytes_max)
            positions, messages, sizes = positions[:count], messages[:count], sizes[:count]
        self.fresh -= len(positions)
        self.claimed = max(self.claimed - len(positions), 0)
        self.next = positions[-1] + 1
        self.store.note_handed_out(self.next)
        return Taken(self, positions, messages, sizes, redelivered)

    def _take_returned(
        self, count: int, bytes_max: int, now: float, below: int = sys.maxsize
    ) -> Taken | None:
        """Take requeued messages, lowest position first, as far as they are loaded."""
        positions: list[int] = []
        messages: list[Message] = []
        sizes: list[int] = []
        left = bytes_max
        while self.returned and len(positions) < count and self.returned.lowest < below:
            _, found = self.store.read(self.returned.lowest, 1)
            if not found:
                break
            size = len(found[0].body)
            left -= size
            if positions and (left < 0 or (now and self._is_of_age(self.returned.lowest, now))):
                break
            positions.append(self.returned.pop())
            messages.append(found[0])
            sizes.append(size)
        return Taken(self, positions, messages, sizes, True) if positions else None


def _fitting(sizes: Sequence[int], bytes_max: int) -> int:
    """Return how many of the first messages fit into `bytes_max` bytes, at least 1."""
    left = bytes_max
    for count, size in enumerate(sizes):
        left -= size
        if left < 0 and count:
            return count
    return len(sizes)
