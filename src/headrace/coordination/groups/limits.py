"""Limits of groups and committed offsets, derived from the configuration."""

from typing import Final

from headrace.config.keys.groups import GroupKeys
from headrace.record.compression import Codec


def assignor_name(given: str) -> str:
    """Return an assignor's short name, `uniform` or `range`, from it or from Kafka's class name."""
    return given.rsplit(".", 1)[-1].removesuffix("Assignor").lower()


class GroupLimits:
    """Group limits of one configuration. Times are in milliseconds; `config.keys` documents the
    keys."""

    new_member_join_timeout_ms: Final = 300_000
    """How long a new member may wait for its first generation (5 minutes, as in Kafka)."""
    regexes_max: Final = 100
    """Maximum number of regular expressions in the subscriptions of a consumer group (not in
    Kafka)."""
    pending_joins_max: Final = 10_000
    """Maximum member ids per group that were issued and not used to join yet (not in Kafka)."""
    append_bytes_max: Final = 512 * 1024
    """Records of one loop turn are split into batches of about this many bytes."""

    def __init__(self, config: GroupKeys) -> None:
        self.min_session_timeout_ms = config.group_min_session_timeout_ms
        self.max_session_timeout_ms = config.group_max_session_timeout_ms
        self.max_size = config.group_max_size
        self.initial_rebalance_delay_ms = config.group_initial_rebalance_delay_ms
        self.offset_metadata_max_bytes = config.offset_metadata_max_bytes
        self.offsets_retention_ms = config.offsets_retention_minutes * 60_000
        self.offsets_retention_check_ms = config.offsets_retention_check_interval_ms
        self.partitions = config.offsets_topic_num_partitions
        """Partition count of `__consumer_offsets`, used only until the topic exists."""
        self.commit_timeout_ms = config.offsets_commit_timeout_ms
        """After how many ms a waiting OffsetCommit gets an error; its offsets may still be
        committed."""
        self.groups_max = config.groups_max
        self.codec = Codec(config.offsets_topic_compression_codec)
        self.consumer_settling_interval_ms = config.group_consumer_settling_heartbeat_interval_ms
        self.consumer_regex_refresh_ms = config.group_consumer_regex_refresh_interval_ms
        self.consumer_max_size = config.group_consumer_max_size
        self.consumer_assignors = tuple(map(assignor_name, config.group_consumer_assignors))
        """The assignors that members may request; the first one is the default."""
        self.consumer_migration_policy = config.group_consumer_migration_policy.lower()
