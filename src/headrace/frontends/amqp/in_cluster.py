"""AMQP on one broker of a cluster: declarations and queues are those of all brokers (ADR 76)."""

from typing import TYPE_CHECKING

from headrace.frontends.amqp.durable_state import StoredMessages
from headrace.frontends.amqp.parts import Parts, QueueCluster
from headrace.model.protocols import AMQP_TOPICS
from headrace.vhosts.kafka_admin_in_cluster import TopicsOfClusterQueues
from headrace.vhosts.queue_topics import QueueTopics
from headrace.vhosts.read_topics import ReadTopics

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.queue_stores.log.durable_messages import DurableMessages
    from headrace.queue_stores.memory.memory_use import MemoryUse
    from headrace.queue_stores.message_store import LateStore
    from headrace.vhosts.access import Admission
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations


def queue_topics(parts: Parts, cluster: QueueCluster, memory: "MemoryUse") -> QueueTopics:
    """Return the maker of the stores of queues' messages; `memory` counts those that wait."""

    def wanted(store: "DurableMessages") -> None:
        """Do nothing: a queue is hosted once its topic exists, and gets its log then."""

    return QueueTopics(parts.broker, parts.controller, wanted, memory, cluster.settled_copies)


class ClusterState(StoredMessages):
    """The messages that one broker of a cluster has. Implements `session.DurableState`."""

    def __init__(
        self,
        parts: Parts,
        cluster: QueueCluster,
        topics: QueueTopics,
        queues: "QueueBroker",
        declarations: "ClusterDeclarations",
        admission: "Admission",
    ) -> None:
        """Run the queues of a broker that joins the cluster later."""
        super().__init__(parts, topics.logs, queues)
        self._cluster = cluster
        self._topics = topics
        cluster.serve(queues.virtual_hosts, topics, queues.policy_visits)
        self._topic_keeper = TopicsOfClusterQueues(
            parts.broker, declarations, cluster.use, queues.virtual_hosts, admission
        )
        queues.replies.elsewhere = cluster.share_replies(queues.replies.deliver)

    async def start(self) -> None:
        """Follow changes of Kafka topics; queues run as declarations and orders to lead arrive."""
        self._broker.topic_keepers.add(AMQP_TOPICS, self._topic_keeper)
        ReadTopics(self._broker.image, self._virtual_hosts)

    async def _close(self, stores: "list[LateStore]") -> None:
        self._cluster.stop_leading()
        await self._topics.close(stores)
