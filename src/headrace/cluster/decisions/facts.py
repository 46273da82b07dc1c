"""What the controller knows of the store: topics, the versions they were read at, who is alive."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from headrace.broker.metadata_image import (
    NO_LEADER,
    BrokerInfo,
    ImageDelta,
    PartitionInfo,
    TopicInfo,
)
from headrace.cluster.decisions.orders import Order
from headrace.cluster.store.stored_doubts import Doubt, Registered
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.store import Operation


class Change(NamedTuple):
    """One change of one topic: written whole or not at all, and what holds once it is."""

    topic: str
    operations: tuple[Operation, ...] = ()
    """With the versions that were read; none where only orders go out."""
    created: StoredTopic | None = None
    deleted: bool = False
    """Its deletion has begun."""
    node: TopicNode | None = None
    """The topic's replicas, where they are others."""
    grown: bool = False
    """`node` has more partitions."""
    states: tuple[tuple[int, PartitionState], ...] = ()
    unclean: bool = False
    """The leader of `states` was elected though it may lack committed records."""
    shown: tuple[int, ...] = ()
    """Partitions whose states clients may not know."""
    orders: tuple[tuple[BrokerId, Order], ...] = ()


class Decision(NamedTuple):
    """What follows from an event."""

    changes: tuple[Change, ...] = ()
    refused: Mapping[TopicPartition, ErrorCode] = MappingProxyType({})
    """Partitions that nothing is done about, though it was asked for."""


class ClusterFacts:
    """The controller's picture. `take` is the only way in for what was decided and written."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.controller_epoch = 0
        self.brokers: dict[BrokerId, BrokerInfo] = {}
        """Alive: registered in the store."""
        self.leaving: set[BrokerId] = set()
        """Alive, and asked to hand over what they lead."""
        self.failed: set[tuple[BrokerId, TopicPartition]] = set()
        """Replicas whose directory has failed."""
        self.damaged: set[tuple[BrokerId, TopicPartition]] = set()
        """Replicas of which batches cannot be read. They may lead where nobody else can."""
        self.doubts: dict[tuple[BrokerId, TopicPartition], Doubt] = {}
        """Replicas that may lack what was committed, as their brokers' registrations say."""
        self.topics: dict[str, StoredTopic] = {}
        self.deleting: set[str] = set()
        """Topics of which the store still knows something, and nobody may."""
        self.passed_over: list[str] = []
        """Topics of which the store holds what cannot be understood: that was said."""
        self.orphan_configs: dict[str, int] = {}
        """Versions of the settings that the store has of topics that are not there, where known."""
        self.unclean_default = False
        """unclean.leader.election.enable, where the topic does not say."""

    def register(self, registered: Iterable[Registered]) -> None:
        """Take brokers in that are alive, with what they say of their replicas."""
        for broker, doubts in registered:
            self.brokers[broker.broker_id] = broker
            for partition, doubt in doubts.items():
                self.doubts[broker.broker_id, partition] = doubt

    def keep(self, alive: Collection[BrokerId]) -> None:
        """Know of no other broker any more."""
        self.brokers = {key: broker for key, broker in self.brokers.items() if key in alive}
        self.leaving.intersection_update(alive)
        self.failed = {pair for pair in self.failed if pair[0] in alive}
        self.damaged = {pair for pair in self.damaged if pair[0] in alive}
        self.doubts = {pair: doubt for pair, doubt in self.doubts.items() if pair[0] in alive}

    def is_registered_as(self, broker: BrokerId, epoch: int) -> bool:
        """Tell whether `epoch` is that of the broker's present registration; -1: nobody knows."""
        known = self.brokers.get(broker)
        return epoch == -1 or (known is not None and known.epoch == epoch)

    def serves(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Tell whether the broker is alive and its replica of the partition has not failed."""
        return broker in self.brokers and (broker, partition) not in self.failed

    def may_lead(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Tell whether the broker serves the partition and is not leaving."""
        return broker not in self.leaving and self.serves(broker, partition)

    def damage_of(self, partition: TopicPartition) -> Callable[[BrokerId], bool]:
        """Return the sort key that puts damaged replicas last."""
        return lambda broker: (broker, partition) in self.damaged

    def unclean(self, topic: StoredTopic) -> bool:
        """Tell whether a replica outside of the ISR may lead when none of the ISR can."""
        own = topic.config.get("unclean.leader.election.enable")
        return self.unclean_default if own is None else own.strip().lower() == "true"

    def partitions_of(self, brokers: Iterable[BrokerId]) -> Iterator[tuple[StoredTopic, int]]:
        """Yield the partitions that one of the brokers holds a replica of."""
        wanted = frozenset(brokers)
        for name, topic in self.topics.items():
            if name not in self.deleting:
                for index, replicas in topic.node.partitions.items():
                    if not wanted.isdisjoint(replicas):
                        yield topic, index

    def take(self, change: Change) -> None:
        """Believe a change that the store has taken."""
        if change.created is not None:
            self.topics[change.topic] = change.created
            self.orphan_configs.pop(change.topic, None)
        topic = self.topics.get(change.topic)
        if topic is None:
            return
        if change.deleted:
            self.deleting.add(change.topic)
        if change.node is not None:
            topic.node = change.node
            topic.version += 1
        for index, state in change.states:
            topic.states[index] = state
            topic.versions[index] = topic.versions.get(index, -1) + 1
            self._settle(TopicPartition(change.topic, index), state)

    def _settle(self, partition: TopicPartition, state: PartitionState) -> None:
        """Forget doubts that a state takes into account: who is in its ISR belongs there."""
        if self.doubts:
            for broker in self.topics[partition.topic].node.partitions[partition.partition]:
                if state.leader != NO_LEADER or broker not in state.isr:
                    self.doubts.pop((broker, partition), None)

    def forget(self, name: str) -> None:
        """Forget the topic: the store knows nothing of it any more."""
        self.deleting.discard(name)
        topic = self.topics.pop(name, None)
        if topic is not None:
            gone = {TopicPartition(name, index) for index in topic.node.partitions}
            self.failed = {pair for pair in self.failed if pair[1] not in gone}
            self.damaged = {pair for pair in self.damaged if pair[1] not in gone}

    def delta(self, changes: Iterable[Change]) -> ImageDelta:
        """Return what clients are to see of changes that were taken."""
        whole: dict[str, None] = {}
        partitions: dict[str, dict[int, PartitionInfo]] = {}
        removed: list[str] = []
        for change in changes:
            topic = self.topics.get(change.topic)
            if change.deleted:
                removed.append(change.topic)
            elif change.created is not None or change.grown:
                whole[change.topic] = None
            elif topic is not None and change.topic not in self.deleting:
                shown = partitions.setdefault(change.topic, {})
                for index in (*change.shown, *(index for index, _ in change.states)):
                    shown[index] = self._with_failed(topic.name, topic.shown_partition(index))
        topics: list[TopicInfo] = [self._shown(self.topics[name]) for name in whole]
        return ImageDelta(
            topics,
            removed,
            {name: list(some.values()) for name, some in partitions.items() if some},
        )

    def everything(self, controller: BrokerId) -> ImageDelta:
        """Return the whole cluster, for who knows nothing of it."""
        topics = [
            self._shown(topic) for topic in self.topics.values() if topic.name not in self.deleting
        ]
        return ImageDelta(topics, brokers=list(self.brokers.values()), controller_id=controller)

    def _shown(self, topic: StoredTopic) -> TopicInfo:
        found = topic.shown()
        if not (self.failed or self.damaged):
            return found
        partitions = [self._with_failed(topic.name, each) for each in found.partitions]
        return replace(found, partitions=tuple(partitions))

    def _with_failed(self, name: str, partition: PartitionInfo) -> PartitionInfo:
        """Mark replicas that are damaged or whose directory has failed; brokers tell their own end.

        A damaged one that leads is marked, too: it is not whole, whatever it serves.
        """
        if not (self.failed or self.damaged):
            return partition
        key = TopicPartition(name, partition.index)
        hit = self.failed | self.damaged
        offline = tuple(broker for broker in partition.replicas if (broker, key) in hit)
        return replace(partition, offline=offline)


def with_epoch(told: BrokerInfo, registered: Mapping[BrokerId, BrokerInfo]) -> BrokerInfo:
    """Return the broker with the epoch of its registration, where that has the same addresses."""
    known = registered.get(told.broker_id)
    return known if known is not None and known.endpoints == told.endpoints else told
