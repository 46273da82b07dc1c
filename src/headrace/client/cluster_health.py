"""A cluster at one moment, counted, and its partitions: the data of `headrace cluster`."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from headrace.client.admin.replicas import Reassigning, ReplicaLog
from headrace.client.calls.metadata import Metadata, PartitionMetadata
from headrace.client.standing import Seen
from headrace.model.nouns import TopicPartition

Ends = Mapping[int, Mapping[TopicPartition, int]]
"""Log end offsets (LEO) of replicas, by broker."""
Logs = Mapping[int, Mapping[TopicPartition, ReplicaLog]]
"""Replicas with size and lag, by broker; brokers that did not answer are missing."""


class PartitionRow(NamedTuple):
    """A partition and the lag of its replicas."""

    topic: str
    metadata: PartitionMetadata
    size: int | None
    """Bytes on the leader's disk; None: unknown."""
    lags: Mapping[int, int | None]
    """Offsets behind the leader, by replica; None: unknown."""
    move: Reassigning | None = None
    """The running reassignment, or None."""
    in_sync_needed: int = 0
    """`min.insync.replicas` if a replica is out of sync; 0: all are in sync, or unknown."""

    @property
    def is_offline(self) -> bool:
        """Whether the partition has no leader."""
        return self.metadata.leader < 0

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is out of sync.

        Replicas that a reassignment adds do not count (KIP-352).
        """
        adding = 0 if self.move is None else len(self.move.adding)
        return len(self.metadata.isr) < len(self.metadata.replicas) - adding

    @property
    def refuses_acks_all(self) -> bool:
        """Whether fewer replicas are in sync than acks=all requires."""
        needed = min(self.in_sync_needed, len(self.metadata.replicas))
        return not self.is_offline and len(self.metadata.isr) < needed

    def is_damaged(self, known: Metadata) -> bool:
        """Return whether a live broker has a replica that is damaged or whose directory failed."""
        return any(broker in known.brokers for broker in self.metadata.offline)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the leader is not the preferred replica."""
        return not self.is_offline and self.metadata.leader != self.metadata.replicas[0]

    @property
    def status(self) -> str:
        """The partition's problems in words; "" without any."""
        words = [
            word
            for word, holds in (
                ("offline", self.is_offline),
                ("under-replicated", self.is_under_replicated),
                ("refuses acks=all", self.refuses_acks_all),
                ("moving", self.move is not None),
                ("not preferred", self.is_elsewhere),
            )
            if holds
        ]
        return ", ".join(words)

    def as_json(self) -> dict[str, Any]:
        """Return a partition's row for JSON output."""
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
            "under_min_isr": self.refuses_acks_all,
            "moving": self.move is not None,
            "preferred_leader": not self.is_elsewhere and not self.is_offline,
            "bytes": self.size,
            "lags": [{"broker": broker, "lag": lag} for broker, lag in self.lags.items()],
        }


def rows_of(
    known: Metadata,
    names: Sequence[str],
    logs: Logs,
    ends: Ends = MappingProxyType({}),
    seen: Seen | None = None,
) -> list[PartitionRow]:
    """Return the partitions of topics, by name and number.

    `seen`: running moves, and the required in-sync replicas.
    """
    return [
        _row(name, partition, logs, ends, seen)
        for name in names
        for partition in known.topics[name].partitions
    ]  # fmt: skip


def _row(
    topic: str, partition: PartitionMetadata, logs: Logs, ends: Ends, seen: Seen | None
) -> PartitionRow:
    key = TopicPartition(topic, partition.partition)
    led = logs.get(partition.leader, {}).get(key)
    return PartitionRow(
        topic,
        partition,
        None if led is None else led.size,
        {broker: _lag(key, partition, broker, logs, ends) for broker in partition.replicas},
        None if seen is None else seen.moves.get(key),
        0 if seen is None else seen.in_sync_needed.get(topic, 0),
    )


def _lag(
    key: TopicPartition, partition: PartitionMetadata, broker: int, logs: Logs, ends: Ends
) -> int | None:
    """Return a replica's lag in offsets behind its leader's log end, or None if unknown."""
    led, own = ends.get(partition.leader, {}).get(key), ends.get(broker, {}).get(key)
    if led is not None and own is not None:
        return max(led - own, 0)
    log = logs.get(broker, {}).get(key)
    return None if log is None else log.lag


class Health(NamedTuple):
    """Counts of a cluster's brokers and partitions."""

    cluster_id: str | None
    controller: int
    brokers: int
    missing: Sequence[int]
    """Brokers that hold replicas and are not registered."""
    topics: int
    partitions: int
    replicas: int
    offline: int
    under_replicated: int
    not_preferred: int
    refusing: int = 0
    """Partitions that refuse acks=all."""
    moving: int = 0
    """Partitions that are being moved."""
    unanswered: Sequence[int] = ()
    """Registered brokers that did not answer."""
    without_store: Sequence[int] = ()
    """Brokers that get no answer from the metadata store."""
    damaged: int = 0
    """Partitions with a replica on a live broker that is damaged or whose directory failed."""

    def as_json(self) -> dict[str, Any]:
        """Return a cluster's counts for JSON output."""
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
            "under_min_isr_partitions": self.refusing,
            "moving_partitions": self.moving,
            "unanswered_brokers": list(self.unanswered),
            "brokers_without_store": list(self.without_store),
            "damaged_partitions": self.damaged,
        }

    @property
    def is_healthy(self) -> bool:
        """Whether there is a controller, all brokers answer, and all replicas are in sync."""
        return self.controller >= 0 and not (
            self.offline
            or self.under_replicated
            or self.missing
            or self.damaged
            or self.refusing
            or self.unanswered
            or self.without_store
        )


def health_of(seen: Seen) -> Health:
    """Count a cluster's brokers and partitions."""
    known = seen.known
    rows = rows_of(known, sorted(known.topics), {}, seen=seen)
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
        sum(row.refuses_acks_all for row in rows),
        sum(row.move is not None for row in rows),
        [standing.broker for standing in seen.unanswered],
        [standing.broker for standing in seen.without_store],
        sum(row.is_damaged(known) for row in rows),
    )
