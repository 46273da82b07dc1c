"""A topic as the store holds it: made of a plan, grown, and as it is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.broker.metadata_image import PartitionInfo, TopicInfo
from headrace.cluster.topic_creation import Planned
from headrace.cluster.znodes import PartitionState, TopicNode
from headrace.model.invariant import invariant
from headrace.model.nouns import INTERNAL_TOPICS, BrokerId, LeaderEpoch

FIRST_EPOCH = LeaderEpoch(0)


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """All that the store says of a topic."""

    name: str
    node: TopicNode
    config: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[int, PartitionState] = field(default_factory=dict)
    """Of the partitions that have been led; an old tool may have left others without."""

    @classmethod
    def of_plan(cls, planned: Planned, topic_id: bytes) -> "StoredTopic":
        """A new one: each partition is led by the first of its replicas."""
        replicas = dict(enumerate(planned.replicas))
        states = {index: _first_state(one) for index, one in replicas.items()}
        return cls(planned.name, TopicNode(replicas, topic_id), planned.config, states)

    @classmethod
    def grown(cls, topic: TopicInfo, added: Sequence[tuple[BrokerId, ...]]) -> "StoredTopic":
        """A present one with partitions behind those it has; `added` are their replicas."""
        more = dict(enumerate(added, len(topic.partitions)))
        replicas = {one.index: one.replicas for one in topic.partitions}
        states = {
            index: PartitionState(one.leader, one.leader_epoch, one.isr)
            for index, one in enumerate(topic.partitions)
        }
        states |= {index: _first_state(one) for index, one in more.items()}
        return cls(topic.name, TopicNode(replicas | more, topic.topic_id), topic.config, states)

    @property
    def topic_id(self) -> bytes:
        """The topic's id; topics without one are given one before anything else."""
        invariant(self.node.topic_id is not None, f"topic {self.name} has no id")
        return self.node.topic_id or b""

    def shown(self) -> TopicInfo:
        """As the picture of the cluster has it."""
        partitions = tuple(
            PartitionInfo(index, state.leader, state.leader_epoch, replicas, state.isr)
            for index, replicas in self.node.partitions.items()
            for state in (self.states[index],)
        )
        return TopicInfo(
            self.name,
            self.topic_id,
            partitions,
            internal=self.name in INTERNAL_TOPICS,
            config=self.config,
        )


def _first_state(replicas: tuple[BrokerId, ...]) -> PartitionState:
    return PartitionState(leader=replicas[0], leader_epoch=FIRST_EPOCH, isr=replicas)
