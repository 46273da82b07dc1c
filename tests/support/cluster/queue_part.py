"""The part of a cluster's broker that runs queues, without an AMQP listener."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING

from headrace.cluster.topics.creation import NewTopic
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.queue_settings import Published
from headrace.queues.engine.delivery_turns import AnyQueue
from headrace.queues.engine.hosted_queue import HostedQueue, stores_in_memory
from headrace.queues.engine.virtual_hosts import VirtualHosts
from headrace.queues.model.declarations import QueueFlags
from headrace.queues.queue_names import queue_topic
from headrace.server.assembly import Server
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.declarations.declaration_log import DeclarationLog
from headrace.vhosts.declarations.stored_changes import Change
from headrace.vhosts.durable_queues import DurableQueues
from headrace.vhosts.led_queues import LedQueues
from tests.support.amqp.deliveries import ChannelKit, Delivery, getter
from tests.support.queues.log import message
from tests.support.sim.cluster import play as sim_play
from tests.support.sim.cluster import until

if TYPE_CHECKING:
    from headrace.queues.awaited import Awaited
    from headrace.queues.port import Consumer

TOPIC = queue_topic("/", "q")
AT = TopicPartition(TOPIC, 0)
BROKERS = (1, 2, 3)


class NothingStored(DeclarationLog):
    """A log of declarations that stores nothing: each broker declares the same."""

    def __init__(self) -> None:
        """It has no topic."""

    async def append(self, changes: Mapping[bytes, Change]) -> None:
        """Store nothing."""


class QueuePart:
    """The queues of one broker, with the queue `q` declared, and a client of it."""

    def __init__(self, server: Server, arguments: Mapping[str, object]) -> None:
        self.broker = server.broker
        links = server.cluster_links
        assert links is not None
        self.copies = links.settled_copies
        memory = MemoryUse()
        self.durable = DurableQueues(
            server.broker, server.controller, NothingStored(), memory, self.copies
        )
        self.hosts = VirtualHosts(
            server.broker.clock, lambda: bytes(16), stores_in_memory(memory), self.durable
        )
        self.host = self.hosts.hosts["/"]
        self.host.declare_queue("q", QueueFlags(durable=True), arguments, None)
        self.led = LedQueues(server.broker, self.durable, self.hosts)
        self.led.begin()
        self.cancelled: list[Consumer] = []
        self.channel = ChannelKit(1, cancelled=lambda consumer, _: self.cancelled.append(consumer))

    @property
    def queue(self) -> AnyQueue:
        return self.host.queues["q"]

    @property
    def hosted(self) -> HostedQueue:
        queue = self.queue
        assert isinstance(queue, HostedQueue)
        return queue

    @property
    def is_loaded(self) -> bool:
        """Whether the queue runs here, with its messages loaded."""
        return isinstance(self.queue, HostedQueue) and not self.queue.is_loading

    @property
    def windows_bytes(self) -> int:
        return self.durable.of_queues.logs.windows.bytes

    def publish(self, *bodies: str) -> list[bool]:
        """Publish messages; return a list that gets whether they are stored."""
        told: list[bool] = []
        for body in bodies:
            awaited: Awaited = {}
            published = Published(message(body), 0, None, True)
            if self.host.publish(["q"], published, awaited):
                self.host.when_stored(awaited, lambda unstored: told.append(not unstored))
            else:
                told.append(False)
        self.durable.of_queues.logs.write()
        return told

    async def published(self, *bodies: str) -> None:
        """Publish messages, and wait until they are stored."""
        told = self.publish(*bodies)
        await until(lambda: told == [True] * len(bodies))

    async def get(self) -> str | None:
        """Get the next message, marked with * if it is redelivered; None: the queue is empty."""
        got: list[Delivery | Exception | None] = []
        queue, now = self.hosted, self.broker.clock.monotonic()
        queue.get(getter(queue, self.channel, got.append, now), now)
        await until(lambda: got)
        (found,) = got
        if found is None:
            return None
        assert not isinstance(found, Exception), found
        self.tag = found[1]
        return found[2].body.decode() + ("*" if found[3] else "")

    async def take(self) -> str | None:
        """Get the next message and acknowledge it."""
        body = await self.get()
        if body is not None:
            self.channel.ack(self.tag)
        return body

    async def settled_behind(self, below: int) -> None:
        """Wait until the settlements of all delivered messages but the first are copied."""
        (store,) = self.hosted.late_stores
        settlement = store._messages._settlement  # type: ignore[attr-defined]
        await until(lambda: not settlement.wants(1, below))

    async def settled(self) -> None:
        """Wait until all in-sync replicas have the settlements."""
        (store,) = self.hosted.late_stores
        await until(lambda: store.settled().durably == store.settled().below)  # type: ignore[attr-defined]


class QueueCluster:
    """Three brokers, the queue's replicas, and what is done to their leader."""

    def __init__(
        self, cluster: SimCluster, parts: dict[int, QueuePart], arguments: Mapping[str, object]
    ) -> None:
        self.sim = cluster
        self.arguments = arguments
        self.parts = parts

    def replaced(self, number: int) -> QueuePart:
        """Return the part of a broker that has started again."""
        part = self.parts[number] = QueuePart(self.sim.brokers[number], self.arguments)
        return part

    @property
    def leader(self) -> QueuePart:
        """The part of the broker that runs the queue."""
        (number,) = (at for at, part in self.parts.items() if part.is_loaded)
        return self.parts[number]

    async def move(self, number: int) -> QueuePart:
        """Have another broker lead, by a reassignment and an election; return it."""
        await self.assign(number, *(at for at in BROKERS if at != number))
        await self.sim.elect(TOPIC)
        part = self.parts[number]
        await until(lambda: AT in part.broker.partitions and part.is_loaded)
        return part

    async def assign(self, *numbers: int) -> None:
        """Have these brokers be the replicas, the first of them the preferred leader."""
        replicas = tuple(BrokerId(number) for number in numbers)
        controller = self.sim.controller()
        (error,) = (await controller.replicas.reassign({AT: replicas})).values()
        assert error is None

    async def leave_alone(self, number: int) -> None:
        """Kill the two other brokers, and wait until the leader is alone in the ISR.

        Its leader epoch then increases by two, for which the queue is loaded again.
        """
        for other in BROKERS:
            if other != number:
                self.sim.kill(other)
        await self.in_sync(number)
        await asyncio.sleep(1)
        await until(lambda: self.parts[number].is_loaded)

    async def in_sync(self, *numbers: int) -> None:
        """Wait until the ISR is that of these brokers."""
        wanted = {BrokerId(number) for number in numbers}

        def holds() -> bool:
            for part in self.parts.values():
                partition = part.broker.partitions.get(AT)
                term = None if partition is None else partition.role.term
                if term is not None and term.in_sync == wanted:
                    return True
            return False

        await until(holds)


def play(
    story: Callable[[QueueCluster], Coroutine[object, object, None]],
    arguments: Mapping[str, object] | None = None,
    config: Mapping[str, str] | None = None,
    replicas: tuple[int, ...] = (2, 1, 3),
) -> None:
    """Play with three brokers, of which the first of `replicas` leads the queue.

    `arguments` of its declaration; `config` of its topic.
    """

    async def whole(cluster: SimCluster) -> None:
        for number in BROKERS:
            await cluster.start(number)
        await until(lambda: len(cluster.brokers[1].broker.image.brokers) == len(BROKERS))
        settings = {"retention.ms": "-1", "min.insync.replicas": "2", **(config or {})}
        assigned = tuple(BrokerId(number) for number in replicas)
        wanted = NewTopic(TOPIC, assignment={0: assigned}, config=settings)
        await cluster.controller().create_topics([wanted])
        await until(lambda: AT in cluster.brokers[replicas[0]].broker.partitions)
        followers = [cluster.brokers[number].broker for number in replicas[1:]]
        await until(lambda: all(AT in broker.followed for broker in followers))
        given = arguments or {"x-queue-type": "quorum"}
        parts = {number: QueuePart(cluster.brokers[number], given) for number in BROKERS}
        await until(lambda: parts[replicas[0]].is_loaded)
        await story(QueueCluster(cluster, parts, given))

    sim_play(whole)
