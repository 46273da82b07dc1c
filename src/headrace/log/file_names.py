"""What files and directories are called (Kafka's LogFileUtils and LocalLog)."""

import re

from headrace.model.nouns import TopicPartition, topic_name_problem
from headrace.model.protocols import ROWS

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"

PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"

META_PROPERTIES = "meta.properties"
LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

BOOT_ID = "headrace-boot-id"
"""Ours, which Kafka leaves alone: the boot of the machine that wrote last."""

SESSION = "headrace-session"
"""Ours: the session at the cluster's store under which this directory's broker was registered."""

DIRECTORIES = "headrace-directories"
"""Ours: which directories this one's broker has, and whether its acks have waited for flushes."""

RESERVE = "headrace-reserve"
"""Ours: room that a start on a full disk gives up to have some."""

GIVEN_UP = "headrace-given-up-replicas"
"""Ours: logs that lack records which were flushed there, until their broker's cluster knows it."""

METADATA = "headrace-metadata.db"
"""Ours: a single broker's metadata store, in its first log directory. Kafka ignores files there."""
METADATA_LEFT = f"{METADATA}.migrated"
"""What it is called once its content has been brought into a cluster's store."""
MIGRATED = "headrace-migrated"
"""Ours: the directory's broker has its metadata in the ZooKeeper that the file names."""

ADMIN_SOCKET = "admin.sock"
"""Ours: the Unix socket for administration while the broker runs, in its first log directory."""
SECURE = "headrace-secure"
"""Ours: the directory of what `headrace serve --secure` makes, in the first log directory. Kafka
takes it for a partition's, and does not start: it must be moved away before."""

KRAFT_METADATA = "__cluster_metadata-0"
"""A KRaft broker's own log beside the topics: left untouched and hidden."""

_DIRECTORY_CHARS_MAX = 255
_PARTITION = re.compile(r"(.+)-(\d{1,10})")
_PROCESS_FILE = re.compile(r"(.*\D)\d{8,}")
_FUTURE = re.compile(rf"(.+)\.[0-9a-f]{{32}}{FUTURE_SUFFIX}")
_STRAY = re.compile(rf"(.+)\.[0-9a-f]{{32}}{STRAY_SUFFIX}")
_BASE = re.compile(r"(\d{20})(\..+)")


def segment_file(base_offset: int, suffix: str) -> str:
    """Return a segment file's name, like `00000000000000000042.log`."""
    return f"{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """Return base offset and suffix (`.log`, `.index.deleted`, …) of a segment's file, or None."""
    match = _BASE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def process_file(prefix: str, number: int) -> str:
    """Return the name of a file that ends with the process (`ProtocolRow.process_files`).

    A file, which Kafka ignores, and no directory, which it would take for a partition's.
    """
    return f"{prefix}{number:08d}"


def is_process_file(name: str) -> bool:
    """Tell whether a protocol has made a file of that name for the lifetime of a process."""
    match = _PROCESS_FILE.fullmatch(name)
    return match is not None and any(row.process_files == match[1] for row in ROWS)


def parse_directory(name: str) -> TopicPartition | None:
    """Return the partition a directory belongs to, None where the name is no partition's."""
    match = _PARTITION.fullmatch(name)
    if match is None or topic_name_problem(match[1]) is not None:
        return None
    if str(int(match[2])) != match[2] or int(match[2]) >= 1 << 31:
        return None
    return TopicPartition(match[1], int(match[2]))


def parse_future(name: str) -> TopicPartition | None:
    """Return the partition whose copy in the making lies in a directory of that name, or None."""
    match = _FUTURE.fullmatch(name)
    return None if match is None else parse_directory(match[1])


def future_directory(partition: TopicPartition, unique: bytes) -> str:
    """Return a name `topic-0.<32 hex>-future`; `future_fits` says whether a file system takes it.

    It is never cut: a start reads the partition from it.
    """
    return f"{partition}.{unique.hex()}{FUTURE_SUFFIX}"


def future_fits(partition: TopicPartition) -> bool:
    """Tell whether a copy of the partition's log can be named."""
    return len(future_directory(partition, bytes(16))) <= _DIRECTORY_CHARS_MAX


def deletion_stem(partition: TopicPartition) -> str:
    """Return what the directory of every deleted log of that partition begins with."""
    return stem_of(delete_directory(partition, bytes(16)))


def is_deleted(name: str) -> bool:
    """Tell whether that is the directory of a deleted log."""
    return name.endswith(DELETE_SUFFIX)


def stem_of(deleted: str) -> str:
    """Return the deletion stem in the name of a deleted log's directory."""
    return deleted.removesuffix(DELETE_SUFFIX).rpartition(".")[0]


def delete_directory(partition: TopicPartition, unique: bytes) -> str:
    """Return a name `topic-0.<32 hex>-delete`; the topic is cut to what a file system takes."""
    return _left_directory(partition, unique, DELETE_SUFFIX)


def stray_directory(partition: TopicPartition, unique: bytes) -> str:
    """Return a name `topic-0.<32 hex>-stray`, for a log that no topic here has."""
    return _left_directory(partition, unique, STRAY_SUFFIX)


def is_stray(name: str) -> bool:
    """Return whether that is the directory of a log that was set aside."""
    return name.endswith(STRAY_SUFFIX)


def parse_stray(name: str) -> TopicPartition | None:
    """Return the partition whose log was set aside in a directory of that name, or None."""
    match = _STRAY.fullmatch(name)
    return None if match is None else parse_directory(match[1])


def _left_directory(partition: TopicPartition, unique: bytes, suffix: str) -> str:
    tail = f"-{partition.partition}.{unique.hex()}{suffix}"
    return partition.topic[: _DIRECTORY_CHARS_MAX - len(tail)] + tail
