"""The limits of share groups, by Kafka's configuration names."""

from dataclasses import dataclass
from typing import Protocol

from headrace.record.compression import Codec


class ShareConfig(Protocol):
    """The keys of `config.broker.BrokerConfig` that speak of share groups."""

    group_share_max_share_sessions: int
    group_share_max_size: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_compression_codec: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_write_timeout_ms: int


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """Times in milliseconds. Defaults are Kafka 4.3's; a group's own settings are elsewhere."""

    sessions_max: int = 2000
    """group.share.max.share.sessions: share sessions of one broker."""
    members_max: int = 200
    """group.share.max.size: members of one group."""
    state_partitions: int = 50
    """share.coordinator.state.topic.num.partitions: counts only until the topic exists."""
    state_codec: Codec = Codec.NONE
    """share.coordinator.state.topic.compression.codec."""
    state_write_timeout_ms: int = 5000
    """share.coordinator.write.timeout.ms."""
    updates_per_snapshot: int = 500
    """share.coordinator.snapshot.update.records.per.snapshot."""
    prune_interval_ms: int = 300_000
    """share.coordinator.state.topic.prune.interval.ms."""
    cold_snapshot_interval_ms: int = 300_000
    """share.coordinator.cold.partition.snapshot.interval.ms."""

    @classmethod
    def of(cls, config: ShareConfig) -> "ShareLimits":
        """The limits a configuration sets."""
        return cls(
            sessions_max=config.group_share_max_share_sessions,
            members_max=config.group_share_max_size,
            state_partitions=config.share_coordinator_state_topic_num_partitions,
            state_codec=Codec(config.share_coordinator_state_topic_compression_codec),
            state_write_timeout_ms=config.share_coordinator_write_timeout_ms,
            updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
            prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
            cold_snapshot_interval_ms=(
                config.share_coordinator_cold_partition_snapshot_interval_ms
            ),
        )
