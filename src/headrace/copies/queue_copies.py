"""`QueueCopies`: the copies of one led queue, and what all members of its maximal ISR have."""

from collections import deque
from collections.abc import Callable, Iterator, Set
from typing import TYPE_CHECKING

from headrace.copies.frame_copy import FrameCopy
from headrace.delivery.settled_state import NO_FRAME
from headrace.model.nouns import BrokerId

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.broker.replica.leader_term import LeaderTerm
    from headrace.ports.clock import Clock
    from headrace.queue_stores.log.settlement import Settlement
    from headrace.queue_stores.log.settlement_frame import SettlementFrame

LATE_SECONDS = 1.0
"""Seconds after which a frame that a member has not confirmed stops the queue's deliveries."""
JOIN_SECONDS = LATE_SECONDS / 2
"""Seconds after which a frame is confirmed without a replica that is about to join the ISR."""


class QueueCopies:
    """The copies of one queue's frames. Implements `copies_port.FrameCopies`."""

    def __init__(
        self,
        partition: "Partition",
        settlement: "Settlement",
        own: BrokerId,
        clock: "Clock",
        changed: Callable[["QueueCopies"], None],
        further: Callable[["QueueCopies"], None],
    ) -> None:
        """Begin without copies.

        `changed` is called when there is something to send, `further` when that is a frame with
        a higher limit for deliveries.
        """
        self.by_broker: dict[BrokerId, FrameCopy] = {}
        self.ended = False
        self._partition = partition
        self._settlement = settlement
        self._own = own
        self._clock = clock
        self._changed = changed
        self._further = further
        self._limit = 0
        """The limit for deliveries in the last frame that is durable here."""
        self._written = 0
        """The number of the last frame that is durable here."""
        self._confirmed = 0
        """The number of the last frame that all members have durably; 0: none of this leader."""
        self._taken: deque[tuple[int, float]] = deque()
        """Numbers and monotonic seconds of the frames that not all members have."""
        self._joining: set[BrokerId] = set()
        """Replicas that have caught up and are not in the ISR yet."""
        self._begin_copies()

    @property
    def term(self) -> "LeaderTerm | None":
        """The leader's term; None: no other replicas, or this broker does not lead."""
        return self._partition.role.term

    @property
    def has_unconfirmed(self) -> bool:
        """Whether a member lacks a frame."""
        return bool(self._taken)

    def _begin_copies(self) -> None:
        """Have a copy for each other replica, and none for others."""
        term = self.term
        others = frozenset[BrokerId]() if term is None else term.assigned - {self._own}
        if others != self.by_broker.keys():
            kept = self.by_broker
            self._joining &= others
            self.by_broker = {
                broker: kept.get(broker) or FrameCopy(self._partition) for broker in others
            }
            self._changed(self)

    def taken(self, frame: "SettlementFrame") -> None:
        """Note that a frame is being written here."""
        self._taken.append((frame.number, self._clock.monotonic()))
        self._changed(self)

    def written(self, frame: "SettlementFrame") -> None:
        """Copy a frame that is durable here."""
        if self.ended:
            return
        self._begin_copies()
        self._written = frame.number
        for copy in self.by_broker.values():
            copy.add(frame.name, frame.content, whole=frame.whole)
        self._changed(self)
        if frame.handed_out > self._limit:
            self._further(self)
        self._limit = frame.handed_out
        self._advance()

    def may_join(self, broker: BrokerId) -> bool:
        """Return whether a replica has all that members of the ISR have confirmed.

        A replica that lacks a complete frame is then sent one. One that has caught up is waited
        for, as if it were a member: else a leader that is alone would always be ahead of it.
        """
        if self.ended:
            return False
        self._begin_copies()
        copy = self.by_broker.get(broker)
        if copy is None:
            return False
        if copy.needs_whole:
            self._changed(self)
        if copy.is_caught_up:
            self._joining.add(broker)
        return broker in self._waited_for() and copy.confirmed.number >= max(self._confirmed, 1)

    def want_whole(self) -> None:
        """Have a complete frame written for a copy that needs one."""
        self._settlement.want_whole()

    def confirm(self) -> None:
        """Have the queue deliver if members of the ISR have confirmed frames, or have left."""
        if self._advance():
            self._settlement.report()

    def _advance(self) -> bool:
        """Tell the settlement up to which frame all members of the maximal ISR have it.

        With a frame that a member lacks for LATE_SECONDS the queue must not deliver. Returns
        whether something has changed.
        """
        if self.ended or self._partition.refusal is not None:
            return False
        if self._oldest_seconds() >= JOIN_SECONDS:
            self._joining.clear()
            for copy in self.by_broker.values():
                copy.is_caught_up &= copy.confirmed.number >= self._taken[0][0]
        lowest = min(self._numbers())
        taken = self._taken
        while taken and taken[0][0] <= lowest:
            taken.popleft()
        settlement, may_deliver = self._settlement, self._oldest_seconds() < LATE_SECONDS
        if lowest <= self._confirmed and may_deliver == settlement.may_deliver:
            return False
        self._confirmed = max(self._confirmed, lowest)
        settlement.confirm(self._confirmed)
        settlement.may_deliver = may_deliver
        return True

    def _oldest_seconds(self) -> float:
        """Return the age of the oldest frame that not all have confirmed."""
        return self._clock.monotonic() - self._taken[0][1] if self._taken else 0.0

    def _waited_for(self) -> Set[BrokerId]:
        """Return the members of the maximal ISR, and replicas that are about to join it."""
        term = self.term
        return self._joining if term is None else self._joining | term.maximal

    def _numbers(self) -> Iterator[int]:
        """Yield the last number that each replica has confirmed which is waited for."""
        yield self._written
        for broker in self._waited_for():
            if broker != self._own:
                copy = self.by_broker.get(broker)
                yield NO_FRAME.number if copy is None else copy.confirmed.number
