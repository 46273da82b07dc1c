"""A cluster with one partition, as far as the right to lead it depends on it; time is simulated.

A controller elects, rightly and on false suspicions; brokers have clocks of different speed, are
cut off and restarted; orders, pings and answers are late without bound, or lost. The brokers decide
by `broker.replica.leading_rights`. After each event at most one of them may have the right, and the
rights that are reported are those that are held.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable

from headrace.broker.replica.leading_right import PingAnswer
from headrace.model.nouns import BrokerId, LeaderEpoch
from tests.support.cluster.rights_broker import Broker, Clock, State

SESSION_SECONDS = 6.0
LEASE_SECONDS = SESSION_SECONDS * 2 / 3
PING_SECONDS = 0.15
STORE = -1
"""Stands for the metadata store among the links."""


class RightsModel:
    """The cluster. `early_outside`: a planted fault, elections outside of the ISR."""

    def __init__(self, seed: int, *, early_outside: bool = False) -> None:
        self.random = random.Random(seed)
        self.count = 3 + seed % 2
        self.counts: Counter[str] = Counter()
        self._early_outside = early_outside
        self.now = 0.0
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
        self.after(1.0, self._trouble)

    def run(self, seconds: float) -> list[BrokerId]:
        """Run; return the brokers that had the right at the same time, or none."""
        while self._events and self._events[0][0] < seconds:
            self.now, _, event = heapq.heappop(self._events)
            event()
            held = [broker.broker_id for broker in self.brokers.values() if broker.holds()]
            self.counts["held"] += len(held)
            if len(held) > 1:
                return held
        return []

    def after(self, seconds: float, event: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, event))

    def _late(self) -> float:
        drawn = self.random.random()
        return self.random.uniform(0, 0.01 if drawn < 0.9 else 0.5 if drawn < 0.98 else 6.0)

    def _arrives(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) not in self._cut and self.random.random() < 0.97

    # The brokers

    def _start(self, number: BrokerId, incarnation: int) -> None:
        speed = 1 + self.random.uniform(-0.02, 0.02)
        clock = Clock(lambda: self.now, self.after, speed)
        broker = Broker(number, incarnation, clock, self.count)
        broker.rights.ping_soon = lambda: self.after(0, lambda: self._ping_fenced(broker))
        broker.lease = lambda: self._lease(broker)
        broker.heard_at = self._clock(broker)
        self.brokers[number] = broker
        self._repeat(broker, PING_SECONDS, self._ping)
        self._repeat(broker, SESSION_SECONDS * 0.15, self._beat)
        self._repeat(broker, 0.05, self._fetch)

    def _repeat(self, broker: Broker, seconds: float, work: Callable[[Broker], None]) -> None:
        def again() -> None:
            if self.brokers[broker.broker_id] is broker:
                work(broker)
                self.after(seconds, again)

        self.after(0, again)

    def _clock(self, broker: Broker) -> float:
        return broker.clock.monotonic()

    def _lease(self, broker: Broker) -> bool:
        lives = self._clock(broker) - broker.heard_at < LEASE_SECONDS
        return lives and broker.ordered_in == self._sessions[broker.broker_id]

    def _beat(self, broker: Broker) -> None:
        """Reach the store; after the end of the session a new one begins."""
        me = broker.broker_id
        if (me, STORE) in self._cut:
            return
        ended = not self._registered(me)
        self._heard[me], broker.heard_at = self.now, self._clock(broker)
        if ended:
            self._sessions[me] += 1
            self._order([me])

    def _ping(self, broker: Broker) -> None:
        for other in self.brokers:
            if other != broker.broker_id:
                self._send_ping(broker, other)

    def _ping_fenced(self, broker: Broker) -> None:
        for other in sorted(broker.rights.fenced):
            self._send_ping(broker, other)

    def _send_ping(self, broker: Broker, other: BrokerId) -> None:
        if not self._arrives(broker.broker_id, other):
            return
        ping, sent_at = broker.rights.ping(other), self._clock(broker)

        def pinged() -> None:
            receiver = self.brokers[other]
            answer = receiver.rights.answer(ping, receiver.incarnation)
            if self._arrives(other, broker.broker_id):
                self.after(self._late(), lambda: answered(answer))

        def answered(answer: PingAnswer) -> None:
            self.counts["fenced"] += len(answer.given_up)
            broker.rights.answered(other, sent_at, ping, answer)

        self.after(self._late(), pinged)

    def _fetch(self, broker: Broker) -> None:
        """Fetch, if a follower; ask for other ISRs, if the leader."""
        leader, chance = broker.leader, self.random.random()
        if leader not in (-1, broker.broker_id) and (broker.broker_id, leader) not in self._cut:
            epoch = broker.epoch
            self.after(self._late(), lambda: self._fetched(leader, broker.broker_id, epoch))
        if leader != broker.broker_id:
            return
        if broker.wanted is not None and chance < 0.3:
            self._ask(broker, broker.wanted)
        elif broker.wanted is None and chance < 0.05 and len(broker.term.maximal) > 1:
            left = self.random.choice(sorted(broker.term.maximal - {broker.broker_id}))
            self._ask(broker, broker.term.maximal - {left})

    def _fetched(self, leader: BrokerId, follower: BrokerId, epoch: LeaderEpoch) -> None:
        broker = self.brokers[leader]
        leads = broker.leader == leader and broker.epoch == epoch
        if leads and broker.wanted is None and follower not in broker.term.maximal:
            self._ask(broker, broker.term.in_sync | {follower})

    def _ask(self, broker: Broker, wanted: frozenset[BrokerId]) -> None:
        """Ask the controller for an ISR; the answer may be lost, and is asked for again."""
        term = broker.term
        broker.wanted, term.maximal = wanted, term.maximal | wanted
        term.isr_changed()
        asked = (broker.epoch, broker.broker_id, broker.version)

        def take() -> None:
            state = self.state
            if asked == (state.epoch, state.leader, state.version) and state.in_sync != wanted:
                self.state = state._replace(in_sync=wanted, version=state.version + 1)
                self.counts["changes of the ISR"] += 1
            if self.random.random() < 0.7:
                answer = self.state
                self.after(self._late(), lambda: answered(answer))

        def answered(state: State) -> None:
            leads = state.leader == broker.broker_id and state.epoch == broker.epoch
            if leads and state.version > broker.version:
                broker.committed(state)

        if (broker.broker_id, STORE) not in self._cut:
            self.after(self._late(), take)

    # The controller

    def _registered(self, number: BrokerId) -> bool:
        return self.now - self._heard[number] <= SESSION_SECONDS

    def _order(self, to: "list[BrokerId]") -> None:
        """Send the present state; an order to a former process or session is refused."""
        state = self.state
        for number in to:
            broker, session = self.brokers[number], self._sessions[number]

            def take(broker: Broker = broker, session: int = session) -> None:
                current = self.brokers[broker.broker_id] is broker
                if current and session == self._sessions[broker.broker_id]:
                    broker.take(state, session)

            late = self._late() if self.random.random() < 0.7 else self.random.uniform(0, 8)
            self.after(late, take)

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
        self.after(pause, self._trouble)

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
        self._heard[number] = self.now
        self._sessions[number] += 1
        if self.state.leader == number:  # it may not lead again in the same epoch
            self._decide(self.random.choice(sorted(self.state.in_sync)), self.state.in_sync)
        else:
            self._order([number])
