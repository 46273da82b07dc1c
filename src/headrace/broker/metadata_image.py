"""`MetadataImage`: the cluster's metadata that this broker gives to clients, changed by deltas.

One object for the broker's lifetime (ADR 16). Only `Broker.publish` changes it, on the deciding
thread. Its topics, partitions and brokers are immutable and get replaced: code that needs a topic's
former state keeps its `TopicInfo`. A response made without waiting is consistent.

`version` increases with every delta; `structure` increases only when topics, partitions or brokers
are added or removed, not with a new leader or ISR.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import NamedTuple

from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.security.identity import LOCAL_LISTENER

NO_LEADER = BrokerId(-1)


class Endpoint(NamedTuple):
    """The advertised address of a broker for one listener."""

    listener: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"
    """Security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""


class BrokerInfo(NamedTuple):
    """A live broker with its endpoints."""

    broker_id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    """Transaction id of its registration in the store (Kafka's broker epoch)."""
    features: frozenset[str] = frozenset()
    """Names of the features in its registration."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return the address for clients of `listener`; None if the broker has no such listener."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition's leader, leader epoch, replicas and ISR."""

    index: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic; `partitions` is indexed by partition number without gaps."""

    name: str
    topic_id: bytes
    """16 bytes; never all zero."""
    partitions: tuple[PartitionInfo, ...]
    internal: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    """Topic-level settings by Kafka's names; never changed in place."""


class ImageDelta(NamedTuple):
    """A change of the metadata image, applied as a whole."""

    topics: Sequence[TopicInfo] = ()
    """Added topics, and topics with more partitions or other settings, complete. Each name once."""
    removed: Sequence[str] = ()
    """Names of deleted topics, removed before `topics` are added; unknown names are ignored."""
    partitions: Mapping[str, Sequence[PartitionInfo]] = MappingProxyType({})
    """Partitions with a new leader, epoch, ISR or replicas, by topic; unknown ones are ignored.

    Applied after `topics`.
    """
    brokers: Sequence[BrokerInfo] | None = None
    """All live brokers; None: unchanged."""
    controller_id: BrokerId | None = None
    """The controller's broker id; None: unchanged."""
    is_whole: bool = False
    """Whether the cluster has no other topics: those that the delta does not name are removed."""


Observer = Callable[[ImageDelta, bool], None]
"""Called with a delta, and whether `structure` increased with it."""


class MetadataImage:
    """The current metadata of the cluster."""

    __slots__ = (
        "_folded",
        "adding",
        "brokers",
        "cluster_id",
        "controller_id",
        "drained",
        "local",
        "observers",
        "partition_count",
        "structure",
        "suspects",
        "topics",
        "topics_by_id",
        "version",
    )

    def __init__(self, cluster_id: str) -> None:
        """Make an image of a cluster without topics and brokers."""
        self.cluster_id = cluster_id
        self.controller_id = NO_LEADER
        self.local: tuple[BrokerId, Endpoint] | None = None
        """This broker's id and Unix socket for administration; None if it has no socket."""
        self.version = 0
        """Increases with every change."""
        self.structure = 0
        """Increases when topics, partitions or brokers are added or removed, or the controller
        changes."""
        self.brokers: Mapping[BrokerId, BrokerInfo] = {}
        self.suspects: dict[BrokerId, int] = {}
        """Registered brokers that are dead as far as this one can see, by their epochs."""
        self.drained: frozenset[BrokerId] = frozenset()
        """Brokers under maintenance, which lead only if no other in-sync replica can."""
        self.topics: dict[str, TopicInfo] = {}
        self.topics_by_id: dict[bytes, TopicInfo] = {}
        self.adding: dict[TopicPartition, frozenset[BrokerId]] = {}
        """Replicas that reassignments add, of partitions on this broker; not shown to clients.

        Set by the controller's orders.
        """
        self.partition_count = 0
        """Number of partitions of all topics."""
        self.observers: list[Observer] = []
        """Called after each change, in the order of registration."""
        self._folded: dict[str, tuple[str, ...]] = {}

    def hash_of(self, names: Iterable[str]) -> int:
        """Return a hash that changes when one of these topics is created, deleted or grows.

        A signed 64-bit number; 0 if none of the topics exists.
        """
        digest = blake2b(digest_size=8)
        some = False
        for name in sorted(names):
            topic = self.topics.get(name)
            if topic is not None:
                some = True
                parts = (name.encode(), topic.topic_id, len(topic.partitions))
                digest.update(b"%s\0%s%d;" % parts)
        return int.from_bytes(digest.digest(), "big", signed=True) if some else 0

    def suspect(self, broker: BrokerId, epoch: int) -> bool:
        """Suspect a registered broker to be dead; return whether it was not suspected before."""
        if self.suspects.get(broker) == epoch:
            return False
        self.suspects[broker] = epoch
        self._changed(ImageDelta(), structural=True)
        return True

    def believe(self, broker: BrokerId, epoch: int) -> None:
        """Withdraw the suspicion about a registration, if there is one."""
        if self.suspects.get(broker) == epoch:
            del self.suspects[broker]
            self._changed(ImageDelta(), structural=True)

    def drain(self, brokers: frozenset[BrokerId]) -> None:
        """Take over which brokers are drained."""
        if brokers != self.drained:
            self.drained = brokers
            self._changed(ImageDelta(), structural=True)

    def reachable_brokers(self) -> Iterator[BrokerInfo]:
        """Yield the registered brokers that are not suspected to be dead."""
        for broker in self.brokers.values():
            if not self._is_suspected(broker):
                yield broker

    def reachable_leader(self, partition: PartitionInfo) -> BrokerId:
        """Return a partition's leader; NO_LEADER if none, or not one of `reachable_brokers`.

        Clients are shown this one, as by Kafka: they look for its address in the list of brokers.
        """
        broker = self.brokers.get(partition.leader)
        if broker is None or self._is_suspected(broker):
            return NO_LEADER
        return partition.leader

    def _is_suspected(self, broker: BrokerInfo) -> bool:
        return self.suspects.get(broker.broker_id) == broker.epoch

    def brokers_with(self, feature: str) -> Mapping[BrokerId, BrokerInfo]:
        """Return the live brokers that have a feature; all if none has it, or it is empty.

        A broker with a metadata store of its own has no features.
        """
        if not feature:
            return self.brokers
        found = {broker: info for broker, info in self.brokers.items() if feature in info.features}
        return found or self.brokers

    def endpoint(self, broker: BrokerInfo, listener: str) -> Endpoint | None:
        """Return the address of `broker` for clients of `listener`; None if it has none.

        A Unix socket reaches only the broker that owns it.
        """
        if listener == LOCAL_LISTENER and self.local is not None:
            broker_id, endpoint = self.local
            return endpoint if broker.broker_id == broker_id else None
        return broker.endpoint(listener)

    def collides_with(self, name: str) -> str | None:
        """Return a topic whose name differs from `name` only in '.' and '_', or None."""
        return next(iter(self._folded.get(folded(name), ())), None)

    def leader_of(self, partition: TopicPartition) -> BrokerId:
        """Return the partition's leader; NO_LEADER if it has none."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return NO_LEADER
        return topic.partitions[partition.partition].leader

    def known_partitions(self, wanted: Iterable[TopicPartition]) -> dict[str, list[PartitionInfo]]:
        """Return the current entries of these partitions by topic; unknown ones are omitted."""
        known: dict[str, list[PartitionInfo]] = {}
        for name, index in wanted:
            topic = self.topics.get(name)
            if topic is not None and index < len(topic.partitions):
                known.setdefault(name, []).append(topic.partitions[index])
        return known

    def apply(self, delta: ImageDelta) -> None:
        """Apply a delta, then call the observers, which are told all topics that it removes."""
        if delta.is_whole:
            named = {topic.name for topic in delta.topics} | delta.partitions.keys()
            left = [name for name in self.topics if name not in named]
            delta = delta._replace(removed=[*delta.removed, *left])
        structural = False
        for name in delta.removed:
            structural = self._remove(name) or structural
        for topic in delta.topics:
            structural = self._put(topic) or structural
        for name, changed in delta.partitions.items():
            former = self.topics.get(name)
            if former is not None:
                self._put(_with_partitions(former, changed))
        if delta.brokers is not None:
            brokers = {broker.broker_id: broker for broker in delta.brokers}
            structural = structural or brokers != self.brokers
            self.brokers = brokers
        if delta.controller_id is not None:
            structural = structural or delta.controller_id != self.controller_id
            self.controller_id = delta.controller_id
        self._changed(delta, structural=structural)

    def _changed(self, delta: ImageDelta, *, structural: bool) -> None:
        self.version += 1
        self.structure += structural
        for observer in tuple(self.observers):
            observer(delta, structural)

    def _remove(self, name: str) -> bool:
        topic = self.topics.pop(name, None)
        if topic is None:
            return False
        self.topics_by_id.pop(topic.topic_id, None)
        left = tuple(other for other in self._folded.pop(folded(name), ()) if other != name)
        if left:
            self._folded[folded(name)] = left
        self.partition_count -= len(topic.partitions)
        return True

    def _put(self, topic: TopicInfo) -> bool:
        """Add or replace a topic; return whether its id or its number of partitions is new."""
        former = self.topics.get(topic.name)
        self.topics[topic.name] = topic
        if former is None:
            self.topics_by_id[topic.topic_id] = topic
            alike = folded(topic.name)
            self._folded[alike] = (*self._folded.get(alike, ()), topic.name)
            self.partition_count += len(topic.partitions)
            return True
        if former.topic_id != topic.topic_id:
            self.topics_by_id.pop(former.topic_id, None)
        self.topics_by_id[topic.topic_id] = topic
        more = len(topic.partitions) - len(former.partitions)
        self.partition_count += more
        return more != 0 or former.topic_id != topic.topic_id


def folded(name: str) -> str:
    """Return a topic's name as metrics show it, with '.' replaced by '_'."""
    return name.replace(".", "_")


def offline_replicas(
    partition: PartitionInfo, brokers: Container[BrokerId]
) -> tuple[BrokerId, ...]:
    """Return the replicas that are unavailable: broker down, or log directory failed.

    `brokers`: the live ones. In the order of the assignment, as Kafka lists them.
    """
    failed = partition.offline
    if not failed and all(replica in brokers for replica in partition.replicas):
        return ()
    return tuple(
        replica for replica in partition.replicas if replica in failed or replica not in brokers
    )


def with_offline(
    delta: ImageDelta,
    image: MetadataImage,
    offline: Iterable[tuple[str, int]],
    broker_id: BrokerId,
) -> ImageDelta:
    """Mark the partitions of `offline` in `delta`: out of service on `broker_id`, not led by it.

    Topics that are not in `delta` stay as they are in `image`.
    """
    topics = {topic.name: topic for topic in delta.topics}
    partitions = {
        name: {partition.index: partition for partition in some}
        for name, some in delta.partitions.items()
    }
    for name, index in offline:
        if name not in topics and name not in partitions:
            continue
        shown = topics.get(name) or image.topics.get(name)
        changed = partitions.get(name, {})
        if index not in changed and (shown is None or index >= len(shown.partitions)):
            continue
        found = changed[index] if index in changed or shown is None else shown.partitions[index]
        partitions.setdefault(name, {})[index] = _offline(found, broker_id)
    return delta._replace(
        partitions={name: list(changed.values()) for name, changed in partitions.items()}
    )


def _with_partitions(topic: TopicInfo, changed: Sequence[PartitionInfo]) -> TopicInfo:
    partitions = list(topic.partitions)
    for partition in changed:
        if partition.index < len(partitions):
            partitions[partition.index] = partition
    return replace(topic, partitions=tuple(partitions))


def _offline(partition: PartitionInfo, broker_id: BrokerId) -> PartitionInfo:
    leader = NO_LEADER if partition.leader == broker_id else partition.leader
    offline = tuple(sorted({*partition.offline, broker_id}))
    return replace(partition, leader=leader, offline=offline)
