"""A queue's consumers: their credit, the order of their turns, the single active consumer.

Consumers of the highest priority go first; those of equal priority that have credit get a message
each in turn (round robin). A consumer without credit is parked, that is, removed from its ring
until its channel grants credit, so a delivery costs nothing for consumers that cannot take it.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator

from headrace.queues.port import Consumer, Subscriber
from headrace.queues.refusals import QUEUE, RefusalKind, Refused

_RING_SEARCHED_MAX = 64
"""Longest ring from which a cancelled consumer is removed by a search.

In longer rings it stays until its turn, and is skipped then: to search a ring for each of a hundred
thousand consumers of a closing channel would take minutes.
"""


class Consumers:
    """All consumers of one queue, in rings by priority."""

    __slots__ = (
        "_all", "_exclusive", "_gone", "_hands_over", "_rings", "_single", "_waiting", "active",
        "paused",
    )  # fmt: skip

    def __init__(self, single_active: bool, *, hands_over: bool = False) -> None:
        """Create an empty table of consumers.

        `hands_over`: the active consumer makes way for one of a higher priority.
        """
        self._all: dict[Consumer, None] = {}
        self._rings: dict[int, deque[Consumer]] = {}
        self._single = single_active
        self._hands_over = hands_over
        self._waiting: dict[int, OrderedDict[Consumer, None]] = {}
        """All consumers of a queue with a single active one, by priority, then age."""
        self._gone = 0
        """Upper bound of the cancelled consumers that are still in rings."""
        self._exclusive = False
        self.active: Consumer | None = None
        """The single active consumer; None: none is registered, or the queue has no such mode."""
        self.paused = False
        """Whether the active consumer stays as it is, until `begin`."""

    def __len__(self) -> int:
        """Return the number of consumers."""
        return len(self._all)

    def __iter__(self) -> Iterator[Consumer]:
        """Yield all consumers, the oldest first."""
        return iter(self._all)

    def __contains__(self, consumer: Consumer) -> bool:
        """Tell whether a consumer is registered on this queue."""
        return consumer in self._all

    def add(self, consumer: Consumer, title: str) -> None:
        """Add a consumer; raise Refused if another one is exclusive, or this one and not alone."""
        in_use = self._exclusive or (consumer.exclusive and (self._single or self._all))
        if in_use:
            raise Refused(RefusalKind.IN_EXCLUSIVE_USE, QUEUE, f"{title} in exclusive use")
        self._all[consumer] = None
        self._exclusive = consumer.exclusive
        if not self._single:
            self.enter(consumer)
            return
        self._wait(consumer)
        active = self.active
        if active is None or (self._hands_over and consumer.priority > active.priority):
            self._look_for_active()
        elif consumer.active:
            self._mark(consumer, active=False)  # another one was chosen before it came

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; a single active one is replaced by the next by priority, then age."""
        del self._all[consumer]
        consumer.gone = True
        consumer.channel.forget(consumer)
        if consumer.exclusive:
            self._exclusive = False
        ring = self._rings.get(consumer.priority)
        if ring is not None:
            self._leave(ring, consumer)
        if not self._single:
            return
        waiting = self._waiting[consumer.priority]
        del waiting[consumer]
        if not waiting:
            del self._waiting[consumer.priority]
        if consumer is self.active:
            self.active = None
        if self.active is None or self.active.hands_over:
            self._look_for_active()

    def enter(self, consumer: Consumer) -> None:
        """Put a consumer that has credit at the end of its priority's ring.

        A consumer that is to hand over holds no delivery any more: the next active one is chosen
        instead.
        """
        if consumer.hands_over:
            self._look_for_active()
            return
        ring = self._rings.get(consumer.priority)
        if ring is None:
            self._rings[consumer.priority] = deque((consumer,))
            self._rings = dict(sorted(self._rings.items(), reverse=True))
        else:
            ring.append(consumer)

    def next_ring(self) -> deque[Consumer] | None:
        """Return the ring of the highest priority with a consumer that has credit, or None.

        Consumers at the head of a ring that have no credit are parked.
        """
        rings = self._rings
        while rings:
            priority, ring = next(iter(rings.items()))
            while ring:
                if ring[0].credit() > 0:
                    return ring
                self._leave_out(ring.popleft())
            del rings[priority]
        return None

    def can_take(self, count: int) -> bool:
        """Tell whether consumers have credit for `count` messages together.

        Consumers that share their channel's credit are each counted with all of it, so the answer
        may be True though the credit is smaller.
        """
        for ring in self._rings.values():
            for consumer in ring:
                count -= max(consumer.credit(), 0)
                if count <= 0:
                    return True
        return False

    def take_turns(self, ring: deque[Consumer], count: int) -> tuple[list[Consumer], int]:
        """Take the next consumers out of a `next_ring`; return them and the turns that each has.

        At least one consumer and at most `count`. Each has credit for all its turns, also where
        several share their channel's credit. `end_turns` puts them back.
        """
        takers: list[Consumer] = []
        sharing: dict[Subscriber, int] = {}
        turns = count
        while ring and len(takers) < count:
            consumer = ring.popleft()
            credit = consumer.credit()
            if credit <= 0:
                self._leave_out(consumer)
                continue
            takers.append(consumer)
            turns = min(turns, credit)
            channel = consumer.channel
            if channel.prefetch or not consumer.no_ack:
                sharing[channel] = sharing.get(channel, 0) + 1
        for channel, number in sharing.items():
            turns = min(turns, (channel.limit - channel.unacked) // number)
        if turns == 0:  # a channel has credit, but not for all its consumers
            ring.extendleft(reversed(takers[1:]))
            return takers[:1], 1
        return takers, turns

    def end_turns(self, ring: deque[Consumer], takers: list[Consumer], served: int) -> None:
        """Put `takers` back into their ring after `served` messages; those served go to its end."""
        count = len(takers)
        waiting = takers[served % count :] if served < count or served % count else []
        ring.extendleft(reversed(waiting))
        ring.extend(takers[: count - len(waiting)])

    def begin(self) -> None:
        """Choose the active consumer again, as those of the pause have come and gone.

        A consumer that was the active one of the former leader stays it. Of several, as the news
        were under way, it is one that holds deliveries.
        """
        self.paused = False
        if not self._single or not self._all:
            return
        if self.active is None:
            former = max(self._all, key=lambda each: (each.unacked > 0, each.active))
            if former.unacked or former.active:
                self._activate(former)
        active = self.active
        highest = next(iter(self._waiting))
        outranked = active is not None and self._hands_over and highest > active.priority
        if active is None or active.hands_over or outranked:
            self._look_for_active()
        for consumer in self._all:
            if consumer.active and consumer is not self.active:
                self._mark(consumer, active=False)

    def _look_for_active(self) -> None:
        """Choose the active consumer: the current one, unless a higher priority takes over.

        An active consumer with unacknowledged deliveries is parked and hands over once it has none.
        """
        active = self.active
        if not self._all or self.paused:
            return
        best = next(iter(next(iter(self._waiting.values()))))
        if active is None:
            self._activate(best)
        elif not self._hands_over or best.priority <= active.priority:
            self._activate(active)  # the consumer of a higher priority has left
        elif active.unacked:
            if not active.hands_over:
                self._leave_ring(active)
                active.hands_over = True
                active.channel.park(active)
        else:
            self._leave_ring(active)
            self._waiting[active.priority].move_to_end(active)
            self._mark(active, active=False)
            self._activate(best)
            active.hands_over = False

    def _activate(self, consumer: Consumer) -> None:
        consumer.channel.forget(consumer)
        consumer.hands_over = False
        self.active = consumer
        if not consumer.active:
            self._mark(consumer, active=True)
        self.enter(consumer)

    def _mark(self, consumer: Consumer, *, active: bool) -> None:
        consumer.active = active
        consumer.channel.chosen(consumer)

    def _wait(self, consumer: Consumer) -> None:
        waiting = self._waiting.get(consumer.priority)
        if waiting is None:
            waiting = self._waiting[consumer.priority] = OrderedDict()
            self._waiting = dict(sorted(self._waiting.items(), reverse=True))
        waiting[consumer] = None

    def _leave_ring(self, consumer: Consumer) -> None:
        """Remove the active consumer, the only one of its ring, from the rings."""
        consumer.channel.forget(consumer)
        self._rings.pop(consumer.priority, None)

    def _leave(self, ring: deque[Consumer], consumer: Consumer) -> None:
        """Remove a cancelled consumer from its ring, or count it where the ring is long."""
        if len(ring) > _RING_SEARCHED_MAX:
            self._gone += 1
            if self._gone > len(self._all):
                self._clear_rings()
        elif consumer in ring:
            ring.remove(consumer)
            if not ring:
                del self._rings[consumer.priority]

    def _leave_out(self, consumer: Consumer) -> None:
        """Park a consumer without credit that was taken out of its ring, unless it is cancelled."""
        if consumer.gone:
            self._gone -= 1
        else:
            consumer.channel.park(consumer)

    def _clear_rings(self) -> None:
        """Remove all cancelled consumers from the rings."""
        self._gone = 0
        rings = {
            priority: deque(consumer for consumer in ring if not consumer.gone)
            for priority, ring in self._rings.items()
        }
        self._rings = {priority: ring for priority, ring in rings.items() if ring}
