"""`StoredTopic`: a topic as the store holds it."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from headrace.broker.metadata_image import NO_LEADER, PartitionInfo, TopicInfo
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.cluster.topics.creation import Planned
from headrace.model.invariant import invariant
from headrace.model.nouns import BrokerId, LeaderEpoch, shown_as_internal

FIRST_EPOCH = LeaderEpoch(0)
NEVER_LED = PartitionState(NO_LEADER, LeaderEpoch(-1), ())


@dataclass(slots=True)
class StoredTopic:
    """A topic's nodes in the store, decoded, with their versions."""

    name: str
    node: TopicNode
    config: Mapping[str, str] = field(default_factory=dict)
    states: dict[int, PartitionState] = field(default_factory=dict)
    """State of each partition that has one; old tools leave it out."""
    version: int = 0
    """Version of the topic's node."""
    versions: dict[int, int] = field(default_factory=dict)
    """Version of each partition's state node: its partition epoch."""

    @classmethod
    def of_plan(
        cls, planned: Planned, topic_id: bytes, drained: Container[BrokerId] = ()
    ) -> "StoredTopic":
        """Create a topic from a plan: each partition is led as `first_state` says."""
        replicas = dict(enumerate(planned.replicas))
        states = {index: first_state(assigned, drained) for index, assigned in replicas.items()}
        versions = dict.fromkeys(states, 0)
        node = TopicNode(replicas, topic_id)
        return cls(planned.name, node, planned.config, states, 0, versions)

    @property
    def topic_id(self) -> bytes:
        """The topic's id, which each topic is given before other methods are used."""
        invariant(self.node.topic_id is not None, f"topic {self.name} has no id")
        return self.node.topic_id or b""

    def shown(self) -> TopicInfo:
        """Return the topic as the metadata image has it."""
        partitions = tuple(self.shown_partition(index) for index in self.node.partitions)
        return TopicInfo(
            self.name,
            self.topic_id,
            partitions,
            internal=shown_as_internal(self.name),
            config=self.config,
        )

    def shown_partition(self, index: int) -> PartitionInfo:
        """Return the state of partition `index` as an entry of the metadata image."""
        replicas = self.node.partitions[index]
        state = self.states.get(index, NEVER_LED)
        return PartitionInfo(index, state.leader, state.leader_epoch, replicas, state.isr)


def first_state(
    replicas: tuple[BrokerId, ...], drained: Container[BrokerId] = ()
) -> PartitionState:
    """Return the state of a new partition: all replicas are in the ISR, and the first leads.

    The first on a broker that is not in `drained` leads, if there is one.
    """
    leader = min(replicas, key=lambda broker: broker in drained)
    return PartitionState(leader=leader, leader_epoch=FIRST_EPOCH, isr=replicas)
