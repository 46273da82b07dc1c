"""What one partition's log needs to know: a topic's settings, its own over the broker's.

Names and meanings are Kafka's topic configurations (Kafka 4.3, TopicConfig).
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from headrace.config.keys.log import LogKeys
from headrace.config.keys.row import key_name, stand_in
from headrace.config.value_types import Definition

_BROKER_DEFAULTS = {name: row.default for name, row in LogKeys.KEYS.items()}


def topic_key(synonym: str, doc: str) -> Any:  # noqa: ANN401
    """Declare a topic's key by the broker's key that is its default: of one type and bounds."""
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
        "delete: old segments go by time and size. compact: the newest record of each key is kept.",
    )
    compression_gzip_level: int = topic_key(
        "compression.gzip.level",
        "Level of gzip where compression.type has the broker compress: 1 to 9, or -1 for gzip's own"
        " choice; not 0.",
    )
    compression_lz4_level: int = topic_key(
        "compression.lz4.level",
        "Level of lz4 where compression.type has the broker compress; 9 means fast.",
    )
    compression_zstd_level: int = topic_key(
        "compression.zstd.level", "Level of zstd where compression.type has the broker compress."
    )
    compression_type: str = topic_key(
        "compression.type",
        "The codec batches are stored in. producer: the one they come in; another one costs a"
        " thread's time for each batch that comes in a different one.",
    )
    delete_retention_ms: int = topic_key(
        "log.cleaner.delete.retention.ms", "How long tombstones stay after compaction."
    )
    file_delete_delay_ms: int = topic_key(
        "log.segment.delete.delay.ms", "How long a deleted segment's files stay, renamed."
    )
    flush_messages: int = topic_key(
        "log.flush.interval.messages", "Flush when this many records wait for it."
    )
    flush_ms: int = topic_key("log.flush.interval.ms", "Flush at the latest after this long.")
    index_interval_bytes: int = topic_key(
        "log.index.interval.bytes", "Log bytes between two index entries."
    )
    max_compaction_lag_ms: int = topic_key(
        "log.cleaner.max.compaction.lag.ms",
        "A record older than this is compacted whatever the ratio.",
    )
    max_message_bytes: int = topic_key(
        "message.max.bytes", "The largest record batch, compressed as it comes."
    )
    message_timestamp_after_max_ms: int = topic_key(
        "log.message.timestamp.after.max.ms",
        "A record whose time lies further in the future is refused.",
    )
    message_timestamp_before_max_ms: int = topic_key(
        "log.message.timestamp.before.max.ms",
        "A record whose time lies further in the past is refused.",
    )
    message_timestamp_type: str = topic_key(
        "log.message.timestamp.type",
        "CreateTime: the producer's time. LogAppendTime: the broker's.",
    )
    min_cleanable_dirty_ratio: float = topic_key(
        "log.cleaner.min.cleanable.ratio",
        "Share of the log that must be uncompacted before it is compacted.",
    )
    min_compaction_lag_ms: int = topic_key(
        "log.cleaner.min.compaction.lag.ms", "A record younger than this is not compacted away."
    )
    min_insync_replicas: int = topic_key(
        "min.insync.replicas", "acks=all is refused while fewer replicas than this are in sync."
    )
    retention_bytes: int = topic_key(
        "log.retention.bytes",
        "Oldest segments go while a partition holds more than this without them; -1: no bound.",
    )
    retention_ms: int = topic_key(
        "log.retention.ms", "Segments whose newest record is older go; -1: never."
    )
    segment_bytes: int = topic_key("log.segment.bytes", "A segment grows no larger.")
    segment_index_bytes: int = topic_key("log.index.size.max.bytes", "The largest offset index.")
    segment_jitter_ms: int = topic_key(
        "log.roll.jitter.ms", "At most this much is taken off segment.ms by chance."
    )
    segment_ms: int = topic_key(
        "log.roll.ms", "A segment whose first record is this old is rolled."
    )
    unclean_leader_election_enable: bool = topic_key(
        "unclean.leader.election.enable",
        "Whether a replica that is not in sync may lead when no other is left.",
    )

    @property
    def compacted(self) -> bool:
        """Whether the newest record of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        """Whether the broker's time replaces the producer's."""
        return self.message_timestamp_type == "LogAppendTime"


IN_USE: tuple[Definition, ...] = tuple(
    replace(setting.metadata["definition"], name=key_name(setting.name))
    for setting in fields(LogConfig)
)
"""The topic's keys that have an effect."""
