"""Keys of share groups and of their stored state (KIP-932). Names and defaults are Kafka 4.3's."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import Kind, Mode


class ShareKeys(Keys):
    """Keys of share groups, and of the topic that stores their state."""

    # Groups.
    group_share_session_timeout_ms = key(
        Kind.INT,
        45_000,
        "A member of a share group that sends no heartbeat for this long is removed from the"
        " group.",
        at_least=1,
    )
    group_share_min_session_timeout_ms = key(
        Kind.INT, 45_000, "The smallest value that a group may set for itself.", at_least=1
    )
    group_share_max_session_timeout_ms = key(
        Kind.INT, 60_000, "The largest value that a group may set for itself.", at_least=1
    )
    group_share_heartbeat_interval_ms = key(
        Kind.INT, 5000, "The heartbeat interval of share group members.", at_least=1
    )
    group_share_min_heartbeat_interval_ms = key(
        Kind.INT, 5000, "The smallest value that a group may set for itself.", at_least=1
    )
    group_share_max_heartbeat_interval_ms = key(
        Kind.INT, 15_000, "The largest value that a group may set for itself.", at_least=1
    )
    group_share_assignment_interval_ms = key(
        Kind.INT,
        1000,
        "The least time between two assignments of one share group; the first one is immediate.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
    )
    group_share_min_assignment_interval_ms = key(
        Kind.INT, 0, "The shortest assignment interval that a share group may have.", at_least=0
    )
    group_share_max_assignment_interval_ms = key(
        Kind.INT, 15_000, "The longest assignment interval that a share group may have.", at_least=0
    )
    group_share_assignor_offload_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether the assignor of a large share group runs on a thread; otherwise it blocks the"
        " event loop.",
    )
    group_share_max_size = key(
        Kind.INT, 200, "The most members of one share group.", between=(1, 1000)
    )
    group_share_max_share_sessions = key(
        Kind.INT,
        2000,
        "The most members of share groups that may fetch from this broker at once.",
        at_least=1,
    )
    group_share_record_lock_duration_ms = key(
        Kind.INT,
        30_000,
        "How long a member of a share group may hold an acquired record.",
        between=(1000, 3600000),
    )
    group_share_min_record_lock_duration_ms = key(
        Kind.INT,
        15_000,
        "The smallest value that a group may set for itself.",
        between=(1000, 30000),
    )
    group_share_max_record_lock_duration_ms = key(
        Kind.INT,
        60_000,
        "The largest value that a group may set for itself.",
        between=(30000, 3600000),
    )
    group_share_delivery_count_limit = key(
        Kind.INT, 5, "How often a record is delivered before it is archived.", between=(2, 10)
    )
    group_share_min_delivery_count_limit = key(
        Kind.INT, 2, "The smallest value that a group may set for itself.", between=(2, 5)
    )
    group_share_max_delivery_count_limit = key(
        Kind.INT, 10, "The largest value that a group may set for itself.", between=(5, 25)
    )
    group_share_partition_max_record_locks = key(
        Kind.INT,
        2000,
        "The most acquired records of one partition in a share group.",
        between=(100, 10000),
    )
    group_share_min_partition_max_record_locks = key(
        Kind.INT, 100, "The smallest value that a group may set for itself.", between=(100, 2000)
    )
    group_share_max_partition_max_record_locks = key(
        Kind.INT, 4000, "The largest value that a group may set for itself.", between=(2000, 20000)
    )

    # Their state.
    share_coordinator_state_topic_num_partitions = key(
        Kind.INT, 50, "Partitions of __share_group_state, fixed when it is created.", at_least=1
    )
    share_coordinator_state_topic_replication_factor = key(
        Kind.SHORT,
        3,
        "Replicas of __share_group_state, at most the number of brokers.",
        at_least=1,
    )
    share_coordinator_state_topic_min_isr = key(
        Kind.SHORT, 2, "min.insync.replicas of __share_group_state.", at_least=1
    )
    share_coordinator_state_topic_segment_bytes = key(
        Kind.INT, 104_857_600, "Segment size of __share_group_state.", at_least=1
    )
    share_coordinator_state_topic_compression_codec = key(
        Kind.INT,
        0,
        "The codec of the share coordinators' records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between=(0, 4),
    )
    share_coordinator_state_topic_prune_interval_ms = key(
        Kind.INT,
        300_000,
        "How often records of __share_group_state that newer snapshots replace are deleted.",
        at_least=1,
    )
    share_coordinator_cold_partition_snapshot_interval_ms = key(
        Kind.INT,
        300_000,
        "State that was not written for this long is written again, so that older records can"
        " be deleted.",
        at_least=1,
    )
    share_coordinator_snapshot_update_records_per_snapshot = key(
        Kind.INT,
        500,
        "Updates of a share partition's state between two snapshots of it.",
        between=(0, 500),
    )
    share_coordinator_write_timeout_ms = key(
        Kind.INT,
        5000,
        "A write of share group state that takes longer than this fails.",
        at_least=1,
    )
