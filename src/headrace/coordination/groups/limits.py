"""The limits of groups and committed offsets, as the configuration sets them."""

from typing import Final

from headrace.config.keys.groups import GroupKeys
from headrace.record.compression import Codec


def assignor_name(given: str) -> str:
    """Return `uniform`, also where it was given as Kafka's class of that name."""
    return given.rsplit(".", 1)[-1].removesuffix("Assignor").lower()


class GroupLimits:
    """Limits of one configuration. Times in milliseconds; what keys mean is told with them."""

    new_member_join_timeout_ms: Final = 300_000
    """How long a new member may wait for its first generation (Kafka: 5 minutes)."""
    regexes_max: Final = 100
    """Our own: regular expressions one consumer group may subscribe by."""
    pending_joins_max: Final = 10_000
    """Our own: ids given out in one group to members that have not come back with them."""
    append_bytes_max: Final = 512 * 1024
    """Our own: records of one turn are split into batches of about this size."""

    def __init__(self, config: GroupKeys) -> None:
        self.min_session_timeout_ms = config.group_min_session_timeout_ms
        self.max_session_timeout_ms = config.group_max_session_timeout_ms
        self.max_size = config.group_max_size
        self.initial_rebalance_delay_ms = config.group_initial_rebalance_delay_ms
        self.offset_metadata_max_bytes = config.offset_metadata_max_bytes
        self.offsets_retention_ms = config.offsets_retention_minutes * 60_000
        self.offsets_retention_check_ms = config.offsets_retention_check_interval_ms
        self.partitions = config.offsets_topic_num_partitions
        """Counts only until `__consumer_offsets` exists."""
        self.commit_timeout_ms = config.offsets_commit_timeout_ms
        """An OffsetCommit that is committed later counts all the same."""
        self.groups_max = config.groups_max
        self.codec = Codec(config.offsets_topic_compression_codec)
        self.consumer_settling_interval_ms = config.group_consumer_settling_heartbeat_interval_ms
        self.consumer_regex_refresh_ms = config.group_consumer_regex_refresh_interval_ms
        self.consumer_max_size = config.group_consumer_max_size
        self.consumer_assignors = tuple(map(assignor_name, config.group_consumer_assignors))
        """Those members may ask for; the first where none does."""
        self.consumer_migration_policy = config.group_consumer_migration_policy.lower()
