"""Which log directory holds a partition's log, or is to."""

from collections.abc import Sequence

from headrace.log.directory.log_directory import LogDirectory
from headrace.log.directory.new_log import NewLog
from headrace.log.log import Log
from headrace.log.text_files import NO_TOPIC_ID
from headrace.model.errors import ApiError, ErrorCode, StorageError
from headrace.model.nouns import TopicPartition
from headrace.ports.callbacks import Done, first_error


class LogPlacement:
    """The logs of all log directories. All calls on the deciding thread."""

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self._directories = directories

    def holds(self, key: TopicPartition) -> bool:
        """Tell whether a directory holds the partition, or should: damaged and lost ones count."""
        return any(
            key in directory.logs or key in directory.quarantined or key in directory.missing
            for directory in self._directories
        )

    def prepare(self, wanted: Sequence[NewLog], done: Done[BaseException | None]) -> None:
        """Make the logs that will be needed and nobody has, off the deciding thread."""
        working = [directory for directory in self._directories if not directory.fenced]
        held = [len(directory.logs) for directory in working]
        shares: list[list[NewLog]] = [[] for _ in working]
        for new in wanted:
            if working and not self.holds(new.topic_partition):
                at = held.index(min(held))
                held[at] += 1
                shares[at].append(new)
        made = first_error(sum(bool(share) for share in shares), done)
        for directory, share in zip(working, shares, strict=True):
            if share:
                directory.prepare_logs(share, made)

    def log_for(self, new: NewLog) -> tuple[LogDirectory, Log]:
        """Return the partition's log and its directory, made where there is none.

        StorageError: it is another topic's; the directory has failed. CorruptLogError: it is out of
        service. ApiError: KAFKA_STORAGE_ERROR, no directory is left. OSError.
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
        directory = prepared[0] if prepared else self._roomiest()
        return directory, directory.create_log(key, topic_id, config)

    def _roomiest(self) -> LogDirectory:
        """Return the working directory with fewest partitions. ApiError: KAFKA_STORAGE_ERROR."""
        self.check_writable()
        working = [directory for directory in self._directories if not directory.fenced]
        return min(working, key=lambda directory: len(directory.logs))

    def check_writable(self) -> None:
        """Raise ApiError KAFKA_STORAGE_ERROR where no log directory is left to make a log in."""
        if all(directory.fenced for directory in self._directories):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no log directory is writable")

    def set_aside_others(self, new: NewLog) -> None:
        """Put a log of another topic of that name where nobody takes it for this one's.

        All its bytes stay. StorageError.
        """
        key = new.topic_partition
        for directory in self._directories:
            log = directory.logs.get(key)
            if log is not None and log.topic_id not in (NO_TOPIC_ID, new.topic_id):
                directory.set_aside(key)

    def delete(self, key: TopicPartition) -> bool:
        """Delete the partition's log; False where it lies in a failed directory."""
        return all(
            _delete(directory, key)
            for directory in self._directories
            if key in directory.logs or key in directory.quarantined
        )


def _delete(directory: LogDirectory, key: TopicPartition) -> bool:
    """Delete a log unless its directory has failed, before or by this."""
    if directory.fenced:
        return False
    try:
        directory.delete_log(key)
    except StorageError:
        return False  # the directory has said so in the log
    return True
