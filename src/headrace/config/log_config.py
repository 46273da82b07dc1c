"""The settings of a partition's log: a topic's own values over the broker's.

Names and meanings are Kafka's topic configurations (Kafka 4.3, TopicConfig).
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from headrace.config.keys.log import LogKeys
from headrace.config.keys.row import key_name, stand_in
from headrace.config.value_types import Definition

_BROKER_DEFAULTS = {name: row.default for name, row in LogKeys.KEYS.items()}


def topic_key(synonym: str, doc: str) -> Any:  # noqa: ANN401
    """Declare a topic key with the type, bounds and default of broker key `synonym`."""
    row = LogKeys.KEYS[synonym]
    default = stand_in(row, _BROKER_DEFAULTS) if row.default is None else row.default
    definition = replace(row, default=default, doc=doc, synonym=synonym, coarser=())
    return field(
        default=frozenset(default) if isinstance(default, tuple) else default,
        metadata={"definition": definition},
    )


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one topic. Sizes in bytes, times in milliseconds; -1: no bound.

    `segment_bytes` is the topic's key `segment.bytes`, and so on.
    """

    cleanup_policy: frozenset[str] = topic_key(
        "log.cleanup.policy",
        "delete: segments are deleted by time and size. compact: the latest record of each key"
        " is retained.",
    )
    compression_gzip_level: int = topic_key(
        "compression.gzip.level",
        "gzip level if compression.type makes the broker compress: 1 to 9, or -1 for gzip's"
        " default; 0 is refused.",
    )
    compression_lz4_level: int = topic_key(
        "compression.lz4.level",
        "lz4 level if compression.type makes the broker compress; 9 is the fast level.",
    )
    compression_zstd_level: int = topic_key(
        "compression.zstd.level", "zstd level if compression.type makes the broker compress."
    )
    compression_type: str = topic_key(
        "compression.type",
        "The codec in which batches are stored. producer: the codec in which they arrive. With"
        " another codec, each batch that arrives in a different one is recompressed on a thread.",
    )
    delete_retention_ms: int = topic_key(
        "log.cleaner.delete.retention.ms", "How long tombstones stay after compaction."
    )
    file_delete_delay_ms: int = topic_key(
        "log.segment.delete.delay.ms",
        "How long the renamed files of a deleted segment stay on disk.",
    )
    flush_messages: int = topic_key(
        "log.flush.interval.messages", "Flush when this many records are unflushed."
    )
    flush_ms: int = topic_key(
        "log.flush.interval.ms", "Flush records at the latest after this long."
    )
    index_interval_bytes: int = topic_key(
        "log.index.interval.bytes", "Log bytes between two index entries."
    )
    max_compaction_lag_ms: int = topic_key(
        "log.cleaner.max.compaction.lag.ms",
        "A record older than this is compacted regardless of the dirty ratio.",
    )
    max_message_bytes: int = topic_key(
        "message.max.bytes", "The largest record batch, after the producer's compression."
    )
    message_timestamp_after_max_ms: int = topic_key(
        "log.message.timestamp.after.max.ms",
        "A record whose timestamp is further in the future is refused.",
    )
    message_timestamp_before_max_ms: int = topic_key(
        "log.message.timestamp.before.max.ms",
        "A record whose timestamp is further in the past is refused.",
    )
    message_timestamp_type: str = topic_key(
        "log.message.timestamp.type",
        "CreateTime: the producer's timestamp. LogAppendTime: the broker's.",
    )
    min_cleanable_dirty_ratio: float = topic_key(
        "log.cleaner.min.cleanable.ratio",
        "The least uncompacted share of the log at which it is compacted.",
    )
    min_compaction_lag_ms: int = topic_key(
        "log.cleaner.min.compaction.lag.ms", "A record younger than this is not compacted away."
    )
    min_insync_replicas: int = topic_key(
        "min.insync.replicas", "acks=all is refused while fewer replicas than this are in sync."
    )
    retention_bytes: int = topic_key(
        "log.retention.bytes",
        "The oldest segments are deleted while the partition would still have at least this"
        " many bytes without them; -1: no bound.",
    )
    retention_ms: int = topic_key(
        "log.retention.ms", "Segments whose latest record is older are deleted; -1: never."
    )
    segment_bytes: int = topic_key("log.segment.bytes", "The largest size of a segment.")
    segment_index_bytes: int = topic_key("log.index.size.max.bytes", "The largest offset index.")
    segment_jitter_ms: int = topic_key(
        "log.roll.jitter.ms", "A random time up to this is subtracted from segment.ms."
    )
    segment_ms: int = topic_key(
        "log.roll.ms", "A segment is rolled when its first record is this old."
    )
    unclean_leader_election_enable: bool = topic_key(
        "unclean.leader.election.enable",
        "Whether a replica that is not in sync may become leader if no in-sync replica is left.",
    )

    @property
    def compacted(self) -> bool:
        """Whether the topic is compacted: the newest record of each key is retained."""
        return "compact" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        """Whether the broker's time replaces the producer's timestamps."""
        return self.message_timestamp_type == "LogAppendTime"


IN_USE: tuple[Definition, ...] = tuple(
    replace(setting.metadata["definition"], name=key_name(setting.name))
    for setting in fields(LogConfig)
)
"""The topic keys that have an effect."""
