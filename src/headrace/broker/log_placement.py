"""`LogPlacement`: find or choose the log directory of a partition's log."""

import logging
from collections.abc import Sequence

from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.new_log import NewLog
from headrace.log.log import Log
from headrace.log.text_files import NO_TOPIC_ID
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done, first_error

_logger = logging.getLogger(__name__)
ASKED_FOR_MAX = 10_000
"""Most partitions without a log for which a directory may be requested."""


class LogPlacement:
    """The logs of all log directories of a broker. For the deciding thread."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self._directories = directories
        self._asked_for: dict[TopicPartition, LogDirectory] = {}

    def holds(self, key: TopicPartition) -> bool:
        """Return whether a directory has the partition, including damaged and lost logs."""
        return any(
            key in directory.logs or key in directory.quarantined or key in directory.missing
            for directory in self._directories
        )

    def ask_for(self, key: TopicPartition, directory: LogDirectory) -> None:
        """Choose the directory in which the partition's log will be created.

        For at most ASKED_FOR_MAX partitions; the oldest choices are dropped.
        """
        self._asked_for.pop(key, None)
        self._asked_for[key] = directory
        if len(self._asked_for) > ASKED_FOR_MAX:
            del self._asked_for[next(iter(self._asked_for))]

    def directory_of(self, log: Log) -> LogDirectory | None:
        """Return the directory of this log, or None."""
        key = log.topic_partition
        return next((held for held in self._directories if held.logs.get(key) is log), None)

    def settle_doubles(self) -> None:
        """Keep one of two logs of a partition, left by a kill during a move between directories.

        Call after loading. The log with the later epoch and end stays; the other is set aside as
        `-stray`. They were equal at the move, and only the partition's own has grown since.
        Raises StorageError.
        """
        held: dict[TopicPartition, LogDirectory] = {}
        for directory in self._directories:
            for key, log in [*directory.logs.items()]:
                other = held.setdefault(key, directory)
                if other is directory or other.logs[key].topic_id != log.topic_id:
                    continue
                before = other.logs[key]
                ends = [
                    (each.epochs.latest, each.end_offset, each.start_offset)
                    for each in (before, log)
                ]
                stays, goes = (other, directory) if ends[0] >= ends[1] else (directory, other)
                held[key] = stays
                _logger.warning(
                    "%s is in two log directories: using the one in %s; the one in %s is set"
                    " aside as a -stray directory and may be deleted", key, stays.path, goes.path,
                )  # fmt: skip
                goes.set_aside(key)

    def prepare(self, wanted: Sequence[NewLog], done: Done[BaseException | None]) -> None:
        """Create the logs in `wanted` that no directory has, on threads."""
        working = [directory for directory in self._directories if not directory.fenced]
        held = [len(directory.logs) for directory in working]
        shares: list[list[NewLog]] = [[] for _ in working]
        for new in wanted:
            key = new.topic_partition
            # A copy may be about to take the name of a deleted log; `log_for` decides then.
            taken = any(key in directory.futures.promoting for directory in working)
            if working and not taken and not self.holds(key):
                asked_for = self._asked_for.get(key)
                at = working.index(asked_for) if asked_for in working else held.index(min(held))
                held[at] += 1
                shares[at].append(new)
        made = first_error(sum(bool(share) for share in shares), done)
        for directory, share in zip(working, shares, strict=True):
            if share:
                directory.prepare_logs(share, made)

    def log_for(self, new: NewLog) -> tuple[LogDirectory, Log]:
        """Return the partition's log and its directory; create the log if it is missing.

        StorageError: it is another topic's, or its directory failed. CorruptLogError: it is out of
        service. ApiError: KAFKA_STORAGE_ERROR, no directory is left. Raises OSError.
        """
        key, topic_id, config = new
        for directory in self._directories:
            log = directory.logs.get(key)
            if log is not None:
                if log.topic_id == NO_TOPIC_ID:
                    log.adopt_topic_id(topic_id)
                elif log.topic_id != topic_id:
                    raise StorageError(f"{log.directory} belongs to another topic of that name")
                log.config = config
                return directory, log
        for directory in self._directories:
            refused = directory.refused(key, topic_id)
            if refused is not None:
                raise refused
        prepared = [
            directory
            for directory in self._directories
            if directory.prepared(key) and not directory.fenced
        ]
        asked_for = self._asked_for.pop(key, None)
        if prepared:
            directory = prepared[0]
        elif asked_for in self._free_for(key):
            directory = asked_for
        else:
            self.check_writable()
            free = self._free_for(key)
            if not free:
                raise StorageError(f"{key}: a copy of its former log is still being removed")
            directory = min(free, key=lambda directory: len(directory.logs))
        return directory, directory.create_log(key, topic_id, config)

    def _free_for(self, key: TopicPartition) -> list[LogDirectory]:
        """Return the working directories in which no copy is taking the partition's name."""
        return [
            directory
            for directory in self._directories
            if not (directory.fenced or key in directory.futures.promoting)
        ]

    def check_writable(self) -> None:
        """Raise ApiError KAFKA_STORAGE_ERROR if no log directory is left to create a log in."""
        if all(directory.fenced for directory in self._directories):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory is writable")

    def set_aside_others(self, new: NewLog) -> None:
        """Set aside logs of other topics with the same name, as `-stray` directories.
        Raises StorageError."""
        key = new.topic_partition
        for directory in self._directories:
            log = directory.logs.get(key)
            if log is not None and log.topic_id not in (NO_TOPIC_ID, new.topic_id):
                directory.set_aside(key)

    def delete(self, key: TopicPartition) -> bool:
        """Delete the partition's log; return False if it is in a failed directory."""
        self._asked_for.pop(key, None)
        for directory in self._directories:
            directory.futures.forget(key)
        return all(
            _delete(directory, key)
            for directory in self._directories
            if key in directory.logs or key in directory.quarantined
        )


def _delete(directory: LogDirectory, key: TopicPartition) -> bool:
    """Delete a log; return False if its directory has failed."""
    if directory.fenced:
        return False
    try:
        directory.delete_log(key)
    except StorageError:
        return False  # the directory has logged it
    return True
