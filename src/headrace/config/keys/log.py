"""Keys of the log on disk: directories, segments, flushes, topics' defaults."""

from headrace.config.keys.retention import SHORTENING
from headrace.config.value_types import LONG_MAX, Definition, Kind, Mode, key

_DYNAMIC = Mode.CLUSTER_WIDE

_DIRECTORIES: tuple[Definition, ...] = (
    key(
        "log.dirs",
        Kind.LIST,
        None,
        "Directories of the partitions' logs, with commas; new partitions go where fewest are."
        " Unset: log.dir.",
    ),
    key(
        "log.dir",
        Kind.STRING,
        "headrace-data",
        "The log directory where log.dirs is not set, relative to where the broker is started."
        " Kafka's default is /tmp/kafka-logs, which a restart of the machine empties.",
    ),
    key(
        "num.recovery.threads.per.data.dir",
        Kind.INT,
        2,
        "Threads a log directory is loaded with at start.",
        at_least=1,
    ),
    key(
        "num.partitions",
        Kind.INT,
        1,
        "Partitions of a topic that is created without saying how many.",
        at_least=1,
    ),
    key(
        "default.replication.factor",
        Kind.INT,
        1,
        "Replicas of a topic that is created without saying how many.",
        at_least=1,
    ),
    key(
        "auto.create.topics.enable",
        Kind.BOOLEAN,
        True,
        "Create a topic when a client asks for its metadata and allows it. On, as in Kafka: clients"
        " written for Kafka rely on it, and listeners are loopback unless opened on purpose.",
    ),
    key(
        "delete.topic.enable",
        Kind.BOOLEAN,
        True,
        "Whether topics can be deleted.",
    ),
)

_SEGMENTS: tuple[Definition, ...] = (
    key(
        "log.segment.bytes",
        Kind.INT,
        1 << 30,
        "A segment grows no larger. Kafka 4 refuses less than 1 MiB; here, as in Kafka 3, it is"
        " taken, with a warning.",
        at_least=14,
        mode=_DYNAMIC,
    ),
    key(
        "log.roll.ms",
        Kind.LONG,
        None,
        "A segment whose first record is this old is rolled; unset: log.roll.hours.",
        at_least=1,
        mode=_DYNAMIC,
    ),
    key(
        "log.roll.hours",
        Kind.INT,
        168,
        "As log.roll.ms, in hours.",
        at_least=1,
    ),
    key(
        "log.roll.jitter.ms",
        Kind.LONG,
        None,
        "At most this much is taken off log.roll.ms by chance, so that segments do not all roll at"
        " once; unset: log.roll.jitter.hours.",
        at_least=0,
        mode=_DYNAMIC,
    ),
    key(
        "log.roll.jitter.hours",
        Kind.INT,
        0,
        "As log.roll.jitter.ms, in hours.",
        at_least=0,
    ),
    key(
        "log.index.size.max.bytes",
        Kind.INT,
        10 << 20,
        "The largest offset index; a segment with a full index is rolled.",
        at_least=4,
        mode=_DYNAMIC,
    ),
    key(
        "log.index.interval.bytes",
        Kind.INT,
        4096,
        "Log bytes between two index entries.",
        at_least=0,
        mode=_DYNAMIC,
    ),
    key(
        "log.segment.delete.delay.ms",
        Kind.LONG,
        60_000,
        "How long the files of a deleted segment or topic stay, renamed.",
        at_least=0,
        mode=_DYNAMIC,
    ),
    key(
        "log.preallocate",
        Kind.BOOLEAN,
        False,
        "Reserve a segment's full size on disk when it is made.",
        mode=_DYNAMIC,
    ),
)

_FLUSHES: tuple[Definition, ...] = (
    key(
        "log.flush.interval.messages",
        Kind.LONG,
        LONG_MAX,
        "A partition is flushed when this many records wait for it, whoever waits for an answer.",
        at_least=1,
        mode=_DYNAMIC,
    ),
    key(
        "log.flush.interval.ms",
        Kind.LONG,
        None,
        "A partition's records are flushed at the latest after this long; unset:"
        " log.flush.scheduler.interval.ms.",
        at_least=0,
        mode=_DYNAMIC,
    ),
    key(
        "log.flush.scheduler.interval.ms",
        Kind.LONG,
        LONG_MAX,
        "How often partitions are looked at for log.flush.interval.ms.",
        at_least=1,
    ),
    key(
        "log.flush.offset.checkpoint.interval.ms",
        Kind.INT,
        60_000,
        "How often the recovery points are written down.",
        at_least=1,
    ),
    key(
        "log.flush.start.offset.checkpoint.interval.ms",
        Kind.INT,
        60_000,
        "How often the log start offsets are written down.",
        at_least=1,
    ),
    key(
        "replica.high.watermark.checkpoint.interval.ms",
        Kind.LONG,
        5000,
        "How often the high watermarks are written down.",
        at_least=1,
    ),
)

_RECORDS: tuple[Definition, ...] = (
    key(
        "message.max.bytes",
        Kind.INT,
        1_048_588,
        "The largest record batch a producer may send, compressed as it comes.",
        at_least=0,
        mode=_DYNAMIC,
    ),
    key(
        "compression.gzip.level",
        Kind.INT,
        -1,
        "Level of gzip where compression.type has the broker compress.",
        between=(-1, 9),
        mode=_DYNAMIC,
    ),
    key(
        "compression.lz4.level",
        Kind.INT,
        9,
        "Level of lz4 where compression.type has the broker compress.",
        between=(1, 17),
        mode=_DYNAMIC,
    ),
    key(
        "compression.zstd.level",
        Kind.INT,
        3,
        "Level of zstd where compression.type has the broker compress.",
        between=(-131072, 22),
        mode=_DYNAMIC,
    ),
    key(
        "compression.type",
        Kind.STRING,
        "producer",
        "The codec batches are stored in; producer: the one they come in.",
        words=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        mode=_DYNAMIC,
    ),
    key(
        "log.message.timestamp.type",
        Kind.STRING,
        "CreateTime",
        "CreateTime keeps the producer's time, LogAppendTime puts the broker's in its place.",
        words=("CreateTime", "LogAppendTime"),
        mode=_DYNAMIC,
    ),
    key(
        "log.message.timestamp.before.max.ms",
        Kind.LONG,
        LONG_MAX,
        "A record whose time lies further in the past than this is refused.",
        at_least=0,
        mode=_DYNAMIC,
    ),
    key(
        "log.message.timestamp.after.max.ms",
        Kind.LONG,
        3_600_000,
        "A record whose time lies further in the future than this is refused.",
        at_least=0,
        mode=_DYNAMIC,
    ),
    key(
        "min.insync.replicas",
        Kind.INT,
        1,
        "acks=all is refused while fewer replicas than this are in sync.",
        at_least=1,
        mode=_DYNAMIC,
    ),
    key(
        "unclean.leader.election.enable",
        Kind.BOOLEAN,
        False,
        "Whether a replica that is not in sync may lead, and lose records, when no other is left.",
        mode=_DYNAMIC,
    ),
    key(
        "producer.id.expiration.ms",
        Kind.INT,
        86_400_000,
        "An idempotent producer that has written nothing for this long is forgotten.",
        at_least=1,
        mode=_DYNAMIC,
    ),
    key(
        "producer.id.expiration.check.interval.ms",
        Kind.INT,
        600_000,
        "How often forgotten producers are looked for.",
        at_least=1,
    ),
)

LOG: tuple[Definition, ...] = (
    *_DIRECTORIES,
    *_SEGMENTS,
    *SHORTENING,
    *_FLUSHES,
    *_RECORDS,
)
