"""Keys of what shortens logs: retention and compaction."""

from headrace.config.keys.row import Keys, combined, key
from headrace.config.value_types import LONG_MAX, Kind, Mode

_DYNAMIC = Mode.CLUSTER_WIDE


class RetentionKeys(Keys):
    """Which records are deleted and when, and how compaction works."""

    # Retention.
    log_retention_ms: int = combined(
        Kind.LONG,
        None,
        "Segments whose latest record is older are deleted; -1: never. Unset:"
        " log.retention.minutes.",
        at_least=-1,
        mode=_DYNAMIC,
        coarser=(("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    )
    log_retention_minutes: int | None = key(
        Kind.INT, None, "As log.retention.ms, in minutes. Unset: log.retention.hours.", at_least=-1
    )
    log_retention_hours = key(Kind.INT, 168, "As log.retention.ms, in hours.", at_least=-1)
    log_retention_bytes = key(
        Kind.LONG,
        -1,
        "The oldest segments are deleted while the partition would still have at least this"
        " many bytes without them; -1: no bound.",
        at_least=-1,
        mode=_DYNAMIC,
    )
    log_local_retention_bytes = key(
        Kind.LONG,
        -2,
        "Size retained locally with tiered storage, which Headrace does not have.",
        at_least=-2,
        mode=_DYNAMIC,
        in_use=False,
    )
    log_local_retention_ms = key(
        Kind.LONG,
        -2,
        "Time retained locally with tiered storage, which Headrace does not have.",
        at_least=-2,
        mode=_DYNAMIC,
        in_use=False,
    )
    log_retention_check_interval_ms = key(
        Kind.LONG, 300_000, "How often retention is applied.", at_least=1
    )
    log_cleanup_policy: tuple[str, ...] = key(
        Kind.LIST,
        ("delete",),
        "delete: by time and size. compact: retain the latest record of each key. Both can be"
        " combined.",
        words=("delete", "compact"),
        mode=_DYNAMIC,
    )
    log_cleaner_delete_retention_ms = key(
        Kind.LONG,
        86_400_000,
        "How long a compacted topic retains tombstones, for consumers that have not read them.",
        at_least=0,
        mode=_DYNAMIC,
    )
    log_cleaner_min_cleanable_ratio = key(
        Kind.DOUBLE,
        0.5,
        "The least uncompacted share of a log at which it is compacted.",
        between=(0, 1),
        mode=_DYNAMIC,
    )
    log_cleaner_min_compaction_lag_ms = key(
        Kind.LONG, 0, "A record younger than this is not compacted away.", at_least=0, mode=_DYNAMIC
    )
    log_cleaner_max_compaction_lag_ms = key(
        Kind.LONG,
        LONG_MAX,
        "A record older than this is compacted regardless of the dirty ratio.",
        at_least=1,
        mode=_DYNAMIC,
    )

    # The log cleaner.
    log_cleaner_enable = key(
        Kind.BOOLEAN,
        True,
        "Whether topics with cleanup.policy=compact are compacted; __consumer_offsets is one.",
    )
    log_cleaner_backoff_ms = key(
        Kind.LONG,
        15_000,
        "How long to wait before looking for logs to compact after finding none.",
        at_least=0,
        mode=_DYNAMIC,
    )
    log_cleaner_dedupe_buffer_size = key(
        Kind.LONG,
        134_217_728,
        "Memory for the keys of a compaction, 24 bytes each. If it is too small for all keys, a"
        " log is compacted in several passes. It is allocated in a process that runs only while"
        " there are logs to compact.",
        at_least=1 << 20,
        mode=_DYNAMIC,
    )
    log_cleaner_io_buffer_load_factor = key(
        Kind.DOUBLE,
        0.9,
        "The largest fill ratio of the memory for keys: a higher one fits more keys in a pass"
        " and is slower.",
        between=(0.01, 0.99),
        mode=_DYNAMIC,
    )
    log_cleaner_io_buffer_size = key(
        Kind.INT,
        524_288,
        "The buffer size for reads and writes of compaction.",
        at_least=1024,
        mode=_DYNAMIC,
    )
    log_cleaner_io_max_bytes_per_second = key(
        Kind.DOUBLE,
        1.7976931348623157e308,
        "The most bytes per second that compaction reads and writes together.",
        at_least=1,
        mode=_DYNAMIC,
    )
