"""The clusters under test, on hosts of their own: our brokers on a ZooKeeper, and RabbitMQ 4.3."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.chaos.namespaces import Network
from tests.outside.amqp.address import Address
from tests.outside.amqp.ours_cluster import HeadraceCluster
from tests.outside.amqp.rabbit_cluster import RabbitMQCluster
from tests.support.processes.process import headrace

BROKERS = range(3)
HOSTS = [f"broker-{number}" for number in BROKERS]
ZOOKEEPER = "zookeeper"
USER, PASSWORD = "load", "load-secret"


class Cluster(Protocol):
    """Three brokers that a run disturbs."""

    @property
    def addresses(self) -> Sequence[Address]:
        """Where each broker listens for AMQP."""

    def near_leader(self, queue: str, chance: random.Random) -> int:
        """Return the broker that leads a queue; one drawn at random, if that is not known."""

    def kill(self, number: int) -> None:
        """End a broker as a crash would."""

    def restart(self, number: int) -> None:
        """Start a broker that was killed."""

    def pause(self, number: int) -> None:
        """Make a broker stand still, its connections open."""

    def resume(self, number: int) -> None:
        """Let a paused broker go on."""

    def cut(self, number: int, *, from_clients: bool) -> None:
        """Cut a broker off from the others and the store, or from its peers alone."""

    def heal(self) -> None:
        """Have everything arrive again."""

    def missing(self) -> list[str]:
        """Name what keeps the cluster from being whole."""

    @property
    def output(self) -> str:
        """The output of its brokers."""


class _Cut:
    """The network of a cluster, whose brokers are cut off."""

    network: Network
    others: Sequence[str] = ()
    """Addresses that a broker needs, other than those of its peers and clients."""
    clients: str

    def cut(self, number: int, *, from_clients: bool) -> None:
        own = self.network.hosts[HOSTS[number]].address
        cut_off = [self.network.hosts[HOSTS[one]].address for one in BROKERS if one != number]
        if from_clients:
            cut_off += [*self.others, self.clients]
        for address in cut_off:
            self.network.cut(own, address)

    def heal(self) -> None:
        self.network.heal()


class Headraces(_Cut, HeadraceCluster):
    """Ours; a ZooKeeper on a host of its own."""

    def __init__(self, place: Path, network: Network, clients: str) -> None:
        hosts = network.hosts
        super().__init__(place, [hosts[name] for name in HOSTS], hosts[ZOOKEEPER])
        self.network, self.clients = network, clients
        self.others = [hosts[ZOOKEEPER].address]

    def start(self) -> None:
        super().start()
        # Guest may connect by the loopback only.
        words = ("amqp", "user", "create", USER, "--password-file", "-")
        headrace(self.bootstrap, *words, typed=PASSWORD)
        headrace(self.bootstrap, "amqp", "permission", "set", USER, ".*", ".*", ".*")
        self.addresses = [one._replace(user=USER, password=PASSWORD) for one in self.addresses]

    def near_leader(self, queue: str, chance: random.Random) -> int:
        found = self.leader(queue)
        return chance.choice(BROKERS) if found < 0 else found


class Rabbits(_Cut, RabbitMQCluster):
    """RabbitMQ's nodes; which leads a queue is drawn, as asking takes seconds."""

    def __init__(self, place: Path, network: Network, clients: str) -> None:
        del place
        super().__init__([network.hosts[name] for name in HOSTS])
        self.network, self.clients = network, clients

    def near_leader(self, queue: str, chance: random.Random) -> int:
        del queue
        return chance.choice(BROKERS)
