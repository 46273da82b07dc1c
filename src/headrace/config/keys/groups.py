"""Keys of consumer groups and their offsets."""

from headrace.config.keys.row import Keys, key
from headrace.config.value_types import INT_MAX, Kind, Mode

_ASSIGNORS = (
    "uniform",
    "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
)
_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
_ANY_CASE = (*_POLICIES, *(word.upper() for word in _POLICIES))


class GroupKeys(Keys):
    """Classic and consumer groups, committed offsets and their topic."""

    group_min_session_timeout_ms = key(
        Kind.INT, 6000, "The shortest session timeout that a group member may request.", at_least=1
    )
    group_max_session_timeout_ms = key(
        Kind.INT,
        1_800_000,
        "The longest session timeout that a group member may request.",
        at_least=1,
    )
    group_initial_rebalance_delay_ms = key(
        Kind.INT,
        3000,
        "How long an empty group waits for more members after the first.",
        at_least=0,
    )
    group_max_size = key(Kind.INT, INT_MAX, "The most members of one group.", at_least=1)
    offsets_topic_num_partitions = key(
        Kind.INT, 50, "Partitions of __consumer_offsets, fixed when it is created.", at_least=1
    )
    offsets_topic_replication_factor = key(
        Kind.SHORT,
        3,
        "Replicas of __consumer_offsets, at most the number of brokers.",
        at_least=1,
    )
    offsets_topic_segment_bytes = key(
        Kind.INT, 104_857_600, "Segment size of __consumer_offsets.", at_least=1
    )
    offsets_topic_compression_codec = key(
        Kind.INT,
        0,
        "The codec of the group coordinators' records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between=(0, 4),
    )
    offsets_retention_minutes = key(
        Kind.INT,
        10_080,
        "How long the offsets of a group without members are retained.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
    )
    offsets_retention_check_interval_ms = key(
        Kind.LONG, 600_000, "How often expired offsets are removed.", at_least=1
    )
    offsets_commit_timeout_ms = key(
        Kind.INT,
        5000,
        "An offset commit that is not written after this long fails with an error.",
        at_least=1,
    )
    offset_metadata_max_bytes = key(
        Kind.INT, 4096, "The largest metadata string of a committed offset.", at_least=0
    )
    group_consumer_session_timeout_ms = key(
        Kind.INT,
        45_000,
        "A member of a consumer group (KIP-848) that sends no heartbeat for this long is"
        " removed from the group.",
        at_least=1,
    )
    group_consumer_min_session_timeout_ms = key(
        Kind.INT, 45_000, "The shortest session timeout that a consumer group may have.", at_least=1
    )
    group_consumer_max_session_timeout_ms = key(
        Kind.INT, 60_000, "The longest session timeout that a consumer group may have.", at_least=1
    )
    group_consumer_heartbeat_interval_ms = key(
        Kind.INT,
        5000,
        "The heartbeat interval of consumer group members.",
        at_least=1,
    )
    group_consumer_min_heartbeat_interval_ms = key(
        Kind.INT,
        5000,
        "The shortest heartbeat interval that a consumer group may have.",
        at_least=1,
    )
    group_consumer_max_heartbeat_interval_ms = key(
        Kind.INT,
        15_000,
        "The longest heartbeat interval that a consumer group may have.",
        at_least=1,
    )
    group_consumer_settling_heartbeat_interval_ms = key(
        Kind.INT,
        1000,
        "The heartbeat interval of consumer group members that wait for their assignment, if it"
        " is shorter than their usual one.",
        at_least=1,
        ours=True,
    )
    group_consumer_assignment_interval_ms = key(
        Kind.INT,
        1000,
        "The least time between two assignments of one consumer group; the first one is immediate.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
    )
    group_consumer_min_assignment_interval_ms = key(
        Kind.INT, 0, "The shortest assignment interval that a consumer group may have.", at_least=0
    )
    group_consumer_max_assignment_interval_ms = key(
        Kind.INT,
        15_000,
        "The longest assignment interval that a consumer group may have.",
        at_least=0,
    )
    group_consumer_assignor_offload_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether the assignor of a large consumer group runs on a thread; otherwise it blocks"
        " the event loop.",
    )
    group_consumer_max_size = key(
        Kind.INT, INT_MAX, "The most members of one consumer group.", at_least=1
    )
    group_consumer_assignors: tuple[str, ...] = key(
        Kind.LIST,
        ("uniform", "range"),
        "Assignors that members may request; the first is the default. Kafka's class names of"
        " these are accepted too.",
        words=_ASSIGNORS,
    )
    group_consumer_migration_policy = key(
        Kind.STRING,
        "bidirectional",
        "Which way groups with members may change between the classic and the consumer"
        " protocol: upgrade, downgrade, bidirectional or disabled.",
        words=_ANY_CASE,
    )
    group_consumer_regex_refresh_interval_ms = key(
        Kind.INT,
        600_000,
        "How often subscribed regular expressions are matched again if no topic was created or"
        " deleted.",
        at_least=10_000,
    )
    groups_max = key(
        Kind.INT,
        100_000,
        "The most consumer groups; further joins are refused.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    )
