"""Kafka clients' operations on topics of a cluster's queues.

Metadata         the topic is created on the replicas that the declaration plans
DeleteTopics     the queue's declaration is deleted by its coordinator, and then the topic
DeleteRecords    the queue's leader settles what is ready
CreateTopics, CreatePartitions, AlterConfigs    refused, as on a single broker
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back
from headrace.queues.model.declarations import DeclaredQueue
from headrace.vhosts.declarations.messages import CommandKind
from headrace.vhosts.kafka_admin_of_queue_topics import QueuePurges, no_queue
from headrace.vhosts.queue_topics import declared_queue
from headrace.wire.amqp.model_methods import QueueDelete

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.queues.engine.virtual_hosts import VirtualHosts
    from headrace.security.identity import Identity
    from headrace.vhosts.access import Admission
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations


class TopicsOfClusterQueues(QueuePurges):
    """The topics of a cluster's queues. Implements `broker.topic_keepers.TopicKeeper`."""

    def __init__(
        self,
        broker: "Broker",
        declarations: "ClusterDeclarations",
        use: Callable[[str, DeclaredQueue], None],
        virtual_hosts: "VirtualHosts",
        admission: "Admission",
    ) -> None:
        """`use` has the controller create the topic of a queue of a vhost, unless it exists."""
        super().__init__(broker, virtual_hosts, admission)
        self._declarations = declarations
        self._use = use

    async def make(self, topic: str) -> ApiError | None:
        """Have the topic of a declared queue created; return the error until it exists.

        Kafka's clients ask again after this error.
        """
        if topic in self._broker.image.topics:
            return None
        found = declared_queue(self._virtual_hosts, topic)
        if found is None or not found[1].durable:
            return no_queue(topic)
        host, queue = found
        self._use(host.name, queue)
        text = f"{topic} is being created"
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)

    async def delete(self, topic: str) -> ApiError | None:
        """Delete the queue of a topic on all brokers, and then the topic; return the error."""
        found = declared_queue(self._virtual_hosts, topic)
        if found is None:
            return no_queue(topic)
        host, queue = found
        method = QueueDelete(queue=queue.name)
        command = self._declarations.command(host.name, CommandKind.QUEUE_ENDED, method)
        answer = await called_back(partial(self._declarations.ask, command))
        return answer if isinstance(answer, ApiError) else None

    def may_purge(self, identity: "Identity", topic: str) -> bool:
        """Tell whether a user has the permission for queue.purge on the queue of a topic."""
        found = declared_queue(self._virtual_hosts, topic)
        return found is not None and self._may_read(identity, found[0].name, found[1].name)

    async def purge(self, topic: str, partition: int, before: int) -> int:
        """Settle ready messages below an offset (-1: all); return the log start offset.

        Raises ApiError: NOT_LEADER_OR_FOLLOWER if another broker leads the queue, or may.
        """
        found = declared_queue(self._virtual_hosts, topic)
        if found is None:
            raise no_queue(topic)
        host, queue = found
        self._broker.partition(topic, partition)
        hosted = host.queues.get(queue.name)
        if hosted is None or hosted.paused:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return await super().purge(topic, partition, before)
