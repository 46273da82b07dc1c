"""A cluster with one partition, as far as the right to lead it depends on it; time is simulated.

A controller elects, rightly and on false suspicions; brokers have clocks of different speed, are
cut off and restarted; orders, pings and answers are late without bound, or lost. The brokers decide
by `broker.replica.leading_right`. After each event at most one of them may have the right.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from headrace.broker.replica.leading_right import (
    Grants,
    KnownEpochs,
    Leaderships,
    Leading,
    Ping,
    PingAnswer,
)
from headrace.model.nouns import NO_EPOCH, BrokerId, LeaderEpoch

KEY = (bytes(16), 0)
SESSION_SECONDS = 6.0
LEASE_SECONDS = SESSION_SECONDS * 2 / 3
PING_SECONDS = 0.15
STORE = -1
"""Stands for the metadata store among the links."""


class State(NamedTuple):
    """The partition's state in the store."""

    epoch: LeaderEpoch
    leader: BrokerId
    in_sync: frozenset[BrokerId]
    version: int


class Broker:
    """A broker's process: its orders, its view of the ISR, its grants."""

    def __init__(self, me: BrokerId, incarnation: int, speed: float) -> None:
        self.me = me
        self.incarnation = incarnation
        self.speed = speed
        self.known = KnownEpochs(incarnation)
        self.grants = Grants()
        self.leaderships = Leaderships(self.grants, lambda _: self.lease())
        self.lease: Callable[[], bool] = lambda: False
        self.leader = BrokerId(-1)
        self.epoch = NO_EPOCH
        self.in_sync: frozenset[BrokerId] = frozenset()
        self.maximal: frozenset[BrokerId] = frozenset()
        self.version = -1
        self.wanted: frozenset[BrokerId] | None = None
        """The ISR that the controller was asked for; None: no change is pending."""
        self.heard_at = float("-inf")
        self.ordered_in = 0
        """Session of the store in which the last order was received."""

    def take(self, state: State, session: int, now: float) -> bool:
        """Carry out an order; return whether the broker begins to lead by it."""
        if state.epoch < self.epoch:
            return False
        self.ordered_in = session
        leads = state.leader == self.me
        if state.epoch == self.epoch:
            if leads and state.version > self.version:
                self.committed(state)
            return False
        self.epoch, self.leader = state.epoch, state.leader
        self.known.learn(KEY, state.epoch)
        if not leads:
            self.leaderships.end(KEY, state.epoch, now)
            return False
        self.leaderships.lead(KEY, state.epoch, now)
        self.committed(state)
        return True

    def committed(self, state: State) -> None:
        self.in_sync = self.maximal = state.in_sync
        self.version = state.version
        self.wanted = None

    def holds(self, replicas: int, now: float) -> bool:
        others = self.maximal - {self.me}
        leading = Leading(KEY, self.epoch, others, len(self.in_sync), replicas)
        return self.leader == self.me and self.leaderships.holds(leading, now)


class RightsModel:
    """The cluster. `early_outside`: a planted fault, elections outside of the ISR."""

    def __init__(self, seed: int, *, early_outside: bool = False) -> None:
        self.random = random.Random(seed)
        self.count = 3 + seed % 2
        self.counts: Counter[str] = Counter()
        self._early_outside = early_outside
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        ids = [BrokerId(number) for number in range(self.count)]
        self.state = State(LeaderEpoch(0), ids[0], frozenset(ids), 0)
        self._heard = dict.fromkeys(ids, 0.0)
        self._sessions = dict.fromkeys(ids, 0)
        self._cut: set[tuple[int, int]] = set()
        self.brokers: dict[BrokerId, Broker] = {}
        for number in ids:
            self._start(number, 0)
        self._order(ids)
        self._after(1.0, self._trouble)

    def run(self, seconds: float) -> list[BrokerId]:
        """Run; return the brokers that had the right at the same time, or none."""
        while self._events and self._events[0][0] < seconds:
            self._now, _, event = heapq.heappop(self._events)
            event()
            now = self._now
            held = [
                broker.me
                for broker in self.brokers.values()
                if broker.holds(self.count, now * broker.speed)
            ]
            self.counts["held"] += len(held)
            if len(held) > 1:
                return held
        return []

    def _after(self, seconds: float, event: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self._now + seconds, self._number, event))

    def _late(self) -> float:
        drawn = self.random.random()
        return self.random.uniform(0, 0.01 if drawn < 0.9 else 0.5 if drawn < 0.98 else 6.0)

    def _arrives(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self._cut and self.random.random() < 0.97

    # The brokers

    def _start(self, number: BrokerId, incarnation: int) -> None:
        broker = Broker(number, incarnation, 1 + self.random.uniform(-0.02, 0.02))
        broker.lease = lambda: self._lease(broker)
        broker.heard_at = self._clock(broker)
        self.brokers[number] = broker
        self._repeat(broker, PING_SECONDS, self._ping)
        self._repeat(broker, SESSION_SECONDS * 0.15, self._beat)
        self._repeat(broker, 0.05, self._fetch)

    def _repeat(self, broker: Broker, seconds: float, work: Callable[[Broker], None]) -> None:
        def again() -> None:
            if self.brokers[broker.me] is broker:
                work(broker)
                self._after(seconds, again)

        self._after(0, again)

    def _clock(self, broker: Broker) -> float:
        return self._now * broker.speed

    def _lease(self, broker: Broker) -> bool:
        lives = self._clock(broker) - broker.heard_at < LEASE_SECONDS
        return lives and broker.ordered_in == self._sessions[broker.me]

    def _beat(self, broker: Broker) -> None:
        """Reach the store; after the end of the session a new one begins."""
        me = broker.me
        if (me, STORE) in self._cut:
            return
        ended = not self._registered(me)
        self._heard[me], broker.heard_at = self._now, self._clock(broker)
        if ended:
            self._sessions[me] += 1
            self._order([me])

    def _ping(self, broker: Broker) -> None:
        for other in self.brokers:
            if other != broker.me and self._arrives(broker.me, other):
                self._send_ping(broker, other, broker.grants.ping(other), self._clock(broker))

    def _send_ping(self, broker: Broker, other: BrokerId, ping: Ping, sent_at: float) -> None:
        def pinged() -> None:
            answer = self.brokers[other].known.answer(ping)
            if self._arrives(other, broker.me):
                self._after(self._late(), lambda: answered(answer))

        def answered(answer: PingAnswer) -> None:
            broker.grants.answered(other, sent_at, answer)

        self._after(self._late(), pinged)

    def _fetch(self, broker: Broker) -> None:
        """Fetch, if a follower; ask for other ISRs, if the leader."""
        leader, chance = broker.leader, self.random.random()
        if leader not in (-1, broker.me) and (broker.me, leader) not in self._cut:
            epoch = broker.epoch
            self._after(self._late(), lambda: self._fetched(leader, broker.me, epoch))
        if leader != broker.me:
            return
        if broker.wanted is not None and chance < 0.3:
            self._ask(broker, broker.wanted)
        elif broker.wanted is None and chance < 0.05 and len(broker.maximal) > 1:
            left = self.random.choice(sorted(broker.maximal - {broker.me}))
            self._ask(broker, broker.maximal - {left})

    def _fetched(self, leader: BrokerId, follower: BrokerId, epoch: LeaderEpoch) -> None:
        broker = self.brokers[leader]
        leads = broker.leader == leader and broker.epoch == epoch
        if leads and broker.wanted is None and follower not in broker.maximal:
            self._ask(broker, broker.in_sync | {follower})

    def _ask(self, broker: Broker, wanted: frozenset[BrokerId]) -> None:
        """Ask the controller for an ISR; the answer may be lost, and is asked for again."""
        broker.wanted, broker.maximal = wanted, broker.maximal | wanted
        asked = (broker.epoch, broker.me, broker.version)

        def take() -> None:
            state = self.state
            if asked == (state.epoch, state.leader, state.version) and state.in_sync != wanted:
                self.state = state._replace(in_sync=wanted, version=state.version + 1)
                self.counts["changes of the ISR"] += 1
            if self.random.random() < 0.7:
                answer = self.state
                self._after(self._late(), lambda: answered(answer))

        def answered(state: State) -> None:
            now = (broker.epoch, broker.leader)
            if now == (state.epoch, state.leader) and state.version > broker.version:
                broker.committed(state)

        if (broker.me, STORE) not in self._cut:
            self._after(self._late(), take)

    # The controller

    def _registered(self, number: BrokerId) -> bool:
        return self._now - self._heard[number] <= SESSION_SECONDS

    def _order(self, to: "list[BrokerId]") -> None:
        """Send the present state; an order to a former process or session is refused."""
        state = self.state
        for number in to:
            broker, session = self.brokers[number], self._sessions[number]

            def take(broker: Broker = broker, session: int = session) -> None:
                current = self.brokers[broker.me] is broker
                if current and session == self._sessions[broker.me]:
                    self._take(broker, state, session)

            late = self._late() if self.random.random() < 0.7 else self.random.uniform(0, 8)
            self._after(late, take)

    def _take(self, broker: Broker, state: State, session: int) -> None:
        former, former_epoch = broker.leader, broker.epoch
        if not broker.take(state, session, self._clock(broker)):
            return
        if former in self.brokers and former != broker.me and former_epoch == state.epoch - 1:
            self._after(self._late(), lambda: self._fence(former, broker, state.epoch))

    def _fence(self, former: BrokerId, asking: Broker, epoch: LeaderEpoch) -> None:
        asked = self.brokers[former]
        if (asking.me, former) in self._cut:
            return
        asked.leaderships.end(KEY, epoch, self._clock(asked))
        if asked.epoch < epoch:
            asked.epoch, asked.leader = epoch, asking.me
            asked.known.learn(KEY, epoch)
        if asked.leaderships.gave_up(KEY, epoch):
            self._after(self._late(), lambda: self._fenced(asking, epoch))

    def _fenced(self, broker: Broker, epoch: LeaderEpoch) -> None:
        self.counts["fenced"] += 1
        broker.leaderships.former_gave_up(KEY, epoch, self._clock(broker))

    def _elect(self, gone: frozenset[BrokerId], *, early: bool = False) -> None:
        """Elect a leader from the ISR, without the brokers that are gone or suspected to be."""
        state = self.state
        may = sorted(state.in_sync)
        if early and self._early_outside:
            may = sorted(self.brokers)
        left = [number for number in may if number not in gone and self._registered(number)]
        if not left:
            return
        stays = state.leader in left and self.random.random() < 0.7
        leader = state.leader if stays else self.random.choice(left)
        self._decide(leader, frozenset(left))
        self.counts["early elections" if early else "elections"] += 1

    def _decide(self, leader: BrokerId, in_sync: frozenset[BrokerId]) -> None:
        epoch = LeaderEpoch(self.state.epoch + 1)
        self.state = State(epoch, leader, in_sync, self.state.version + 1)
        self._order(sorted(self.brokers))

    def _elect_uncleanly(self) -> None:
        """Elect another broker in place of a leader that is alone and whose session has ended."""
        well = [number for number in self.brokers if self._registered(number)]
        if len(self.state.in_sync) == 1 and self.state.leader not in well and well:
            leader = self.random.choice(well)
            self._decide(leader, frozenset((leader,)))
            self.counts["unclean elections"] += 1

    # Faults

    def _trouble(self) -> None:
        drawn, number = self.random.random(), BrokerId(self.random.randrange(self.count))
        if drawn < 0.25:
            self._elect(frozenset())
        elif drawn < 0.5:
            self._elect(frozenset((number,)), early=True)
        elif drawn < 0.65:
            self._cut_off(number)
        elif drawn < 0.8:
            self._cut.clear()
        elif drawn < 0.9:
            self._restart(number)
        if not all(map(self._registered, self.state.in_sync)):
            self._elect(frozenset())
        if self.random.random() < 0.5:
            self._elect_uncleanly()
        pause = self.random.choice((0.05, 0.3, 1, 3)) * self.random.random()
        self._after(pause, self._trouble)

    def _cut_off(self, number: BrokerId) -> None:
        for other in self.brokers:
            for link in ((number, other), (other, number)):
                if self.random.random() < 0.6:
                    self._cut.add(link)
        if self.random.random() < 0.5:
            self._cut.add((number, STORE))

    def _restart(self, number: BrokerId) -> None:
        self.counts["restarts"] += 1
        self._start(number, self.brokers[number].incarnation + 1)
        self._heard[number] = self._now
        self._sessions[number] += 1
        if self.state.leader == number:  # it may not lead again in the same epoch
            self._decide(self.random.choice(sorted(self.state.in_sync)), self.state.in_sync)
        else:
            self._order([number])
