"""Limits of share groups, derived from the configuration."""

from headrace.config.keys.share import ShareKeys
from headrace.record.compression import Codec


class ShareLimits:
    """Broker-level limits of share groups; `settings` has each group's own. Times in
    milliseconds."""

    def __init__(self, config: ShareKeys) -> None:
        self.sessions_max = config.group_share_max_share_sessions
        self.members_max = config.group_share_max_size
        self.state_partitions = config.share_coordinator_state_topic_num_partitions
        """Partition count of `__share_group_state`, used only until the topic exists."""
        self.state_codec = Codec(config.share_coordinator_state_topic_compression_codec)
        self.state_write_timeout_ms = config.share_coordinator_write_timeout_ms
        self.updates_per_snapshot = config.share_coordinator_snapshot_update_records_per_snapshot
        self.prune_interval_ms = config.share_coordinator_state_topic_prune_interval_ms
        self.cold_snapshot_interval_ms = (
            config.share_coordinator_cold_partition_snapshot_interval_ms
        )
