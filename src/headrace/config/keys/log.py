"""Keys of the log on disk: directories, segments, flushes, records."""

from headrace.config.keys.retention import RetentionKeys
from headrace.config.keys.row import combined, key
from headrace.config.value_types import LONG_MAX, Kind, Mode

_DYNAMIC = Mode.CLUSTER_WIDE
_HOUR_MS = 3_600_000


def _check_gzip_level(text: str) -> None:
    """Refuse 0, which would not compress, as Kafka does. Raises ValueError."""
    if text.strip("+-0") == "" and "0" in text:
        raise ValueError("must be 1 to 9, or -1")


class LogKeys(RetentionKeys):
    """Logs and the defaults of topics; what shortens logs is inherited."""

    # Directories, and what is created in them.
    log_dirs: tuple[str, ...] = combined(
        Kind.LIST,
        None,
        "Directories of the partitions' logs, separated by commas. New partitions are placed in"
        " the directory with the fewest. Unset: log.dir.",
        coarser=(("log.dir", 1),),
    )
    log_dir = key(
        Kind.STRING,
        "headrace-data",
        "The log directory if log.dirs is not set, relative to the broker's working directory."
        " Kafka's default is /tmp/kafka-logs, which a restart of the machine empties.",
    )
    num_recovery_threads_per_data_dir = key(
        Kind.INT, 2, "Threads that load a log directory at start.", at_least=1
    )
    num_partitions = key(
        Kind.INT,
        1,
        "Partitions of a topic that is created without a number of partitions.",
        at_least=1,
    )
    default_replication_factor = key(
        Kind.INT, 1, "Replicas of a topic that is created without a replication factor.", at_least=1
    )
    auto_create_topics_enable = key(
        Kind.BOOLEAN,
        True,
        "Create a topic when a client requests its metadata and allows its creation. The"
        " default is true, as in Kafka: clients written for Kafka rely on it, and listeners are"
        " on the loopback unless configured otherwise.",
    )
    delete_topic_enable = key(Kind.BOOLEAN, True, "Whether topics can be deleted.")
    partitions_per_topic_max = key(
        Kind.INT,
        10_000,
        "The most partitions of one topic.",
        at_least=1,
        mode=_DYNAMIC,
        ours=True,
    )
    partitions_max = key(
        Kind.INT,
        100_000,
        "The most partitions of all topics together.",
        at_least=1,
        mode=_DYNAMIC,
        ours=True,
    )

    # Segments.
    log_segment_bytes = key(
        Kind.INT,
        1 << 30,
        "The largest size of a segment. Kafka 4 refuses less than 1 MiB; here, as in Kafka 3,"
        " it is accepted with a warning.",
        at_least=14,
        mode=_DYNAMIC,
    )
    log_roll_ms: int = combined(
        Kind.LONG,
        None,
        "A segment is rolled when its first record is this old; unset: log.roll.hours.",
        at_least=1,
        mode=_DYNAMIC,
        coarser=(("log.roll.hours", _HOUR_MS),),
    )
    log_roll_hours = key(Kind.INT, 168, "As log.roll.ms, in hours.", at_least=1)
    log_roll_jitter_ms: int = combined(
        Kind.LONG,
        None,
        "A random time up to this is subtracted from log.roll.ms, so that segments do not all"
        " roll at once; unset: log.roll.jitter.hours.",
        at_least=0,
        mode=_DYNAMIC,
        coarser=(("log.roll.jitter.hours", _HOUR_MS),),
    )
    log_roll_jitter_hours = key(Kind.INT, 0, "As log.roll.jitter.ms, in hours.", at_least=0)
    log_index_size_max_bytes = key(
        Kind.INT,
        10 << 20,
        "The largest offset index; a segment with a full index is rolled.",
        at_least=4,
        mode=_DYNAMIC,
    )
    log_index_interval_bytes = key(
        Kind.INT, 4096, "Log bytes between two index entries.", at_least=0, mode=_DYNAMIC
    )
    log_segment_delete_delay_ms = key(
        Kind.LONG,
        60_000,
        "How long the renamed files of a deleted segment or topic stay on disk.",
        at_least=0,
        mode=_DYNAMIC,
    )
    log_preallocate = key(
        Kind.BOOLEAN,
        False,
        "Reserves a new segment's full size on disk; has no effect here.",
        mode=_DYNAMIC,
        in_use=False,
    )
    log_open_files_max = key(
        Kind.INT,
        2_000,
        "The most log files that are open at once. The least recently used are closed, and"
        " opened again when needed.",
        at_least=16,
        ours=True,
    )

    log_dirs_free_bytes_min: int | None = key(
        Kind.LONG,
        None,
        "While a log directory's file system has less free space, its partitions refuse"
        " producers' records (KAFKA_STORAGE_ERROR), before the disk is full and the directory"
        " fails. Consumers continue, and producers resume once there is space. Below half of"
        " this value followers stop fetching into it. Unset: 50000000, or a tenth of a smaller"
        " file system. 0: never.",
        at_least=0,
        mode=_DYNAMIC,
        ours=True,
    )

    # Flushes and checkpoints.
    log_flush_interval_messages = key(
        Kind.LONG,
        LONG_MAX,
        "A partition is flushed when this many records are unflushed, regardless of acks.",
        at_least=1,
        mode=_DYNAMIC,
    )
    log_flush_interval_ms: int = combined(
        Kind.LONG,
        None,
        "A partition's records are flushed at the latest after this long; unset:"
        " log.flush.scheduler.interval.ms.",
        at_least=0,
        mode=_DYNAMIC,
        coarser=(("log.flush.scheduler.interval.ms", 1),),
    )
    log_flush_scheduler_interval_ms = key(
        Kind.LONG,
        LONG_MAX,
        "How often partitions are checked for log.flush.interval.ms.",
        at_least=1,
    )
    log_flush_offset_checkpoint_interval_ms = key(
        Kind.INT,
        60_000,
        "The longest time between two writes of the recovery points, which are also written with"
        " the high watermarks.",
        at_least=1,
    )
    log_flush_start_offset_checkpoint_interval_ms = key(
        Kind.INT,
        60_000,
        "The longest time between two writes of the log start offsets, which are also written with"
        " the high watermarks and when a client moves one.",
        at_least=1,
    )
    replica_high_watermark_checkpoint_interval_ms = key(
        Kind.LONG,
        5000,
        "How often the high watermarks are written, with recovery points and log start offsets.",
        at_least=1,
    )
    log_flush_on_ack = key(
        Kind.BOOLEAN,
        True,
        "true: acks=all is acknowledged, and a record becomes visible, when it is on the disk"
        " of every in-sync replica. false: Kafka's behaviour, page cache and replication.",
        mode=_DYNAMIC,
        ours=True,
    )
    log_flush_strategy = key(
        Kind.STRING,
        "auto",
        "How files that wait for a flush are flushed together: fdatasync (one by one), aio"
        " (concurrently, by the kernel's asynchronous I/O), syncfs (all in one call), or auto:"
        " by their number and size and by recent measurements.",
        words=("auto", "fdatasync", "aio", "syncfs"),
        ours=True,
    )

    # Records and their producers.
    message_max_bytes = key(
        Kind.INT,
        1_048_588,
        "The largest record batch that a producer may send, after compression.",
        at_least=0,
        mode=_DYNAMIC,
    )
    compression_gzip_level = key(
        Kind.INT,
        -1,
        "gzip level if compression.type makes the broker compress: 1 to 9, or -1 for gzip's"
        " default; 0 is refused.",
        between=(-1, 9),
        check=_check_gzip_level,
        mode=_DYNAMIC,
    )
    compression_lz4_level = key(
        Kind.INT,
        9,
        "lz4 level if compression.type makes the broker compress.",
        between=(1, 17),
        mode=_DYNAMIC,
    )
    compression_zstd_level = key(
        Kind.INT,
        3,
        "zstd level if compression.type makes the broker compress.",
        between=(-131072, 22),
        mode=_DYNAMIC,
    )
    compression_type = key(
        Kind.STRING,
        "producer",
        "The codec in which batches are stored; producer: the codec in which they arrive.",
        words=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        mode=_DYNAMIC,
    )
    log_message_timestamp_type = key(
        Kind.STRING,
        "CreateTime",
        "CreateTime stores the producer's timestamp, LogAppendTime replaces it by the broker's.",
        words=("CreateTime", "LogAppendTime"),
        mode=_DYNAMIC,
    )
    log_message_timestamp_before_max_ms = key(
        Kind.LONG,
        LONG_MAX,
        "A record whose timestamp is further in the past than this is refused.",
        at_least=0,
        mode=_DYNAMIC,
    )
    log_message_timestamp_after_max_ms = key(
        Kind.LONG,
        3_600_000,
        "A record whose timestamp is further in the future than this is refused.",
        at_least=0,
        mode=_DYNAMIC,
    )
    min_insync_replicas = key(
        Kind.INT,
        1,
        "acks=all is refused while fewer replicas than this are in sync.",
        at_least=1,
        mode=_DYNAMIC,
    )
    unclean_leader_election_enable = key(
        Kind.BOOLEAN,
        False,
        "Whether a replica that is not in sync may become leader, and lose records, if no"
        " in-sync replica is left.",
        mode=_DYNAMIC,
    )
    producer_id_expiration_ms = key(
        Kind.INT,
        86_400_000,
        "The state of an idempotent producer that has written nothing for this long is removed.",
        at_least=1,
        mode=_DYNAMIC,
    )
    producer_id_expiration_check_interval_ms = key(
        Kind.INT, 600_000, "How often expired producer ids are removed.", at_least=1
    )
    record_batch_inflated_bytes_max = key(
        Kind.INT,
        67_108_864,
        "The largest decompressed size of a batch that the broker has to decompress.",
        at_least=1_048_576,
        ours=True,
    )
    producers_per_partition_max = key(
        Kind.INT,
        100_000,
        "The most idempotent producers of a partition; beyond it, the least recently active"
        " sixteenth is removed. Producers with an open transaction are not removed.",
        at_least=1,
        ours=True,
    )

    # The scrub.
    log_scrub_bytes_per_second = key(
        Kind.LONG,
        4 << 20,
        "The rate at which each log directory is checked for damaged batches in the background."
        " 0: not at all.",
        at_least=0,
        ours=True,
    )
    log_scrub_interval_ms = key(
        Kind.LONG,
        7 * 86_400_000,
        "How often all logs are checked, as far as log.scrub.bytes.per.second allows.",
        at_least=1000,
        ours=True,
    )
