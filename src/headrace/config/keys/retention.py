"""Keys of what shortens logs: retention and compaction."""

from headrace.config.keys.row import Keys, combined, key
from headrace.config.value_types import LONG_MAX, Kind, Mode

_DYNAMIC = Mode.CLUSTER_WIDE


class RetentionKeys(Keys):
    """What goes, when, and how compaction works."""

    # Retention.
    log_retention_ms: int = combined(
        Kind.LONG,
        None,
        "Segments whose newest record is older are deleted; -1: never. Unset:"
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
        "Oldest segments are deleted while a partition holds more than this without them; -1: no"
        " bound.",
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
        "delete: by time and size. compact: keep the newest record of each key. Both at once work.",
        words=("delete", "compact"),
        mode=_DYNAMIC,
    )
    log_cleaner_delete_retention_ms = key(
        Kind.LONG,
        86_400_000,
        "How long a compacted topic keeps tombstones for readers that have not seen them.",
        at_least=0,
        mode=_DYNAMIC,
    )
    log_cleaner_min_cleanable_ratio = key(
        Kind.DOUBLE,
        0.5,
        "Share of a compacted log that must be uncompacted before it is compacted.",
        between=(0, 1),
        mode=_DYNAMIC,
    )
    log_cleaner_min_compaction_lag_ms = key(
        Kind.LONG, 0, "A record younger than this is not compacted away.", at_least=0, mode=_DYNAMIC
    )
    log_cleaner_max_compaction_lag_ms = key(
        Kind.LONG,
        LONG_MAX,
        "A record older than this is compacted whatever the ratio.",
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
        "How long to wait before looking for a log to compact again when there was none.",
        at_least=0,
        mode=_DYNAMIC,
    )
    log_cleaner_dedupe_buffer_size = key(
        Kind.LONG,
        134_217_728,
        "Memory for the keys of a compaction, 24 bytes each; where it does not do for all of them,"
        " a log is compacted in several passes. Taken by a process that lives while there is work.",
        at_least=1 << 20,
        mode=_DYNAMIC,
    )
    log_cleaner_io_buffer_load_factor = key(
        Kind.DOUBLE,
        0.9,
        "How full the memory for keys may get: fuller takes more keys at a time, and longer.",
        between=(0.01, 0.99),
        mode=_DYNAMIC,
    )
    log_cleaner_io_buffer_size = key(
        Kind.INT,
        524_288,
        "Memory for what compaction reads and writes at a time.",
        at_least=1024,
        mode=_DYNAMIC,
    )
    log_cleaner_io_max_bytes_per_second = key(
        Kind.DOUBLE,
        1.7976931348623157e308,
        "Compaction reads and writes no more than this, taken together.",
        at_least=1,
        mode=_DYNAMIC,
    )
