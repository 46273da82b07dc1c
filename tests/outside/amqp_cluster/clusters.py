"""The clusters under test, on hosts of their own: our brokers on a ZooKeeper, and RabbitMQ 4.3."""

import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from headrace.queues.queue_names import queue_topic
from tests.chaos.namespaces import Network
from tests.chaos.stored import StoredCluster
from tests.outside.amqp.address import Address, answers
from tests.outside.amqp.rabbit_cluster import RabbitMQCluster
from tests.support.cluster.broker_cluster import BrokerCluster
from tests.support.processes.process import StartsAndStops, free_port, headrace
from tests.support.zookeeper import ZooKeeper

BROKERS = range(3)
HOSTS = [f"broker-{number}" for number in BROKERS]
ZOOKEEPER = "zookeeper"
USER, PASSWORD = "load", "load-secret"


class Cluster(Protocol):
    """Three brokers that a run disturbs."""

    @property
    def addresses(self) -> Sequence[Address]:
        """Where each broker listens for AMQP."""

    def leader(self, queue: str, chance: random.Random) -> int:
        """Return the broker that leads a queue, or the nearest that can be known."""

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


class Headraces(_Cut, StartsAndStops):
    """Ours; a ZooKeeper on a host of its own."""

    name = "headrace"

    def __init__(self, place: Path, network: Network, clients: str) -> None:
        self.network, self.clients = network, clients
        hosts = network.hosts
        self.others = [hosts[ZOOKEEPER].address]
        self._zookeeper = ZooKeeper(place, hosts=[hosts[ZOOKEEPER]])
        self._brokers = BrokerCluster(
            place, self._zookeeper.hosts, at=[hosts[name] for name in HOSTS],
            replica_lag_time_max_ms=5000,
        )  # fmt: skip
        ports = [free_port() for _ in BROKERS]
        for broker, port in zip(self._brokers.brokers, ports, strict=True):
            broker.settings["listeners"] = (
                f"PLAINTEXT://{broker.bootstrap},AMQP://{broker.host.address}:{port}"
            )
        self.addresses = [
            Address(port, USER, PASSWORD, host=broker.host.address)
            for broker, port in zip(self._brokers.brokers, ports, strict=True)
        ]
        self._undo = ExitStack()
        self._stored: StoredCluster | None = None

    def start(self) -> None:
        with ExitStack() as undo:
            undo.callback(self._zookeeper.kill)
            self._zookeeper.start()
            undo.callback(self._brokers.kill)
            self._brokers.start()
            self._stored = StoredCluster(self._brokers.connect)
            undo.callback(self._stored.close)
            bootstrap = self._brokers.bootstrap
            words = ("amqp", "user", "create", USER, "--password-file", "-")
            headrace(bootstrap, *words, typed=PASSWORD)
            headrace(bootstrap, "amqp", "permission", "set", USER, ".*", ".*", ".*")
            self._undo = undo.pop_all()

    def stop(self) -> None:
        self._undo.close()

    def leader(self, queue: str, chance: random.Random) -> int:
        assert self._stored is not None
        found = self._stored.partitions().get((queue_topic("/", queue), 0))
        return chance.choice(BROKERS) if found is None or found.leader < 0 else found.leader

    def kill(self, number: int) -> None:
        self._brokers.brokers[number].kill()

    def restart(self, number: int) -> None:
        self._brokers.brokers[number].start()

    def pause(self, number: int) -> None:
        self._brokers.pause(number)

    def resume(self, number: int) -> None:
        self._brokers.resume(number)

    def missing(self) -> list[str]:
        assert self._stored is not None
        told = self._stored.missing(set(BROKERS))
        return told + [f"{one} does not answer" for one in self.addresses if not answers(one)]

    @property
    def output(self) -> str:
        return self._brokers.output


class Rabbits(_Cut, RabbitMQCluster):
    """RabbitMQ's nodes; which leads a queue is drawn, as asking takes seconds."""

    def __init__(self, place: Path, network: Network, clients: str) -> None:
        del place
        super().__init__([network.hosts[name] for name in HOSTS])
        self.network, self.clients = network, clients

    def leader(self, queue: str, chance: random.Random | None = None) -> int:
        return super().leader(queue) if chance is None else chance.choice(BROKERS)
