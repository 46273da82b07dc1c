"""Keys of consumer groups and their offsets."""

from headrace.config.kinds import INT_MAX, Definition, Kind, Mode, key

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
)
