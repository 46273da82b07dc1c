"""Three of our brokers with listeners for AMQP, on a ZooKeeper of their own."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from headrace.queues.queue_names import queue_topic
from tests.chaos.stored import StoredCluster
from tests.outside.amqp.address import Address, answers
from tests.support.cluster.broker_cluster import BrokerCluster, until
from tests.support.processes.process import LOOPBACK, Host, StartsAndStops, free_port
from tests.support.zookeeper import ZooKeeper

BROKERS = 3


class HeadraceCluster(StartsAndStops):
    """Brokers 0 to 2, each on one of `hosts` if they are given; the ZooKeeper is on another."""

    name = "headrace"

    def __init__(
        self, place: Path, hosts: Sequence[Host] = (), store_host: Host = LOOPBACK
    ) -> None:
        self._zookeeper = ZooKeeper(place, hosts=[store_host])
        self._brokers = BrokerCluster(
            place, self._zookeeper.hosts, at=hosts or [LOOPBACK] * BROKERS,
            amqp_guest="true", replica_lag_time_max_ms=5000,
        )  # fmt: skip
        self.addresses: list[Address] = []
        for broker in self._brokers.brokers:
            address = Address(free_port(), host=broker.host.address)
            self.addresses.append(address)
            own = broker.settings["listeners"]
            broker.settings["listeners"] = f"{own},AMQP://{address.host}:{address.port}"
        self._undo = ExitStack()
        self._stored: StoredCluster | None = None

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses for Kafka's protocol."""
        return self._brokers.bootstrap

    def start(self) -> None:
        with ExitStack() as undo:
            undo.callback(self._zookeeper.kill)
            self._zookeeper.start()
            undo.callback(self._brokers.kill)
            self._brokers.start()
            self._stored = StoredCluster(self._brokers.connect)
            undo.callback(self._stored.close)
            until(lambda: all(map(answers, self.addresses)), "all brokers answer AMQP")
            self._undo = undo.pop_all()

    def stop(self) -> None:
        self._undo.close()

    def leader(self, queue: str) -> int:
        """Return the broker that leads a queue of the default vhost; -1: none."""
        assert self._stored is not None
        found = self._stored.partitions().get((queue_topic("/", queue), 0))
        return -1 if found is None else found.leader

    def kill(self, number: int) -> None:
        """End a broker as a crash would."""
        self._brokers.brokers[number].kill()

    def restart(self, number: int) -> None:
        """Start a broker that was killed; returns when it answers."""
        self._brokers.brokers[number].start()

    def pause(self, number: int) -> None:
        """Make a broker stand still, its connections open."""
        self._brokers.pause(number)

    def resume(self, number: int) -> None:
        """Let a paused broker go on."""
        self._brokers.resume(number)

    def missing(self) -> list[str]:
        """Name what keeps the cluster from being whole."""
        assert self._stored is not None
        told = self._stored.missing(set(range(BROKERS)))
        return told + [f"{one.url} does not answer" for one in self.addresses if not answers(one)]

    @property
    def output(self) -> str:
        """The output of all brokers."""
        return self._brokers.output
