"""Logs that are moving into a log directory: copies in the making, `topic-0.<32 hex>-future`.

Whoever copies appends to them as a follower does. Nothing is said of a copy outside of its
directory, in checkpoints and read bounds, before it takes the original's place: after a kill it
counts for nothing, and the next move begins by removing it (`left`).

From the rename on the copy is the partition's log as much as the original, whichever of the two a
start after a kill takes. So before it everything that the batches do not tell is on the disk: the
checkpoints, with the log's start, and the epochs and producers whose batches compaction has taken.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from headrace.log import file_names
from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.directory.leaving_logs import Checkpoint, RemoveLater
from headrace.log.directory.new_log import NewLog
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.log import Log
from headrace.log.recovery.known import Known
from headrace.log.recovery.recover import create_log, open_log
from headrace.model.errors import CorruptLogError, StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.callbacks import Done

_logger = logging.getLogger(__name__)


class FutureLogs:
    """The copies in the making of one log directory. On the deciding thread."""

    __slots__ = ("_checkpoint", "_ended", "_parts", "_remove_later", "logs", "promoting", "running")

    def __init__(
        self, parts: DirectoryParts, checkpoint: Checkpoint, remove_later: RemoveLater
    ) -> None:
        self._parts = parts
        self._checkpoint = checkpoint
        self._remove_later = remove_later
        self._ended = False
        self.logs: dict[TopicPartition, Log] = {}
        """The copies, by partition."""
        self.promoting: set[TopicPartition] = set()
        """Of which a copy takes, or has taken, the partition's directory name, and is neither
        accepted nor rejected yet: no other log of that name may be made."""
        self.running = 0
        """How much is done off the thread that a clean stop waits for."""

    @property
    def left(self) -> dict[TopicPartition, tuple[str, bytes]]:
        """What a stop or a kill left of moves: the directory's name and the topic's id."""
        return self._parts.futures_left

    def begin(self, new: NewLog, done: Done[Log | BaseException]) -> None:
        """Make an empty copy, off the thread; what was left of one before is removed.

        `hold` or `drop` what `done` is handed. Or StorageError: the directory has failed, or holds
        the partition already.
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
            done(result)

        if parts.context.failure is not None:
            done(parts.context.failure)
        else:
            self._run(make, made)

    def _run(self, work: Callable[[], Log], done: Done[Log | BaseException]) -> None:
        """Do `work` off the thread, unless the broker is stopping: then nothing is told."""
        if self._ended:
            return
        self.running += 1

        def ran(result: Log | BaseException) -> None:
            self.running -= 1
            done(result)

        self._parts.disk.run(work, ran)

    def hold(self, log: Log) -> None:
        """Show a copy that was made as the partition's."""
        self.logs[log.topic_partition] = log

    def drop(self, log: Log) -> None:
        """Remove a copy, unless it takes the original's place already."""
        key = log.topic_partition
        if self.logs.get(key) is log:
            del self.logs[key]
            self._parts.gaps.forget(key)
        if not log.closed:
            log.retire()
            self._remove(key, log.directory, log)

    def forget(self, key: TopicPartition) -> None:
        """Remove whatever copy there is of a partition, or was left of one."""
        log = self.logs.get(key)
        former = self.left.pop(key, None)
        if log is not None:
            self.drop(log)
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

        def remove(_: bool) -> None:
            if log is not None:
                log.release()
            parts.disk.run(lambda: parts.disk.remove_tree(target), removed)

        # Once no checkpoint speaks of it: else a start would take it for lost.
        self._remove_later(0, lambda: self._checkpoint(remove))

    # --- taking the original's place -----------------------------------------------------------

    def promote(self, log: Log, original: Log, done: Done[Log | BaseException]) -> None:
        """Give a whole copy its partition's directory name, durably, off the thread.

        Neither takes appends meanwhile. `done` is handed the log at its new place, flushed to its
        end, and with its original's start, high watermark, epochs and producers: `accept` it, or
        `reject` it. Or an error, and the copy is gone: StorageError, the directory has failed;
        CorruptLogError.
        """
        parts, key = self._parts, log.topic_partition
        del self.logs[key]
        log.cutting = True
        self.promoting.add(key)
        start, mark = original.start_offset, original.high_watermark

        def noted(is_written: bool) -> None:
            if is_written and not parts.fenced:
                parts.flusher.after_current(
                    partial(self._run, partial(self._rename, log, start, mark), renamed)
                )
            else:
                renamed(parts.context.failure or StorageError(f"{parts.path} has failed"))

        def renamed(result: Log | BaseException) -> None:
            if isinstance(result, OSError):
                result = parts.context.fail(result, log.directory, flush=True)
            if not isinstance(result, Log):
                self._forget_promoted(key)
                if isinstance(result, CorruptLogError):
                    self._remove(key, log.directory, None)
            done(result)

        try:
            self._hand_over(log, original)
        except StorageError as error:
            renamed(error)
            return
        parts.checkpoints.note(key, log.end_offset, start, mark)
        self._checkpoint(noted)

    def _hand_over(self, log: Log, original: Log) -> None:
        """Give the copy the original's epochs and producers, made durable as it is closed.

        StorageError.
        """
        if log.epochs.entries != original.epochs.entries:
            log.epochs = LeaderEpochs(original.epochs.entries)
            log.save_epochs()
        log.producers = original.producers
        if log.segments.active.size:
            log.roll()  # a start reads from a segment's begin on: there all is known
            return
        try:
            log.unflushed.add_file(log.write_snapshot())
        except OSError as error:
            raise log.context.fail(error, log.directory) from error
        log.unflushed.add_directory(log.directory)

    def _rename(self, log: Log, start: Offset, mark: Offset) -> Log:
        """Close the copy, rename its directory and open it there. Off the thread."""
        parts, key = self._parts, log.topic_partition
        named = f"{parts.path}/{key}"
        log.close()
        stem = file_names.deletion_stem(key)
        for name in parts.disk.list(parts.path):
            # Beside what is left of a log of that name no checkpoint is believed: see `found`.
            if file_names.is_deleted(name) and file_names.stem_of(name) == stem:
                with suppress(FileNotFoundError):  # the timer removes it just now
                    parts.disk.remove_tree(f"{parts.path}/{name}")
        parts.disk.rename(log.directory, named)
        parts.disk.sync_directory(parts.path)
        known = Known(
            clean=True, recovery_point=log.end_offset, start_offset=start, high_watermark=mark,
            now_ms=parts.clock.wall_ms(), gaps_below=parts.gaps.below(key),
            producer_expiration_ms=parts.periods.producer_id_expiration_ms,
        )  # fmt: skip
        try:
            return open_log(parts.context, named, key, log.config, known)
        except CorruptLogError:
            parts.disk.rename(named, log.directory)
            raise

    def accept(self, log: Log) -> None:
        """Hold a promoted log as one of the directory's."""
        key = log.topic_partition
        self.promoting.discard(key)
        self._parts.checkpoints.forget(key)
        self._parts.logs[key] = log

    def reject(self, log: Log) -> None:
        """Remove a promoted log: its original stays."""
        key = log.topic_partition
        log.retire()
        self._forget_promoted(key)
        self._remove(key, log.directory, log)

    def _forget_promoted(self, key: TopicPartition) -> None:
        self.promoting.discard(key)
        self._parts.gaps.forget(key)
        self._parts.checkpoints.forget(key)

    # --- the end ---------------------------------------------------------------------------------

    def end(self) -> None:
        """Begin nothing more off the thread: the broker stops."""
        self._ended = True

    def close(self) -> None:
        """Let go of the files. What is there of copies stays, for the next start to remove."""
        for log in self.logs.values():
            log.close(clean=False)
