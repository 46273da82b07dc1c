"""A broker of the model of rights: it decides by `broker.replica.leading_rights`."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from headrace.broker.replica.held_rights import HeldRights
from headrace.broker.replica.leading_rights import LeadingRights
from headrace.model.nouns import NO_EPOCH, BrokerId, LeaderEpoch, TopicPartition

if TYPE_CHECKING:
    from headrace.broker.partition import Partition

KEY = (bytes(16), 0)
PARTITION = TopicPartition("t", 0)
REPORT_SECONDS = 0.002
"""Seconds within which a right that begins is reported."""


class State(NamedTuple):
    """The partition's state in the store."""

    epoch: LeaderEpoch
    leader: BrokerId
    in_sync: frozenset[BrokerId]
    version: int


class Timer:
    """A scheduled call of a broker. `ports.clock.Timer`."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def run(self) -> None:
        """Call, unless cancelled."""
        if self._callback is not None:
            self._callback()


class Clock:
    """A broker's clock in the model. `ports.clock.Clock`."""

    def __init__(
        self,
        now: Callable[[], float],
        after: Callable[[float, Callable[[], None]], None],
        speed: float,
    ) -> None:
        """`after` schedules a call in the model, whose time is `now`."""
        self._now = now
        self._after = after
        self._speed = speed

    def wall_ms(self) -> int:
        raise NotImplementedError

    def monotonic(self) -> float:
        return self._now() * self._speed

    def call_later(self, seconds: float, callback: Callable[[], None]) -> "Timer":
        timer = Timer(callback)
        self._after(seconds / self._speed, timer.run)
        return timer


class Term:
    """The ISR of a led partition, as its term has it."""

    def __init__(self, state: State, replicas: int) -> None:
        self.assigned = frozenset(map(BrokerId, range(replicas)))
        self.in_sync = self.maximal = state.in_sync
        self.isr_changed: Callable[[], None] = lambda: None


class Role:
    """A partition's role: the term that it leads in."""

    def __init__(self, term: Term) -> None:
        self.term = term


class Led:
    """The partition on its leader, as far as its right depends on it."""

    topic_id = KEY[0]
    topic_partition = PARTITION

    def __init__(self, state: State, replicas: int) -> None:
        self.leader_epoch = state.epoch
        self.role = Role(Term(state, replicas))


class Broker:
    """A broker's process: its orders, its view of the ISR, its rights."""

    def __init__(self, me: BrokerId, incarnation: int, clock: Clock, replicas: int) -> None:
        self.broker_id = me
        self.incarnation = incarnation
        self.clock = clock
        self.lease: Callable[[], bool] = lambda: False
        self.partitions: dict[TopicPartition, Led] = {}
        self.leader = self.former = BrokerId(-1)
        self.epoch = NO_EPOCH
        self.version = -1
        self.wanted: frozenset[BrokerId] | None = None
        """The ISR that the controller was asked for; None: no change is pending."""
        self.heard_at = float("-inf")
        self.ordered_in = 0
        """Session of the store in which the last order was received."""
        self.late_since = math.inf
        """Since when the right is held and not reported."""
        self._replicas = replicas
        broker: Any = self
        self.rights = LeadingRights(broker, lambda _: True, lambda _: self.lease(), clock.monotonic)
        self.held = HeldRights(self.rights, lambda: self.lease(), clock, clock.monotonic)

    @property
    def image(self) -> "Broker":
        return self

    def leader_of(self, partition: TopicPartition) -> BrokerId:
        """The leader in the metadata image."""
        return self.former

    @property
    def term(self) -> Term:
        """The term of the partition, which this broker leads."""
        return self.partitions[PARTITION].role.term

    def take(self, state: State, session: int) -> None:
        """Carry out an order."""
        if state.epoch < self.epoch:
            return
        self.ordered_in = session
        leads, later = state.leader == self.broker_id, state.epoch > self.epoch
        if later:
            self.epoch, self.leader = state.epoch, state.leader
            if leads:
                self.partitions[PARTITION] = Led(state, self._replicas)
        if leads and (later or state.version > self.version):
            self.committed(state)
        replicas = tuple(self.term.assigned) if leads else ()
        self.rights.ordered(PARTITION, KEY[0], state.epoch, replicas)
        if not leads:
            self.partitions.pop(PARTITION, None)

    def committed(self, state: State) -> None:
        self.term.in_sync = self.term.maximal = state.in_sync
        self.version = state.version
        self.wanted = None
        self.term.isr_changed()

    def holds(self) -> bool:
        """Whether the broker has the right; none is reported that it has not."""
        self.held.check()
        led = self.partitions.get(PARTITION)
        holds = led is not None and self.rights.holds(cast("Partition", led))
        reported = self.held.reported.get(PARTITION, False)
        assert holds or not reported, f"{self.broker_id} acts without a right"
        if holds == reported:
            self.late_since = math.inf
        else:
            now = self.clock.monotonic()
            self.late_since = min(now, self.late_since)
            assert now - self.late_since < REPORT_SECONDS, f"{self.broker_id} does not begin"
        return holds
