"""The ready messages of one priority, in the order in which they go out.

Not the cursor with holes that share groups use (`delivery/cursor.py`): it keeps what
is out as runs with leases, so a delivery and its acknowledgement rewrite its map twice, 20 to 40 µs
a message. Here the channel knows who holds what, by delivery tags. What is left for the queue is a
mark up to which all was handed out, a heap of what came back, and the store, which alone knows
which positions are settled.
"""

import sys
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from headrace.queues.engine.requeued_positions import ReturnedPositions
from headrace.queues.message_store import MessageStore
from headrace.wire.amqp.content import Message


class Taken(NamedTuple):
    """Messages that are ready no longer, in their order."""

    level: "MessageLevel"
    positions: Sequence[int]
    messages: Sequence[Message]
    sizes: Sequence[int]
    """Bytes of their bodies."""
    redelivered: bool
    """They may have been handed out before."""


class MessageLevel:
    """The messages of one queue that have one priority."""

    __slots__ = (
        "_redelivered_below", "claimed", "fresh", "next", "priority", "returned", "returns",
        "store",
    )  # fmt: skip

    def __init__(self, priority: int, store: MessageStore) -> None:
        kept = store.kept()
        self.priority = priority
        self.store = store
        self.next = kept.start
        """What is ready from here on was never taken, below is in `returned`."""
        self.fresh = kept.ready
        """How many messages are ready from `next` on."""
        self.claimed = 0
        """How many of these, the first, do not expire: a consumer could take each of them when it
        was published, and waits only for the broker's own write."""
        self.returned = ReturnedPositions()
        """Positions that were given back."""
        self.returns: dict[int, int] = dict(kept.returns)
        """How often they were, where a delivery limit asks."""
        self._redelivered_below = kept.handed_out

    @property
    def ready(self) -> int:
        """How many messages are ready."""
        return self.fresh + len(self.returned)

    def head(self) -> int | None:
        """Return the position of the next message; None: there is none, or not at hand."""
        if not self.ready:
            return None
        # Also what came back is read: its expiry may be known from then on only.
        positions, _ = self.store.read(self.returned.lowest if self.returned else self.next, 1)
        return positions[0] if positions else None

    @property
    def head_is_claimed(self) -> bool:
        """Whether the next message does not expire before consumers were offered it."""
        return self.claimed > 0 and not self.returned

    def take(self, count: int, bytes_max: int, now: float = 0.0) -> Taken | None:
        """Take the next messages that are at hand: `count`, and `bytes_max` but for the first.

        All of them were handed out before, or none was. None: nothing is at hand. Behind the first
        none is taken that is of age by `now`, nor what follows it; 0: none has an age.
        """
        taken = self._take_returned(count, bytes_max, now)
        return taken or self._take_fresh(count, bytes_max, now)

    def take_below(self, below: int, count: int) -> Taken | None:
        """Take the next messages below a position; None: there are none, empty: not at hand."""
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
        """Have positions that were taken ready again."""
        self.returned.add(positions)

    def clear(self) -> None:
        """Settle all that is ready."""
        self.store.settle(self.returned.take_all())
        self.store.settle(range(self.next, self.store.end))
        self.next = self.store.end
        self.fresh = self.claimed = 0

    def settle(self, positions: Sequence[int]) -> None:
        """Settle what was taken."""
        self.store.settle(positions)
        if self.returns:
            for position in positions:
                self.returns.pop(position, None)

    def _is_of_age(self, position: int, now: float) -> bool:
        expires_at = self.store.expires_at(position)
        return expires_at is not None and expires_at < now

    def _take_fresh(self, count: int, bytes_max: int, now: float) -> Taken | None:
        """Take what was never taken, unless something came back that goes first."""
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
        """Take what came back, as far as it is at hand."""
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
    """Return how many of the first messages have no more bytes than allowed, at least one."""
    left = bytes_max
    for count, size in enumerate(sizes):
        left -= size
        if left < 0 and count:
            return count
    return len(sizes)
