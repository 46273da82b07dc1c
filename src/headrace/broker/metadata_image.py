"""What every broker tells clients of the cluster: one immutable picture, replaced when it changes.

A picture is never changed in place, so a response made from it is true as a whole, and one made
before may be sent again as long as `version` is the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from headrace.model.nouns import BrokerId, LeaderEpoch

NO_LEADER = BrokerId(-1)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker is reached through one listener (the advertised address)."""

    listener: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"
    """Security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One live broker."""

    broker_id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    """Transaction id of its registration in the store (Kafka's broker epoch)."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """The address for clients of `listener`, or None where this broker has no such listener."""
        for one in self.endpoints:
            if one.listener == listener:
                return one
        return None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """Who leads a partition, and who holds it."""

    index: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic: `partitions` is indexed by partition number, without holes."""

    name: str
    topic_id: bytes
    """16 bytes; never all zero."""
    partitions: tuple[PartitionInfo, ...]
    internal: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    """Topic-level settings as given (Kafka's names); never changed in place."""


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The cluster at one moment. `version` grows with every change."""

    cluster_id: str
    controller_id: BrokerId = NO_LEADER
    version: int = 0
    brokers: Mapping[BrokerId, BrokerInfo] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    topics_by_id: Mapping[bytes, TopicInfo] = field(default_factory=dict)

    def hash_of(self, names: Iterable[str]) -> int:
        """A number that changes when one of these topics comes, goes, grows or is made anew.

        64 bits with sign; 0 where there is none of them.
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

    def with_topics(self, changed: Iterable[TopicInfo]) -> "MetadataImage":
        """The next picture, with `changed` added or replaced (by name)."""
        topics = dict(self.topics)
        by_id = dict(self.topics_by_id)
        for topic in changed:
            former = topics.get(topic.name)
            if former is not None:
                by_id.pop(former.topic_id, None)
            topics[topic.name] = topic
            by_id[topic.topic_id] = topic
        return replace(self, version=self.version + 1, topics=topics, topics_by_id=by_id)

    def without_topics(self, names: Iterable[str]) -> "MetadataImage":
        """The next picture, without the topics named; unknown names are ignored."""
        topics = dict(self.topics)
        by_id = dict(self.topics_by_id)
        for name in names:
            topic = topics.pop(name, None)
            if topic is not None:
                by_id.pop(topic.topic_id, None)
        return replace(self, version=self.version + 1, topics=topics, topics_by_id=by_id)

    def with_offline(
        self, offline: Iterable[tuple[str, int]], broker_id: BrokerId
    ) -> "MetadataImage":
        """The next picture, these partitions out of service on `broker_id` and not led by it."""
        hit: dict[str, set[int]] = {}
        for name, index in offline:
            hit.setdefault(name, set()).add(index)
        return self.with_topics(
            replace(
                self.topics[name],
                partitions=tuple(
                    _offline(one, broker_id) if one.index in indexes else one
                    for one in self.topics[name].partitions
                ),
            )
            for name, indexes in hit.items()
            if name in self.topics
        )

    def with_brokers(
        self, brokers: Iterable[BrokerInfo], controller_id: BrokerId
    ) -> "MetadataImage":
        """The next picture, with exactly these brokers and this controller."""
        return replace(
            self,
            version=self.version + 1,
            brokers={broker.broker_id: broker for broker in brokers},
            controller_id=controller_id,
        )


def _offline(partition: PartitionInfo, broker_id: BrokerId) -> PartitionInfo:
    leader = NO_LEADER if partition.leader == broker_id else partition.leader
    offline = tuple(sorted({*partition.offline, broker_id}))
    return replace(partition, leader=leader, offline=offline)
