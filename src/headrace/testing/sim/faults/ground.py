"""Shared by all kinds of faults: the brokers, the random source, and the counters."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.replica_watch import ReplicaWatch

Kind = Callable[[], Awaitable[None]]


class Span(NamedTuple):
    """A fault, and the loop's times at which it began and ended."""

    began: float
    ended: float
    name: str


class Ground:
    """The brokers of one story, and those that a fault currently affects."""

    def __init__(
        self,
        cluster: SimCluster,
        brokers: Sequence[int],
        clients: Sequence[str],
        watch: ReplicaWatch,
        lag_seconds: float,
    ) -> None:
        """Store the story's brokers and clients.

        `lag_seconds`: `replica.lag.time.max.ms` in seconds.
        """
        self.cluster = cluster
        self.brokers = brokers
        self.clients = clients
        self.watch = watch
        self.lag_seconds = lag_seconds
        self.counts: Counter[str] = Counter()
        """Number of faults by name."""
        self.spans: list[Span] = []
        """Faults that have ended."""
        self.random = random.Random(f"faults {cluster.seed}")  # noqa: S311 - not for secrets
        self.busy: set[int] = set()
        """Brokers that are down, paused or otherwise reserved by a fault."""

    def take(self, least_left: int = 1) -> int | None:
        """Reserve a running broker and return it; None unless more than `least_left` are free.

        In half of the cases a leader or the controller is preferred.
        """
        free = self.free()
        if len(free) <= least_left:
            return None
        special = [number for number in free if self.leads(number) or self.decides(number)]
        number = self.random.choice(special if special and self.random.random() < 0.5 else free)
        self.busy.add(number)
        return number

    def give_back(self, *numbers: int) -> None:
        """Free brokers that a fault had reserved."""
        self.busy.difference_update(numbers)

    def free(self) -> list[int]:
        """Return the brokers that no fault has reserved."""
        return [number for number in self.brokers if number not in self.busy]

    def leads(self, number: int) -> bool:
        """Return whether a broker leads a partition of the topic."""
        server = self.cluster.brokers.get(number)
        return server is not None and any(
            topic == self.watch.topic for topic, _ in server.broker.partitions
        )

    def leaders(self) -> list[int]:
        """Return the brokers that lead a partition of the topic."""
        return [number for number in self.brokers if self.leads(number)]

    def asks(self, number: int) -> bool:
        """Return whether a leader waits for the response to an AlterPartition request."""
        terms = [partition.role.term for partition in self.watch.partitions(number).values()]
        return any(term is not None and term.pending is not None for term in terms)

    def decides(self, number: int) -> bool:
        """Return whether a broker is the controller."""
        server = self.cluster.brokers.get(number)
        return server is not None and server.controller.is_controller

    def decider(self) -> int | None:
        """Return the controller's id, or None."""
        return next((number for number in self.brokers if self.decides(number)), None)


Kinds = Mapping[str, Kind]
"""The faults by the name of their counter."""
