"""Names of the files and directories in a log directory (as Kafka's LogFileUtils and LocalLog).

    00000000000000000042.log     segment file: base offset, 20 digits, and a suffix
    orders-0                     partition directory: topic-partition
    orders-0.<32 hex>-delete     deleted log, waiting for its removal
    orders-0.<32 hex>-stray      log of a topic that the broker does not have
    orders-0.<32 hex>-future     copy of a log for another log directory, not yet complete
    *.deleted *.cleaned *.swap   suffixes behind a segment's name: deleted; compaction's two steps

Headrace's own files begin with `headrace-`; Kafka ignores them.
"""

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
"""Headrace's file, ignored by Kafka: boot id of the machine during which the directory was used."""

SESSION = "headrace-session"
"""Headrace's file: the cluster store session under which the directory's broker was registered."""

DIRECTORIES = "headrace-directories"
"""Headrace's file: the broker's log directories, and whether acks have waited for flushes."""

RESERVE = "headrace-reserve"
"""Headrace's file: 1 MiB of reserved space that a start on a full disk frees."""

SETTLED = "headrace-settled"
"""Headrace's file in a partition's directory: positions that a queue's consumers have settled."""

GIVEN_UP = "headrace-given-up-replicas"
"""Headrace's file: replicas that lost flushed records, listed until the cluster is notified."""

METADATA = "headrace-metadata.db"
"""Headrace's file: a single broker's metadata store (SQLite), in its first log directory."""
METADATA_LEFT = f"{METADATA}.migrated"
"""The metadata store's name after its content has been copied to a cluster's ZooKeeper."""
MIGRATED = "headrace-migrated"
"""Headrace's file: names the ZooKeeper that now holds the directory's broker's metadata."""

ADMIN_SOCKET = "admin.sock"
"""Headrace's Unix socket for administration while the broker runs, in the first log directory."""
SECURE = "headrace-secure"
"""Headrace's directory of `serve --secure` keys, in the first log directory.

Kafka takes it for a partition directory and does not start: move it away before.
"""

KRAFT_METADATA = "__cluster_metadata-0"
"""A KRaft broker's metadata log next to the topics: neither changed nor listed."""

_DIRECTORY_CHARS_MAX = 255
# Patterns are compiled with their first use, not by each start.
_PARTITION = r"(.+)-(\d{1,10})"
_PROCESS_FILE = r"(.*\D)\d{8,}"
_FUTURE = rf"(.+)\.[0-9a-f]{{32}}{FUTURE_SUFFIX}"
_STRAY = rf"(.+)\.[0-9a-f]{{32}}{STRAY_SUFFIX}"
_BASE = r"(\d{20})(\..+)"


def segment_file(base_offset: int, suffix: str) -> str:
    """Return a segment file's name, like `00000000000000000042.log`."""
    return f"{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """Return base offset and suffix (`.log`, `.index.deleted`, …) of a segment file name, or
    None."""
    match = re.fullmatch(_BASE, name)
    return (int(match[1]), match[2]) if match else None


def process_file(prefix: str, number: int) -> str:
    """Return the name of a file that ends with the process (`ProtocolRow.process_files`).

    A file, which Kafka ignores; it would take a directory for a partition's.
    """
    return f"{prefix}{number:08d}"


def is_process_file(name: str) -> bool:
    """Return whether `name` is a file that a protocol made for the lifetime of a process."""
    match = re.fullmatch(_PROCESS_FILE, name)
    return match is not None and any(row.process_files == match[1] for row in ROWS)


def parse_directory(name: str) -> TopicPartition | None:
    """Return the partition that a directory name stands for, or None if it is not one."""
    match = re.fullmatch(_PARTITION, name)
    if match is None or topic_name_problem(match[1]) is not None:
        return None
    if str(int(match[2])) != match[2] or int(match[2]) >= 1 << 31:
        return None
    return TopicPartition(match[1], int(match[2]))


def parse_future(name: str) -> TopicPartition | None:
    """Return the partition of a `-future` directory (an incomplete copy of its log), or None."""
    match = re.fullmatch(_FUTURE, name)
    return None if match is None else parse_directory(match[1])


def future_directory(partition: TopicPartition, unique: bytes) -> str:
    """Return a name `topic-0.<32 hex>-future`; `future_fits` checks its length.

    The topic is never shortened: a start reads the partition from the name.
    """
    return f"{partition}.{unique.hex()}{FUTURE_SUFFIX}"


def future_fits(partition: TopicPartition) -> bool:
    """Return whether the `-future` directory name of `partition` is short enough for a file
    system."""
    return len(future_directory(partition, bytes(16))) <= _DIRECTORY_CHARS_MAX


def deletion_stem(partition: TopicPartition) -> str:
    """Return the common prefix of the directory names of all deleted logs of `partition`."""
    return stem_of(delete_directory(partition, bytes(16)))


def is_deleted(name: str) -> bool:
    """Return whether `name` is the directory of a deleted log."""
    return name.endswith(DELETE_SUFFIX)


def stem_of(deleted: str) -> str:
    """Return the prefix that `deletion_stem` gives, from a deleted log's directory name."""
    return deleted.removesuffix(DELETE_SUFFIX).rpartition(".")[0]


def delete_directory(partition: TopicPartition, unique: bytes) -> str:
    """Return a name `topic-0.<32 hex>-delete`; a topic too long for a file name is shortened."""
    return _left_directory(partition, unique, DELETE_SUFFIX)


def stray_directory(partition: TopicPartition, unique: bytes) -> str:
    """Return a name `topic-0.<32 hex>-stray`, for the log of a topic that the broker does not
    have."""
    return _left_directory(partition, unique, STRAY_SUFFIX)


def is_stray(name: str) -> bool:
    """Return whether `name` is the directory of a log set aside as stray."""
    return name.endswith(STRAY_SUFFIX)


def parse_stray(name: str) -> TopicPartition | None:
    """Return the partition of a `-stray` directory, or None if `name` is not one."""
    match = re.fullmatch(_STRAY, name)
    return None if match is None else parse_directory(match[1])


def _left_directory(partition: TopicPartition, unique: bytes, suffix: str) -> str:
    tail = f"-{partition.partition}.{unique.hex()}{suffix}"
    return partition.topic[: _DIRECTORY_CHARS_MAX - len(tail)] + tail
