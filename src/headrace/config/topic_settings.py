"""Topic settings: a topic's own values over the broker's."""

from collections.abc import Mapping
from typing import Any

from headrace.config.broker import BrokerConfig
from headrace.config.definitions import TOPIC, nearest_topic_key
from headrace.config.log_config import LogConfig
from headrace.config.value_types import Value
from headrace.model.errors import ConfigError

_FIELDS: Mapping[str, str] = {
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.jitter.ms": "segment_jitter_ms",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "file.delete.delay.ms": "file_delete_delay_ms",
    "max.message.bytes": "max_message_bytes",
    "cleanup.policy": "cleanup_policy",
    "compression.gzip.level": "compression_gzip_level",
    "compression.lz4.level": "compression_lz4_level",
    "compression.type": "compression_type",
    "compression.zstd.level": "compression_zstd_level",
    "message.timestamp.type": "message_timestamp_type",
    "message.timestamp.before.max.ms": "message_timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "message_timestamp_after_max_ms",
    "min.insync.replicas": "min_insync_replicas",
    "flush.messages": "flush_messages",
    "flush.ms": "flush_ms",
    "delete.retention.ms": "delete_retention_ms",
    "min.cleanable.dirty.ratio": "min_cleanable_dirty_ratio",
    "min.compaction.lag.ms": "min_compaction_lag_ms",
    "max.compaction.lag.ms": "max_compaction_lag_ms",
    "unclean.leader.election.enable": "unclean_leader_election",
    "preallocate": "preallocate",
}
"""Which field of LogConfig a topic's key sets."""


def parse_topic_config(name: str, text: str) -> Value:
    """The value of topic key `name` that `text` stands for; ConfigError: one line."""
    definition = TOPIC.get(name)
    if definition is None:
        near = nearest_topic_key(name)
        raise ConfigError(
            f"{name}={text}: no such topic key" + (f"; did you mean {near}?" if near else "")
        )
    try:
        return definition.parse(text)
    except ValueError as error:
        raise ConfigError(f"{name}={text}: {error}") from None


def parse_topic_configs(overrides: Mapping[str, str]) -> dict[str, Value]:
    """All of a topic's own values, checked also against each other; ConfigError, a line each."""
    values: dict[str, Value] = {}
    problems: list[str] = []
    for name, text in overrides.items():
        try:
            values[name] = parse_topic_config(name, text)
        except ConfigError as error:
            problems.append(str(error))
    least, most = values.get("min.compaction.lag.ms"), values.get("max.compaction.lag.ms")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        problems.append(f"min.compaction.lag.ms={least}: more than max.compaction.lag.ms={most}")
    if problems:
        raise ConfigError("\n".join(problems))
    return values


def topic_default(broker: BrokerConfig, name: str) -> Value:
    """What topic key `name` is where the topic does not say: the broker's synonym, or Kafka's."""
    definition = TOPIC[name]
    return (
        definition.default if definition.synonym is None else broker.effective(definition.synonym)
    )


def topic_log_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """The settings of a log: `overrides` (texts, as stored with the topic) over the broker's."""
    own = parse_topic_configs(overrides)
    fields: dict[str, Any] = {
        field: own[name] if name in own else topic_default(broker, name)
        for name, field in _FIELDS.items()
    }
    fields["cleanup_policy"] = frozenset(fields["cleanup_policy"])
    if "compact" in fields["cleanup_policy"]:
        # The active segment is never compacted: it is closed in time (Kafka's maxSegmentMs).
        fields["segment_ms"] = min(fields["segment_ms"], fields["max_compaction_lag_ms"])
    return LogConfig(**fields)
