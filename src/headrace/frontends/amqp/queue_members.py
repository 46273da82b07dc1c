"""The brokers that have a queue's messages: its leader, its members, and which are in sync."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.metadata_image import NO_LEADER, PartitionInfo
from headrace.queues.queue_names import QueueName, queue_topic

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.model.nouns import BrokerId
    from headrace.queues.model.declarations import DeclaredQueue
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations

RUNNING, MINORITY, DOWN = "running", "minority", "down"
"""RabbitMQ's states of a queue: a majority of its members serves it, fewer do, it has no leader."""


class Members(NamedTuple):
    """The brokers of a queue, by their ids."""

    topic: str | None
    """The topic of its messages; None: it is not used yet, or its messages are in memory."""
    leader: int | None
    """The broker that serves it, or will with its first use; None: none can."""
    members: tuple[int, ...]
    """The brokers that have its messages, or are planned to, the preferred leader first."""
    online: tuple[int, ...]
    """Members whose brokers are registered, and whose directories have not failed."""
    in_sync: tuple[int, ...]
    """Members that have all confirmed messages."""
    min_in_sync: int
    """How many of them a publish needs to be confirmed."""

    @property
    def state(self) -> str:
        """Whether the queue is `RUNNING`, has a `MINORITY` of its members, or is `DOWN`."""
        if self.leader is None:
            return DOWN
        return RUNNING if len(self.in_sync) >= max(self.min_in_sync, 1) else MINORITY


class QueueMembers:
    """The members of all queues, as one broker's metadata image has them."""

    def __init__(self, broker: "Broker", declarations: "ClusterDeclarations | None") -> None:
        """`declarations`: those of the cluster; None: the broker is a single one."""
        self._broker = broker
        self._declarations = declarations

    def of(self, vhost: str, queue: "DeclaredQueue") -> Members:
        """Return the members of a declared queue."""
        read = queue.settings.topic
        topic = queue_topic(vhost, queue.name) if read is None else read.topic
        info = self._broker.image.topics.get(topic) if queue.durable else None
        if info is None:
            return self._planned(vhost, queue)
        partition = info.partitions[0]
        return Members(
            topic,
            None if partition.leader == NO_LEADER else partition.leader,
            partition.replicas,
            tuple(each for each in partition.replicas if self._is_online(each, partition)),
            partition.isr,
            min(self._min_in_sync(info.config), len(partition.replicas)),
        )

    def _planned(self, vhost: str, queue: "DeclaredQueue") -> Members:
        """Return the members of a queue without a topic."""
        members = tuple(self._planned_members(vhost, queue))
        online = tuple(each for each in members if self._is_registered(each))
        leader = online[0] if 2 * len(online) > len(members) else None
        return Members(None, leader, members, online, online, len(members) // 2 + 1)

    def _planned_members(self, vhost: str, queue: "DeclaredQueue") -> Sequence[int]:
        if self._declarations is None:
            return (self._broker.broker_id,)
        if queue.durable:
            return self._declarations.planned(QueueName(vhost, queue.name))
        home = self._declarations.home_of(vhost, queue.name)
        return () if home is None else (home,)

    def _min_in_sync(self, config: Mapping[str, str]) -> int:
        own = config.get("min.insync.replicas")
        return int(own) if own else self._broker.config.min_insync_replicas

    def _is_online(self, broker: "BrokerId", partition: PartitionInfo) -> bool:
        return broker not in partition.offline and self._is_registered(broker)

    def _is_registered(self, broker: int) -> bool:
        image = self._broker.image
        return any(info.broker_id == broker for info in image.reachable_brokers())
