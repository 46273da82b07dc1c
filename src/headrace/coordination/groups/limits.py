"""The limits of groups and committed offsets, by Kafka's configuration names."""

from dataclasses import dataclass
from typing import Protocol

from headrace.record.compression import Codec


class GroupConfig(Protocol):
    """The keys of `config.broker.BrokerConfig` that speak of groups."""

    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_initial_rebalance_delay_ms: int
    groups_max: int
    offset_metadata_max_bytes: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_commit_timeout_ms: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_settling_heartbeat_interval_ms: int


def assignor_name(given: str) -> str:
    """`uniform`, also where it was given as Kafka's class of that name."""
    return given.rsplit(".", 1)[-1].removesuffix("Assignor").lower()


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Times in milliseconds. Defaults are Kafka 4.3's."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms: a JoinGroup that asks for less is refused."""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms: likewise for more."""
    max_size: int = (1 << 31) - 1
    """group.max.size: members of one group."""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms: how long an empty group waits for more members."""
    offset_metadata_max_bytes: int = 4_096
    """offset.metadata.max.bytes: length of the text beside a committed offset."""
    offsets_retention_ms: int = 7 * 86_400_000
    """offsets.retention.minutes: how long offsets outlive the group's last use of them."""
    offsets_retention_check_ms: int = 600_000
    """offsets.retention.check.interval.ms."""
    new_member_join_timeout_ms: int = 300_000
    """How long a new member may wait for its first generation (Kafka: 5 minutes)."""
    partitions: int = 50
    """offsets.topic.num.partitions: counts only until `__consumer_offsets` exists."""
    commit_timeout_ms: int = 5_000
    """offsets.commit.timeout.ms: an OffsetCommit not committed by then is answered with an error,
    and counts all the same if it is committed later."""
    groups_max: int = 100_000
    """groups.max (ours): a join or commit that would make one more group is refused."""
    codec: Codec = Codec.NONE
    """offsets.topic.compression.codec."""
    consumer_settling_interval_ms: int = 1_000
    """group.consumer.settling.heartbeat.interval.ms (ours): what they are told while they wait."""
    consumer_regex_refresh_ms: int = 600_000
    """group.consumer.regex.refresh.interval.ms."""
    consumer_max_size: int = (1 << 31) - 1
    """group.consumer.max.size: members of one consumer group."""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """group.consumer.assignors: those members may ask for; the first where none does."""
    consumer_migration_policy: str = "bidirectional"
    """group.consumer.migration.policy."""
    regexes_max: int = 100
    """Our own: regular expressions one consumer group may subscribe by."""
    pending_joins_max: int = 10_000
    """Our own: ids given out in one group to members that have not come back with them."""
    append_bytes_max: int = 512 * 1024
    """Our own: records of one turn are split into batches of about this size."""

    @classmethod
    def of(cls, config: GroupConfig) -> "GroupLimits":
        """The limits a configuration sets."""
        return cls(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_ms=config.offsets_retention_check_interval_ms,
            partitions=config.offsets_topic_num_partitions,
            commit_timeout_ms=config.offsets_commit_timeout_ms,
            groups_max=config.groups_max,
            codec=Codec(config.offsets_topic_compression_codec),
            consumer_settling_interval_ms=config.group_consumer_settling_heartbeat_interval_ms,
            consumer_regex_refresh_ms=config.group_consumer_regex_refresh_interval_ms,
            consumer_max_size=config.group_consumer_max_size,
            consumer_assignors=tuple(map(assignor_name, config.group_consumer_assignors)),
            consumer_migration_policy=config.group_consumer_migration_policy.lower(),
        )
