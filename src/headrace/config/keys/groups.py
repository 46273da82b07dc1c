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
        Kind.INT, 6000, "The shortest session a member of a group may ask for.", at_least=1
    )
    group_max_session_timeout_ms = key(
        Kind.INT, 1_800_000, "The longest session a member of a group may ask for.", at_least=1
    )
    group_initial_rebalance_delay_ms = key(
        Kind.INT,
        3000,
        "How long an empty group waits for more members after the first.",
        at_least=0,
    )
    group_max_size = key(Kind.INT, INT_MAX, "Members one group may have.", at_least=1)
    offsets_topic_num_partitions = key(
        Kind.INT, 50, "Partitions of __consumer_offsets, fixed when it is made.", at_least=1
    )
    offsets_topic_replication_factor = key(
        Kind.SHORT,
        3,
        "Replicas of __consumer_offsets, fewer where there are fewer brokers.",
        at_least=1,
    )
    offsets_topic_segment_bytes = key(
        Kind.INT, 104_857_600, "Segment size of __consumer_offsets.", at_least=1
    )
    offsets_topic_compression_codec = key(
        Kind.INT,
        0,
        "Codec of what the coordinators write: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between=(0, 4),
    )
    offsets_retention_minutes = key(
        Kind.INT,
        10_080,
        "How long the offsets of a group without members are kept.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
    )
    offsets_retention_check_interval_ms = key(
        Kind.LONG, 600_000, "How often offsets that may go are looked for.", at_least=1
    )
    offsets_commit_timeout_ms = key(
        Kind.INT,
        5000,
        "A commit that is not written after this long is answered with an error.",
        at_least=1,
    )
    offset_metadata_max_bytes = key(
        Kind.INT, 4096, "The largest note a client may leave with an offset.", at_least=0
    )
    group_consumer_session_timeout_ms = key(
        Kind.INT,
        45_000,
        "A member of a consumer group (KIP-848) not heard of for so long is out of it.",
        at_least=1,
    )
    group_consumer_min_session_timeout_ms = key(
        Kind.INT, 45_000, "The shortest session a consumer group may be given.", at_least=1
    )
    group_consumer_max_session_timeout_ms = key(
        Kind.INT, 60_000, "The longest session a consumer group may be given.", at_least=1
    )
    group_consumer_heartbeat_interval_ms = key(
        Kind.INT,
        5000,
        "How often members of a consumer group are told to send heartbeats.",
        at_least=1,
    )
    group_consumer_min_heartbeat_interval_ms = key(
        Kind.INT, 5000, "The shortest heartbeat interval a consumer group may be given.", at_least=1
    )
    group_consumer_max_heartbeat_interval_ms = key(
        Kind.INT,
        15_000,
        "The longest heartbeat interval a consumer group may be given.",
        at_least=1,
    )
    group_consumer_settling_heartbeat_interval_ms = key(
        Kind.INT,
        1000,
        "How often members of a consumer group are told to send heartbeats while they wait for"
        " their assignment, where that is more often than otherwise.",
        at_least=1,
        ours=True,
    )
    group_consumer_assignment_interval_ms = key(
        Kind.INT,
        1000,
        "At least so long between two assignments of one consumer group; the first is made at"
        " once.",
        at_least=0,
        mode=Mode.CLUSTER_WIDE,
    )
    group_consumer_min_assignment_interval_ms = key(
        Kind.INT, 0, "The shortest assignment interval a consumer group may be given.", at_least=0
    )
    group_consumer_max_assignment_interval_ms = key(
        Kind.INT,
        15_000,
        "The longest assignment interval a consumer group may be given.",
        at_least=0,
    )
    group_consumer_assignor_offload_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether the assignor of a large consumer group works on a thread; else all others wait.",
    )
    group_consumer_max_size = key(
        Kind.INT, INT_MAX, "Members one consumer group may have.", at_least=1
    )
    group_consumer_assignors: tuple[str, ...] = key(
        Kind.LIST,
        ("uniform", "range"),
        "Assignors that members may ask for, the first one for those who do not; Kafka's class"
        " names of these are taken too.",
        words=_ASSIGNORS,
    )
    group_consumer_migration_policy = key(
        Kind.STRING,
        "bidirectional",
        "Whether groups with members go from the classic protocol to the newer one (upgrade), back"
        " (downgrade), both or neither (disabled).",
        words=_ANY_CASE,
    )
    group_consumer_regex_refresh_interval_ms = key(
        Kind.INT,
        600_000,
        "How often regular expressions are matched anew where no topic has come or gone.",
        at_least=10_000,
    )
    groups_max = key(
        Kind.INT,
        100_000,
        "Consumer groups that are remembered; a join beyond is refused.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
        ours=True,
    )
