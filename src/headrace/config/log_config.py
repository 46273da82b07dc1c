"""What one partition's log needs to know: a topic's settings, its own over the broker's.

Names and meanings are Kafka's topic configurations (Kafka 4.3, TopicConfig).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one topic. Sizes in bytes, times in milliseconds; -1: no bound."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 86_400_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 86_400_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1_048_588
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = (1 << 63) - 1
    message_timestamp_after_max_ms: int = 3_600_000
    min_insync_replicas: int = 1
    flush_messages: int = (1 << 63) - 1
    flush_ms: int = (1 << 63) - 1
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1
    unclean_leader_election: bool = False
    preallocate: bool = False

    @property
    def compacted(self) -> bool:
        """Whether the newest record of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        """Whether the broker's time replaces the producer's."""
        return self.message_timestamp_type == "LogAppendTime"
