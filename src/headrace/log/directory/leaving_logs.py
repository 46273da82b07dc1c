"""`LeavingLogs`: delete logs of a log directory, or set them aside as `-stray`."""

import logging
from collections.abc import Callable

from headrace.config.log_config import LogConfig
from headrace.log import file_names
from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.directory.stray_logs import StrayLog, log_stray, stray_log
from headrace.log.log import Log
from headrace.model.nouns import TopicPartition

_logger = logging.getLogger(__name__)
Checkpoint = Callable[[Callable[[bool], None]], None]
RemoveLater = Callable[[int, Callable[[], None]], None]


class LeavingLogs:
    """The removal of logs from one directory. For the deciding thread."""

    __slots__ = ("_checkpoint", "_parts", "_remove_later")

    def __init__(
        self, parts: DirectoryParts, checkpoint: Checkpoint, remove_later: RemoveLater
    ) -> None:
        """Make the remover of a directory's logs.

        `remove_later(ms, action)` runs an action later; `checkpoint` writes the checkpoints.
        """
        self._parts = parts
        self._checkpoint = checkpoint
        self._remove_later = remove_later

    def delete_log(self, topic_partition: TopicPartition) -> None:
        """Delete a partition's log: rename its directory now, remove it after file.delete.delay.ms.

        A quarantined partition is deleted too. Raises StorageError.
        """
        unique = self._parts.random.uuid()
        left = self._take_out(topic_partition, file_names.delete_directory(topic_partition, unique))
        if left is None:
            return
        target, log = left
        delay_ms = (
            LogConfig().file_delete_delay_ms if log is None else (log.config.file_delete_delay_ms)
        )
        # While the directory exists, a start after a kill ignores checkpoint entries of its name.
        self._remove_later(
            delay_ms, lambda: self._checkpoint(lambda written: self._remove(target, log, written))
        )

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Rename a partition's directory to `-stray`, which is retained and never loaded.

        Raises StorageError.
        """
        unique = self._parts.random.uuid()
        left = self._take_out(topic_partition, file_names.stray_directory(topic_partition, unique))
        if left is None:
            return
        target, log = left
        if log is not None:
            log.release()
        disk = self._parts.disk
        disk.run(lambda: stray_log(disk, target), self._was_set_aside)

    def _was_set_aside(self, result: StrayLog | BaseException | None) -> None:
        if isinstance(result, StrayLog):
            self._parts.strays.append(result)
            log_stray(result)

    def _take_out(
        self, topic_partition: TopicPartition, name: str
    ) -> tuple[str, Log | None] | None:
        """Rename the partition's directory to `name`; return its new path and the log.

        The log is None if the partition was quarantined. None if there is no directory. Raises
        StorageError.
        """
        parts = self._parts
        log = parts.logs.pop(topic_partition, None)
        damaged = parts.quarantined.pop(topic_partition, None)
        if log is None and damaged is None:
            return None
        parts.checkpoints.forget(topic_partition)
        if log is not None:
            log.retire()
            parts.context.events.about_to_cut(log, None)
            parts.bounds.forget(log.topic_id, topic_partition.partition)
        parts.gaps.forget(topic_partition)
        source, target = f"{parts.path}/{topic_partition}", f"{parts.path}/{name}"
        if log is None and not parts.disk.exists(source):
            self._checkpoint(lambda _: None)
            return None
        try:
            parts.disk.rename(source, target)
        except OSError as error:
            raise parts.context.fail(error, source) from error
        # Otherwise a power cut could restore the partition of a deleted topic.
        parts.disk.run(lambda: parts.disk.sync_directory(parts.path), self._synced)
        return target, log

    def _synced(self, result: BaseException | None) -> None:
        if isinstance(result, OSError):
            self._parts.context.fail(result, self._parts.path, flush=True)

    def _remove(self, path: str, log: Log | None, written: bool) -> None:
        if log is not None:
            log.release()
        if not written:
            return  # a start would take this log's checkpoint entries for a new log's

        def removed(result: BaseException | None) -> None:
            if isinstance(result, OSError) and not isinstance(result, FileNotFoundError):
                _logger.warning(
                    "%s: cannot be removed, the next start tries again: %s", path, result
                )

        self._parts.disk.run(lambda: self._parts.disk.remove_tree(path), removed)
