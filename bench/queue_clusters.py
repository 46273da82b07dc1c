"""Three brokers that speak AMQP and are one cluster: ours on a ZooKeeper, and RabbitMQ 4.3."""

from contextlib import AbstractContextManager
from typing import Protocol

from bench.checkouts import HERE, Checkout
from bench.clusters import BROKERS, OnZooKeeper, until
from bench.queue_brokers import QueueHeadrace
from bench.subjects import Broker, Subject
from headrace.queues.queue_names import queue_topic
from tests.outside.amqp.address import Address
from tests.outside.amqp.rabbit_cluster import RabbitMQCluster

SETTINGS = "auto.leader.rebalance.enable=false\n"


class QueueCluster(Protocol):
    """A cluster as sections use it."""

    @property
    def addresses(self) -> list[Address]:
        """Where each broker listens for AMQP."""

    def leader(self, queue: str) -> int:
        """Return the broker that leads a queue of the default vhost."""

    def kill(self, number: int) -> None:
        """End a broker as a crash would."""

    def restart(self, number: int) -> None:
        """Start a broker that was killed; returns when it answers."""

    def until_in_step(self, queue: str) -> None:
        """Return when each broker has all of a queue."""

    def cpu_seconds(self) -> float:
        """Return the CPU time of all brokers so far."""


class QueueHeadraces(OnZooKeeper):
    """Ours, of this checkout or another."""

    def __init__(self, checkout: Checkout = HERE) -> None:
        super().__init__(durable=True, settings=SETTINGS)
        self._checkout = checkout

    def node(self, settings: str) -> Broker:
        return QueueHeadrace(self.durable, settings, self._checkout)

    @property
    def addresses(self) -> list[Address]:
        return [
            Address(broker.amqp_port)
            for broker in self.brokers
            if isinstance(broker, QueueHeadrace)
        ]

    def leader(self, queue: str) -> int:
        found: list[int] = []

        def led() -> bool:
            found[:] = [leader for leader, _ in self.in_sync(queue_topic("/", queue)).values()]
            return bool(found) and found[0] >= 0

        until(led, f"a leader of {queue}")
        return found[0]

    def kill(self, number: int) -> None:
        self.brokers[number].process.kill()
        self.brokers[number].process.wait()

    def restart(self, number: int) -> None:
        self.brokers[number].start()
        self.brokers[number].wait_ready()

    def until_in_step(self, queue: str) -> None:
        self.until_in_sync(queue_topic("/", queue), 1)


class QueueRabbits(RabbitMQCluster):
    """RabbitMQ's nodes."""

    def until_in_step(self, queue: str) -> None:
        until(lambda: len(self.online(queue)) == BROKERS, f"all members of {queue} online")


def cluster_of(subject: Subject) -> AbstractContextManager[QueueCluster]:
    """Make a subject's three brokers, not started."""
    if subject.checkout is not None:
        return QueueHeadraces(subject.checkout)
    return QueueRabbits()
