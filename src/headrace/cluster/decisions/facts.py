"""`ClusterFacts`: the controller's copy of the store: topics with node versions, live brokers."""

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
from headrace.cluster.decisions.orders import Failed, Order, Stop
from headrace.cluster.store.stored_doubts import Doubt, Registered
from headrace.cluster.store.stored_topic import NEVER_LED, StoredTopic
from headrace.cluster.store.znodes import PartitionState, TopicNode
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.store import Operation


class Change(NamedTuple):
    """A change of one topic, written atomically, with the orders that follow it."""

    topic: str
    operations: tuple[Operation, ...] = ()
    """Store operations with the versions that were read; empty: only orders are sent."""
    created: StoredTopic | None = None
    """The topic, if this change creates or adopts it."""
    deleted: bool = False
    """Whether this change begins the topic's deletion."""
    node: TopicNode | None = None
    """The topic's new replica assignment; None: unchanged."""
    grown: bool = False
    """Whether `node` has more partitions."""
    states: tuple[tuple[int, PartitionState], ...] = ()
    """New partition states, by partition index."""
    unclean: bool = False
    """Whether the new leader in `states` may lack committed records."""
    shown: tuple[int, ...] = ()
    """Partitions whose unchanged states are sent to brokers again."""
    orders: tuple[tuple[BrokerId, Order], ...] = ()
    """Orders to send once the change is written."""


class Decision(NamedTuple):
    """The changes that an event leads to, and the refused partitions."""

    changes: tuple[Change, ...] = ()
    refused: Mapping[TopicPartition, ErrorCode] = MappingProxyType({})
    """Error code of each requested partition that is left unchanged; partition -1: the topic."""


class ClusterFacts:
    """The controller's copy of the store.

    Decided changes enter by `take`, once they are written.
    """

    def __init__(self) -> None:
        """Create an empty copy of the store's facts: no topics and no brokers."""
        self.controller_epoch = 0
        self.brokers: dict[BrokerId, BrokerInfo] = {}
        """Live brokers: those registered in the store."""
        self.leaving: set[BrokerId] = set()
        """Live brokers in controlled shutdown."""
        self.suspects: Mapping[BrokerId, int] = {}
        """Brokers that seem to be dead before their sessions end, by their epochs."""
        self.drained: frozenset[BrokerId] = frozenset()
        """Brokers under maintenance: each leads only if no other in-sync replica can."""
        self.failed: set[tuple[BrokerId, TopicPartition]] = set()
        """Replicas whose log directory has failed, with their broker."""
        self.damaged: set[tuple[BrokerId, TopicPartition]] = set()
        """Replicas with unreadable batches, with their broker. They lead only if no sound one
        can."""
        self.doubts: dict[tuple[BrokerId, TopicPartition], Doubt] = {}
        """Replicas that may lack committed records, from their brokers' registrations."""
        self.topics: dict[str, StoredTopic] = {}
        self.deleting: set[str] = set()
        """Topics whose deletion has begun and that the store still has."""
        self.passed_over: list[str] = []
        """Topics whose nodes are malformed; this was logged."""
        self.orphan_configs: dict[str, int] = {}
        """Node versions of settings in the store whose topic does not exist."""
        self.unclean_default = False
        """unclean.leader.election.enable for topics without a setting of their own."""

    def register(self, registered: Iterable[Registered]) -> None:
        """Add live brokers and the doubts in their registrations."""
        for broker, doubts in registered:
            self.brokers[broker.broker_id] = broker
            for partition, doubt in doubts.items():
                self.doubts[broker.broker_id, partition] = doubt

    def keep(self, alive: Collection[BrokerId]) -> None:
        """Remove all brokers that are not in `alive`, and what is known of their replicas."""
        self.brokers = {key: broker for key, broker in self.brokers.items() if key in alive}
        self.leaving.intersection_update(alive)
        self.failed = {pair for pair in self.failed if pair[0] in alive}
        self.damaged = {pair for pair in self.damaged if pair[0] in alive}
        self.doubts = {pair: doubt for pair, doubt in self.doubts.items() if pair[0] in alive}

    def brokers_with(self, feature: str) -> Collection[BrokerId]:
        """Return the live brokers that have a feature; all if none has it (`MetadataImage`)."""
        found = {key for key, broker in self.brokers.items() if feature in broker.features}
        return found or self.brokers.keys()

    def is_registered_as(self, broker: BrokerId, epoch: int) -> bool:
        """Return whether `epoch` is that of the broker's present registration, or -1 (unknown)."""
        known = self.brokers.get(broker)
        return epoch == -1 or (known is not None and known.epoch == epoch)

    def served(self, broker: BrokerId, orders: Iterable[Order], failed: Failed) -> None:
        """End failures of replicas whose broker carried out an order of the present leader."""
        for order in orders:
            if isinstance(order, Stop) or order.replication.leader == NO_LEADER:
                continue
            key, epoch = order.replication.topic_partition, order.replication.leader_epoch
            topic = self.topics.get(key.topic)
            present = topic and topic.states.get(key.partition, NEVER_LED).leader_epoch
            if key not in failed and epoch == present:
                self.failed.discard((broker, key))

    def serves(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Return whether the broker is alive and its replica of the partition has not failed."""
        return broker in self.brokers and (broker, partition) not in self.failed

    def may_lead(self, broker: BrokerId, partition: TopicPartition) -> bool:
        """Return whether the broker serves the partition and is not in controlled shutdown."""
        return broker not in self.leaving and self.serves(broker, partition)

    def is_suspected(self, broker: BrokerId) -> bool:
        """Return whether the broker's present registration is suspected to be dead."""
        known = self.brokers.get(broker)
        return known is not None and self.suspects.get(broker) == known.epoch

    def damage_of(self, partition: TopicPartition) -> Callable[[BrokerId], bool]:
        """Return the sort key that puts damaged replicas last."""
        return lambda broker: (broker, partition) in self.damaged

    def rank_of(self, partition: TopicPartition) -> Callable[[BrokerId], tuple[bool, bool]]:
        """Return the sort key of leaders: damaged replicas last, before these drained brokers."""
        damaged = self.damage_of(partition)
        return lambda broker: (damaged(broker), broker in self.drained)

    def unclean(self, topic: StoredTopic) -> bool:
        """Return whether unclean leader election is enabled for the topic."""
        own = topic.config.get("unclean.leader.election.enable")
        return self.unclean_default if own is None else own.strip().lower() == "true"

    def partitions_of(self, brokers: Iterable[BrokerId]) -> Iterator[tuple[StoredTopic, int]]:
        """Yield topic and partition index of each replica assigned to one of the brokers."""
        wanted = frozenset(brokers)
        for name, topic in self.topics.items():
            if name not in self.deleting:
                for index, replicas in topic.node.partitions.items():
                    if not wanted.isdisjoint(replicas):
                        yield topic, index

    def take(self, change: Change) -> None:
        """Apply a change that was written to the store."""
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
        """Remove the doubts that a new state accounts for.

        They are those of all replicas if one leads, else those of replicas outside of the ISR.
        """
        if self.doubts:
            for broker in self.topics[partition.topic].node.partitions[partition.partition]:
                if state.leader != NO_LEADER or broker not in state.isr:
                    self.doubts.pop((broker, partition), None)

    def forget(self, name: str) -> None:
        """Remove a topic that the store no longer has."""
        self.deleting.discard(name)
        topic = self.topics.pop(name, None)
        if topic is not None:
            gone = {TopicPartition(name, index) for index in topic.node.partitions}
            self.failed = {pair for pair in self.failed if pair[1] not in gone}
            self.damaged = {pair for pair in self.damaged if pair[1] not in gone}

    def delta(self, changes: Iterable[Change]) -> ImageDelta:
        """Return the delta of the metadata image for changes that were applied."""
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
        """Return the whole cluster as a delta, for a broker that has joined."""
        shown = [
            self._shown(each) for each in self.topics.values() if each.name not in self.deleting
        ]
        brokers, is_whole = list(self.brokers.values()), not self.passed_over
        return ImageDelta(shown, brokers=brokers, controller_id=controller, is_whole=is_whole)

    def _shown(self, topic: StoredTopic) -> TopicInfo:
        found = topic.shown()
        if not (self.failed or self.damaged):
            return found
        partitions = [self._with_failed(topic.name, each) for each in found.partitions]
        return replace(found, partitions=tuple(partitions))

    def _with_failed(self, name: str, partition: PartitionInfo) -> PartitionInfo:
        """Return `partition` with replicas that are damaged or on failed directories as offline.

        A damaged leader is included: it is not complete, though it serves.
        """
        if not (self.failed or self.damaged):
            return partition
        key = TopicPartition(name, partition.index)
        hit = self.failed | self.damaged
        offline = tuple(broker for broker in partition.replicas if (broker, key) in hit)
        return replace(partition, offline=offline)


def with_epoch(told: BrokerInfo, registered: Mapping[BrokerId, BrokerInfo]) -> BrokerInfo:
    """Return the broker as registered, with its epoch, if the endpoints are equal; else `told`."""
    known = registered.get(told.broker_id)
    return known if known is not None and known.endpoints == told.endpoints else told
