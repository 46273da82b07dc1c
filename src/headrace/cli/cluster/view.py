"""What `headrace cluster` shows: a cluster at one moment, counted, and its partitions."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.cli.shared.failure import not_found
from headrace.client.metadata import Metadata, PartitionMetadata
from headrace.client.replicas import ReplicaLog
from headrace.model.nouns import TopicPartition

Logs = Mapping[int, Mapping[TopicPartition, ReplicaLog]]
"""What lies on each broker that told it."""


class PartitionRow(NamedTuple):
    """One partition, and how far its replicas are behind."""

    topic: str
    metadata: PartitionMetadata
    size: int | None
    """In bytes, on the leader's disk; None: it did not say."""
    lags: Mapping[int, int | None]
    """By replica; None: its broker did not say."""

    @property
    def is_offline(self) -> bool:
        """Whether nobody leads it."""
        return self.metadata.leader < 0

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return len(self.metadata.isr) < len(self.metadata.replicas)

    def is_damaged(self, known: Metadata) -> bool:
        """Tell whether a live broker has a replica that is damaged or whose directory failed."""
        return any(broker in known.brokers for broker in self.metadata.offline)

    @property
    def is_elsewhere(self) -> bool:
        """Whether another replica than the preferred one leads."""
        return not self.is_offline and self.metadata.leader != self.metadata.replicas[0]

    @property
    def status(self) -> str:
        """What is wrong with it, in words; empty where nothing is."""
        words = [
            word
            for word, holds in (
                ("offline", self.is_offline),
                ("under-replicated", self.is_under_replicated),
                ("not preferred", self.is_elsewhere),
            )
            if holds
        ]
        return ", ".join(words)

    def as_json(self) -> dict[str, Any]:
        """Return the row for scripts."""
        found = self.metadata
        return {
            "topic": self.topic,
            "partition": found.partition,
            "leader": None if self.is_offline else found.leader,
            "leader_epoch": found.leader_epoch,
            "replicas": list(found.replicas),
            "isr": list(found.isr),
            "offline_replicas": list(found.offline),
            "offline": self.is_offline,
            "under_replicated": self.is_under_replicated,
            "preferred_leader": not self.is_elsewhere and not self.is_offline,
            "bytes": self.size,
            "lags": [{"broker": broker, "lag": lag} for broker, lag in self.lags.items()],
        }


def rows_of(known: Metadata, names: Sequence[str], logs: Logs) -> list[PartitionRow]:
    """Return the partitions of topics, by name and number."""
    return [
        _row(name, partition, logs) for name in names for partition in known.topics[name].partitions
    ]


def _row(topic: str, partition: PartitionMetadata, logs: Logs) -> PartitionRow:
    key = TopicPartition(topic, partition.partition)
    found = {broker: logs.get(broker, {}).get(key) for broker in partition.replicas}
    led = logs.get(partition.leader, {}).get(key)
    return PartitionRow(
        topic,
        partition,
        None if led is None else led.size,
        {broker: None if log is None else log.lag for broker, log in found.items()},
    )


class Health(NamedTuple):
    """A cluster in numbers."""

    cluster_id: str | None
    controller: int
    brokers: int
    missing: Sequence[int]
    """Brokers that hold replicas and are not there."""
    topics: int
    partitions: int
    replicas: int
    offline: int
    under_replicated: int
    not_preferred: int
    damaged: int = 0
    """Partitions with a replica on a live broker that is damaged or whose directory failed."""

    def as_json(self) -> dict[str, Any]:
        """Return the numbers for scripts."""
        return {
            "cluster_id": self.cluster_id,
            "healthy": self.is_healthy,
            "controller": self.controller if self.controller >= 0 else None,
            "broker_count": self.brokers,
            "missing_brokers": list(self.missing),
            "topic_count": self.topics,
            "partition_count": self.partitions,
            "replica_count": self.replicas,
            "offline_partitions": self.offline,
            "under_replicated_partitions": self.under_replicated,
            "not_preferred_partitions": self.not_preferred,
            "damaged_partitions": self.damaged,
        }

    @property
    def is_healthy(self) -> bool:
        """Whether there is a controller, and all replicas are sound and in sync."""
        wrong = self.offline or self.under_replicated or self.missing or self.damaged
        return self.controller >= 0 and not wrong


def health_of(known: Metadata) -> Health:
    """Count a cluster's partitions."""
    rows = rows_of(known, sorted(known.topics), {})
    holding = {broker for row in rows for broker in row.metadata.replicas}
    return Health(
        known.cluster_id,
        known.controller_id,
        len(known.brokers),
        sorted(holding - known.brokers.keys()),
        len(known.topics),
        len(rows),
        sum(len(row.metadata.replicas) for row in rows),
        sum(row.is_offline for row in rows),
        sum(row.is_under_replicated for row in rows),
        sum(row.is_elsewhere for row in rows),
        sum(row.is_damaged(known) for row in rows),
    )


def check_topic(known: Metadata, name: str) -> None:
    """Raise CommandError where there is no such topic."""
    if name not in known.topics:
        raise not_found("topic", name, sorted(known.topics))


def listed(brokers: Sequence[int]) -> str:
    """Return brokers as they are named in commands: `1,2,3`."""
    return ",".join(map(str, brokers))
