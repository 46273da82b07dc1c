"""What all kinds of faults share: whom they may hit, what they draw from, and what they count."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from headrace.testing.sim.cluster import SimCluster
from headrace.testing.sim.replica_watch import ReplicaWatch

Kind = Callable[[], Awaitable[None]]


class Ground:
    """The brokers of one story, and which of them a fault has hold of."""

    def __init__(
        self,
        cluster: SimCluster,
        brokers: Sequence[int],
        clients: Sequence[str],
        watch: ReplicaWatch,
        lag_seconds: float,
    ) -> None:
        """`lag_seconds`: how long a follower may lag behind and stay in sync."""
        self.cluster = cluster
        self.brokers = brokers
        self.clients = clients
        self.watch = watch
        self.lag_seconds = lag_seconds
        self.counts: Counter[str] = Counter()
        """What has happened, by the fault's name."""
        self.random = random.Random(f"faults {cluster.seed}")  # noqa: S311 - not for secrets
        self.busy: set[int] = set()
        """Brokers that are down, or stand still."""

    def take(self, least_left: int = 1) -> int | None:
        """Return a broker that runs, where so many others do; it is taken until given back."""
        free = self.free()
        if len(free) <= least_left:
            return None
        special = [number for number in free if self.leads(number) or self.decides(number)]
        number = self.random.choice(special if special and self.random.random() < 0.5 else free)
        self.busy.add(number)
        return number

    def give_back(self, *numbers: int) -> None:
        """Have brokers be hit by others again."""
        self.busy.difference_update(numbers)

    def free(self) -> list[int]:
        """Return the brokers that no fault has hold of."""
        return [number for number in self.brokers if number not in self.busy]

    def leads(self, number: int) -> bool:
        """Tell whether a broker leads a partition of the topic."""
        server = self.cluster.brokers.get(number)
        return server is not None and any(
            topic == self.watch.topic for topic, _ in server.broker.partitions
        )

    def leaders(self) -> list[int]:
        """Return the brokers that lead a partition of the topic."""
        return [number for number in self.brokers if self.leads(number)]

    def asks(self, number: int) -> bool:
        """Tell whether a leader waits for an ISR that it has asked for."""
        terms = [partition.role.term for partition in self.watch.partitions(number).values()]
        return any(term is not None and term.pending is not None for term in terms)

    def decides(self, number: int) -> bool:
        """Tell whether a broker is the controller."""
        server = self.cluster.brokers.get(number)
        return server is not None and server.controller.is_controller

    def decider(self) -> int | None:
        """Return the controller."""
        return next((number for number in self.brokers if self.decides(number)), None)


Kinds = Mapping[str, Kind]
"""By the name that the fault is counted under."""
