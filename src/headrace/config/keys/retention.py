"""Keys of what shortens logs: retention and compaction."""

from headrace.config.value_types import LONG_MAX, Definition, Kind, Mode, key

_DYNAMIC = Mode.CLUSTER_WIDE

_RETENTION: tuple[Definition, ...] = (
    key(
        "log.retention.ms",
        Kind.LONG,
        None,
        "Segments whose newest record is older are deleted; -1: never. Unset:"
        " log.retention.minutes.",
        at_least=-1,
        mode=_DYNAMIC,
    ),
    key(
        "log.retention.minutes",
        Kind.INT,
        None,
        "As log.retention.ms, in minutes. Unset: log.retention.hours.",
        at_least=-1,
    ),
    key(
        "log.retention.hours",
        Kind.INT,
        168,
        "As log.retention.ms, in hours.",
        at_least=-1,
    ),
    key(
        "log.retention.bytes",
        Kind.LONG,
        -1,
        "Oldest segments are deleted while a partition holds more than this without them; -1: no"
        " bound.",
        at_least=-1,
        mode=_DYNAMIC,
    ),
    key(
        "log.retention.check.interval.ms",
        Kind.LONG,
        300_000,
        "How often retention is applied.",
        at_least=1,
    ),
    key(
        "log.cleanup.policy",
        Kind.LIST,
        ("delete",),
        "delete: by time and size. compact: keep the newest record of each key. Both at once work.",
        words=("delete", "compact"),
        mode=_DYNAMIC,
    ),
    key(
        "log.cleaner.delete.retention.ms",
        Kind.LONG,
        86_400_000,
        "How long a compacted topic keeps tombstones for readers that have not seen them.",
        at_least=0,
        mode=_DYNAMIC,
    ),
    key(
        "log.cleaner.min.cleanable.ratio",
        Kind.DOUBLE,
        0.5,
        "Share of a compacted log that must be uncompacted before it is compacted.",
        between=(0, 1),
        mode=_DYNAMIC,
    ),
    key(
        "log.cleaner.min.compaction.lag.ms",
        Kind.LONG,
        0,
        "A record younger than this is not compacted away.",
        at_least=0,
        mode=_DYNAMIC,
    ),
    key(
        "log.cleaner.max.compaction.lag.ms",
        Kind.LONG,
        LONG_MAX,
        "A record older than this is compacted whatever the ratio.",
        at_least=1,
        mode=_DYNAMIC,
    ),
)

_CLEANER: tuple[Definition, ...] = (
    key(
        "log.cleaner.enable",
        Kind.BOOLEAN,
        True,
        "Whether topics with cleanup.policy=compact are compacted; __consumer_offsets is one.",
    ),
    key(
        "log.cleaner.backoff.ms",
        Kind.LONG,
        15_000,
        "How long to wait before looking for a log to compact again when there was none.",
        at_least=0,
        mode=_DYNAMIC,
    ),
    key(
        "log.cleaner.dedupe.buffer.size",
        Kind.LONG,
        134_217_728,
        "Memory for the keys of a compaction, 24 bytes each; where it does not do for all of them,"
        " a log is compacted in several passes. Taken by a process that lives while there is work.",
        at_least=1 << 20,
        mode=_DYNAMIC,
    ),
    key(
        "log.cleaner.io.buffer.load.factor",
        Kind.DOUBLE,
        0.9,
        "How full the memory for keys may get: fuller takes more keys at a time, and longer.",
        between=(0.01, 0.99),
        mode=_DYNAMIC,
    ),
    key(
        "log.cleaner.io.buffer.size",
        Kind.INT,
        524_288,
        "Memory for what compaction reads and writes at a time.",
        at_least=1024,
        mode=_DYNAMIC,
    ),
    key(
        "log.cleaner.io.max.bytes.per.second",
        Kind.DOUBLE,
        1.7976931348623157e308,
        "Compaction reads and writes no more than this, taken together.",
        at_least=1,
        mode=_DYNAMIC,
    ),
)

SHORTENING: tuple[Definition, ...] = (*_RETENTION, *_CLEANER)
