"""Queues of a simulated cluster, one on each broker, whose consumers note each delivery."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.queue_settings import Published
from headrace.queues.engine.hosted_queue import stores_in_memory
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.declarations import QueueFlags
from headrace.queues.port import Consumer
from headrace.queues.queue_names import queue_topic
from headrace.testing.sim.cluster import SimCluster
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.channels import LateMessages
from tests.support.amqp.deliveries import ChannelKit, Delivery

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.server.assembly import Server

QUEUE = "q"
TOPIC = queue_topic("/", QUEUE)
PUBLISH_SECONDS = 0.02
_MESSAGE = Message("", QUEUE, make_header(1, Properties()), b"m")


class Delivered(NamedTuple):
    """A delivery: the broker whose queue delivered, and when."""

    broker: int
    at: float


class LedQueues:
    """A copy of one durable queue on each broker, published to and consumed from all the time.

    The copies are not replicated: which of them delivers is all that is looked at.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self._servers: dict[int, Server] = {}
        """The last process of each broker; one that was killed has the right to nothing."""
        self.delivered: list[Delivered] = []
        self.broken: list[str] = []
        """Deliveries of brokers that did not lead alone."""

    async def start(self, number: int) -> None:
        """Start a broker, with its copy of the queue."""
        self._attach(number, await self.cluster.start(number))

    async def start_again(self, number: int) -> None:
        """Start a broker whose former process was killed."""
        self._attach(number, await self.cluster.start_again(number))

    def _attach(self, number: int, server: "Server") -> None:
        self._servers[number] = server
        links, clock = server.cluster_links, server.broker.clock
        assert links is not None
        hosts = VirtualHosts(clock, lambda: bytes(16), stores_in_memory(MemoryUse()))
        hosts.turns.leadership = links.queue_leadership
        host = hosts.hosts["/"]
        host._make_store = lambda queue, priority: LateMessages()
        queue = host.declare_queue(QUEUE, QueueFlags(durable=True), {}, None)

        def sent(deliveries: Sequence[Delivery]) -> None:
            self._sent(number, len(deliveries))

        channel = ChannelKit(1, sent=sent)
        host.consume(Consumer(queue, channel, "c", no_ack=True), lambda refused: None)

        def publish() -> None:
            host.publish((QUEUE,), Published(_MESSAGE))
            hosts.turns.run()
            clock.call_later(PUBLISH_SECONDS, publish)

        publish()

    def _sent(self, number: int, count: int) -> None:
        """Note deliveries, and whether their broker has no right or another one has it, too."""
        self.delivered += [Delivered(number, self.cluster.loop.time())] * count
        holders = self.holders()
        if holders != [number]:
            self.broken.append(f"broker {number} delivers, and {holders} have the right")

    def kill(self, number: int) -> None:
        """Kill a broker's process."""
        del self._servers[number]
        self.cluster.kill(number)

    def holders(self) -> list[int]:
        """The brokers that have the right to lead the queue."""
        return [number for number, server in self._servers.items() if _holds(server)]

    def by(self, number: int) -> list[float]:
        """When a broker's queue has delivered."""
        return [each.at for each in self.delivered if each.broker == number]


def _holds(server: "Server") -> bool:
    partition: Partition | None = server.broker.partitions.get((TOPIC, 0))
    rights = server.controller.applier.rights
    return partition is not None and rights is not None and rights.holds(partition)
