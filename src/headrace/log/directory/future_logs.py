"""Logs that are moving into a log directory: copies in the making, `topic-0.<32 hex>-future`.

Whoever copies appends to them as a follower does. Nothing is said of a copy outside of its
directory, in checkpoints and read bounds, before it takes the original's place: after a kill it
counts for nothing, and the next move begins by removing it (`left`).
"""

import logging
from functools import partial

from headrace.log import file_names
from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.directory.leaving_logs import RemoveLater
from headrace.log.directory.new_log import NewLog
from headrace.log.log import Log
from headrace.log.recovery.known import Known
from headrace.log.recovery.recover import create_log, open_log
from headrace.model.errors import CorruptLogError, StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.callbacks import Done

_logger = logging.getLogger(__name__)


class FutureLogs:
    """The copies in the making of one log directory. On the deciding thread."""

    __slots__ = ("_parts", "_remove_later", "logs")

    def __init__(self, parts: DirectoryParts, remove_later: RemoveLater) -> None:
        self._parts = parts
        self._remove_later = remove_later
        self.logs: dict[TopicPartition, Log] = {}
        """The copies, by partition."""

    @property
    def left(self) -> dict[TopicPartition, tuple[str, bytes]]:
        """What a stop or a kill left of moves: the directory's name and the topic's id."""
        return self._parts.futures_left

    def begin(self, new: NewLog, done: Done[Log | BaseException]) -> None:
        """Make an empty copy, off the thread; what was left of one before is removed.

        `done`: StorageError where the directory has failed, OSError where it just has, or holds the
        partition already.
        """
        key, parts = new.topic_partition, self._parts
        name = file_names.future_directory(key, parts.random.uuid())
        former = self.left.pop(key, None)

        def make() -> Log:
            if former is not None:
                parts.disk.remove_tree(f"{parts.path}/{former[0]}")
            if parts.disk.exists(f"{parts.path}/{key}"):
                raise StorageError(f"{parts.path}/{key}: is there already")
            return create_log(parts.context, f"{parts.path}/{name}", *new)

        def made(result: Log | BaseException) -> None:
            if isinstance(result, OSError):
                result = parts.context.fail(result, parts.path)
            if isinstance(result, Log):
                self.logs[key] = result
            done(result)

        if parts.context.failure is not None:
            done(parts.context.failure)
        else:
            parts.disk.run(make, made)

    def drop(self, key: TopicPartition) -> None:
        """Remove a copy, or what was left of one. Nothing where there is none."""
        log = self.logs.pop(key, None)
        former = self.left.pop(key, None)
        if log is not None:
            log.retire()
            self._parts.gaps.forget(key)
            self._remove(key, log.directory, log)
        if former is not None:
            self._remove(key, f"{self._parts.path}/{former[0]}", None)

    def _remove(self, key: TopicPartition, source: str, log: Log | None) -> None:
        """Rename a directory so that no start takes it for a move, and remove it."""
        parts = self._parts
        name = file_names.delete_directory(key, parts.random.uuid())
        target = f"{parts.path}/{name}"
        if parts.fenced:
            if log is not None:
                log.release()
            return
        try:
            parts.disk.rename(source, target)
        except OSError as error:
            if log is not None:
                log.release()
            parts.context.fail(error, source)
            return

        def removed(result: BaseException | None) -> None:
            if isinstance(result, OSError) and not isinstance(result, FileNotFoundError):
                _logger.warning("%s: not removed, the next start does it: %s", target, result)

        def remove() -> None:
            if log is not None:
                log.release()
            parts.disk.run(lambda: parts.disk.remove_tree(target), removed)

        self._remove_later(0, remove)

    # --- taking the original's place -----------------------------------------------------------

    def promote(
        self, key: TopicPartition, start: Offset, mark: Offset, done: Done[Log | BaseException]
    ) -> None:
        """Give a whole copy its partition's directory name, durably, off the thread.

        `done` is handed the log at its new place, flushed to its end, beginning at `start` and
        committed up to `mark`: `accept` it, or `reject` it. Or an error, and the copy is gone:
        StorageError, the directory has failed; CorruptLogError. It takes no appends meanwhile.
        """
        parts, log = self._parts, self.logs.pop(key)
        log.cutting = True
        named = f"{parts.path}/{key}"

        def rename() -> Log:
            log.close()
            parts.disk.rename(log.directory, named)
            parts.disk.sync_directory(parts.path)
            end = log.end_offset
            known = Known(
                clean=True, recovery_point=end, start_offset=start, high_watermark=mark,
                now_ms=parts.clock.wall_ms(), gaps_below=parts.gaps.below(key),
                producer_expiration_ms=parts.periods.producer_id_expiration_ms,
            )  # fmt: skip
            try:
                return open_log(parts.context, named, key, log.config, known)
            except CorruptLogError:
                parts.disk.rename(named, log.directory)
                raise

        def renamed(result: Log | BaseException) -> None:
            if isinstance(result, OSError):
                result = parts.context.fail(result, log.directory, flush=True)
            if isinstance(result, CorruptLogError):
                self._remove(key, log.directory, None)
            done(result)

        parts.flusher.after_current(partial(parts.disk.run, rename, renamed))

    def accept(self, log: Log) -> None:
        """Hold a promoted log as one of the directory's."""
        key = log.topic_partition
        self._parts.checkpoints.forget(key)
        self._parts.logs[key] = log

    def reject(self, log: Log) -> None:
        """Remove a promoted log: its original stays."""
        log.retire()
        self._parts.gaps.forget(log.topic_partition)
        self._remove(log.topic_partition, log.directory, log)

    def close(self) -> None:
        """Let go of the files. What is there of copies stays, for the next start to remove."""
        for log in self.logs.values():
            log.close(clean=False)
