"""Keys of consumer groups and their offsets."""

from headrace.config.value_types import INT_MAX, Definition, Kind, Mode, key

_ASSIGNORS = (
    "uniform",
    "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
)
_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
_ANY_CASE = (*_POLICIES, *(word.upper() for word in _POLICIES))

GROUPS: tuple[Definition, ...] = (
    key(
        "group.min.session.timeout.ms",
        Kind.INT,
        6000,
        "The shortest session a member of a group may ask for.",
        at_least=1,
    ),
    key(
        "group.max.session.timeout.ms",
        Kind.INT,
        1_800_000,
        "The longest session a member of a group may ask for.",
        at_least=1,
    ),
    key(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        3000,
        "How long an empty group waits for more members after the first.",
        at_least=0,
    ),
    key(
        "group.max.size",
        Kind.INT,
        INT_MAX,
        "Members one group may have.",
        at_least=1,
    ),
    key(
        "offsets.topic.num.partitions",
        Kind.INT,
        50,
        "Partitions of __consumer_offsets, fixed when it is made.",
        at_least=1,
    ),
    key(
        "offsets.topic.replication.factor",
        Kind.SHORT,
        3,
        "Replicas of __consumer_offsets, fewer where there are fewer brokers.",
        at_least=1,
    ),
    key(
        "offsets.topic.segment.bytes",
        Kind.INT,
        104_857_600,
        "Segment size of __consumer_offsets.",
        at_least=1,
    ),
    key(
        "offsets.topic.compression.codec",
        Kind.INT,
        0,
        "Codec of what the coordinators write: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between=(0, 4),
    ),
    key(
        "offsets.retention.minutes",
        Kind.INT,
        10_080,
        "How long the offsets of a group without members are kept.",
        at_least=1,
        mode=Mode.CLUSTER_WIDE,
    ),
    key(
        "offsets.retention.check.interval.ms",
        Kind.LONG,
        600_000,
        "How often offsets that may go are looked for.",
        at_least=1,
    ),
    key(
        "offsets.commit.timeout.ms",
        Kind.INT,
        5000,
        "A commit that is not written after this long is answered with an error.",
        at_least=1,
    ),
    key(
        "offset.metadata.max.bytes",
        Kind.INT,
        4096,
        "The largest note a client may leave with an offset.",
        at_least=0,
    ),
    key(
        "group.consumer.session.timeout.ms",
        Kind.INT,
        45_000,
        "A member of a consumer group (KIP-848) not heard of for so long is out of it.",
        at_least=1,
    ),
    key(
        "group.consumer.min.session.timeout.ms",
        Kind.INT,
        45_000,
        "The shortest session a consumer group may be given.",
        at_least=1,
    ),
    key(
        "group.consumer.max.session.timeout.ms",
        Kind.INT,
        60_000,
        "The longest session a consumer group may be given.",
        at_least=1,
    ),
    key(
        "group.consumer.heartbeat.interval.ms",
        Kind.INT,
        5000,
        "How often members of a consumer group are told to send heartbeats.",
        at_least=1,
    ),
    key(
        "group.consumer.min.heartbeat.interval.ms",
        Kind.INT,
        5000,
        "The shortest heartbeat interval a consumer group may be given.",
        at_least=1,
    ),
    key(
        "group.consumer.max.heartbeat.interval.ms",
        Kind.INT,
        15_000,
        "The longest heartbeat interval a consumer group may be given.",
        at_least=1,
    ),
    key(
        "group.consumer.settling.heartbeat.interval.ms",
        Kind.INT,
        1000,
        "How often members of a consumer group are told to send heartbeats while they wait for"
        " their assignment, where that is more often than otherwise.",
        at_least=1,
        ours=True,
    ),
    key(
        "group.consumer.assignment.interval.ms",
        Kind.INT,
        1000,
        "At least so long between two assignments of one consumer group; the first is made at"
        " once.",
        at_least=0,
    ),
    key(
        "group.consumer.min.assignment.interval.ms",
        Kind.INT,
        0,
        "The shortest assignment interval a consumer group may be given.",
        at_least=0,
    ),
    key(
        "group.consumer.max.assignment.interval.ms",
        Kind.INT,
        15_000,
        "The longest assignment interval a consumer group may be given.",
        at_least=0,
    ),
    key(
        "group.consumer.assignor.offload.enable",
        Kind.BOOLEAN,
        True,
        "Whether the assignor of a large consumer group works on a thread; else all others wait.",
    ),
    key(
        "group.consumer.max.size",
        Kind.INT,
        INT_MAX,
        "Members one consumer group may have.",
        at_least=1,
    ),
    key(
        "group.consumer.assignors",
        Kind.LIST,
        ("uniform", "range"),
        "Assignors that members may ask for, the first one for those who do not; Kafka's class"
        " names of these are taken too.",
        words=_ASSIGNORS,
    ),
    key(
        "group.consumer.migration.policy",
        Kind.STRING,
        "bidirectional",
        "Whether groups with members go from the classic protocol to the newer one (upgrade), back"
        " (downgrade), both or neither (disabled).",
        words=_ANY_CASE,
    ),
    key(
        "group.consumer.regex.refresh.interval.ms",
        Kind.INT,
        600_000,
        "How often regular expressions are matched anew where no topic has come or gone.",
        at_least=10_000,
    ),
)
