"""Channels of clients on brokers of a simulated cluster, which use each other's queues."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from headrace.ports.callbacks import ignore_result
from headrace.posix.awaiting import called_back
from headrace.queue_stores.queue_settings import ConsumerSettings
from headrace.queues.port import Consumer
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.declarations.messages import Result
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.model_methods import QueueDeclare, QueueDelete
from tests.support.amqp.deliveries import ChannelKit, Delivery
from tests.support.cluster.peer_kit import play, started
from tests.support.sim.amqp import queue_cluster_of, serve_amqp

if TYPE_CHECKING:
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.engine.virtual_hosts import VirtualHosts
    from headrace.server.cluster.cluster_queues import ClusterQueues
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations

HOME, LEADER = 0, 1


class Home:
    """A client's channel on a broker of the cluster."""

    def __init__(self, cluster: SimCluster, number: int) -> None:
        part = queue_cluster_of(cluster.brokers[number])
        self.declarations: ClusterDeclarations = part.declarations
        self.queues: ClusterQueues = part.queues
        self._hosts: VirtualHosts = part.declarations.tables.virtual_hosts
        self.host: QueueHost = self._hosts.hosts["/"]
        self.sent: list[Delivery] = []
        self.cancelled: list[str] = []
        self.channel = ChannelKit(
            sent=self.sent.extend,
            cancelled=lambda consumer, _: self.cancelled.append(consumer.tag),
        )

    async def declare(
        self, name: str, *, durable: bool = False, arguments: FieldTable | None = None
    ) -> None:
        """Declare a queue; both brokers have it then."""
        method = QueueDeclare(queue=name, durable=durable, arguments=arguments or {})
        await self._ask(method)

    async def delete(self, name: str) -> None:
        """Delete a queue."""
        await self._ask(QueueDelete(queue=name))

    async def _ask(self, method: Any) -> None:
        command = self.declarations.command("/", method=method)
        answer: Any = await called_back(lambda done: self.declarations.ask(command, done))
        assert isinstance(answer, Result)

    def consume(
        self,
        name: str,
        tag: str = "c",
        prefetch: int = 10,
        wishes: ConsumerSettings = ConsumerSettings(),  # noqa: B008 - a constant
    ) -> Consumer:
        """Add a consumer."""
        queue = self.host.queue(name, None)
        consumer = Consumer(queue, self.channel, tag, prefetch=prefetch, wishes=wishes)
        self.host.consume(consumer, ignore_result)
        self._hosts.turns.soon()
        return consumer

    def wake(self) -> None:
        """End the channel's methods: queues may deliver because of them."""
        self.host.touched(self.channel.woken)
        self.channel.woken.clear()
        self._hosts.turns.soon()

    @property
    def bodies(self) -> list[str]:
        """The bodies of all deliveries."""
        return [delivery[2].body.decode() for delivery in self.sent]


def played(story: Callable[[SimCluster, Home, Home], Awaitable[None]], *others: int) -> None:
    async def whole(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, HOME, LEADER, *others)
        await story(cluster, Home(cluster, HOME), Home(cluster, LEADER))

    play(whole)
