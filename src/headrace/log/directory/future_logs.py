r"""`FutureLogs`: incomplete copies of logs that move into a log directory (`-future`).

    begin -> hold -> (appends as a follower) -> promote -> accept
                 \-> drop                             \-> reject: the original stays

Before it is promoted, a copy has no checkpoint entry and no read bound. After a kill it is ignored,
and the next move first removes it (`left`).

From its rename on, the copy is as valid as the original, whichever of the two the next start loads.
So before the rename everything that its batches do not contain is durable: the checkpoints with the
start offset, and leader epochs and producers whose batches compaction removed.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from headrace.log import file_names
from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.directory.leaving_logs import Checkpoint, RemoveLater
from headrace.log.directory.new_log import NewLog, create_log
from headrace.log.leader_epochs import LeaderEpochs
from headrace.log.log import Log
from headrace.log.recovery.known import Known
from headrace.model.errors import CorruptLogError, StorageError
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.callbacks import Done

_logger = logging.getLogger(__name__)


class FutureLogs:
    """The incomplete copies (`-future`) of one log directory. For the deciding thread."""

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
        """Partitions whose copy is being renamed to the partition's directory.

        From the rename until `accept` or `reject` no other log of that name may be created.
        """
        self.running = 0
        """Number of running thread jobs, which a clean stop waits for."""

    @property
    def left(self) -> dict[TopicPartition, tuple[str, bytes]]:
        """(directory name, topic id) of copies that a stop or a kill left, by partition."""
        return self._parts.futures_left

    def begin(self, new: NewLog, done: Done[Log | BaseException]) -> None:
        """Create an empty copy on a thread, after removing one left by an earlier move.

        `done` gets the copy, to be passed to `hold` or `drop`; or StorageError if the directory has
        failed or already has the partition.
        """
        key, parts = new.topic_partition, self._parts
        name = file_names.future_directory(key, parts.random.uuid())
        former = self.left.pop(key, None)

        def make() -> Log:
            if former is not None:
                parts.disk.remove_tree(f"{parts.path}/{former[0]}")
            if parts.disk.exists(f"{parts.path}/{key}"):
                raise StorageError(f"{parts.path}/{key}: already exists")
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
        """Run `work` on a thread; if the broker is stopping, do nothing and never call `done`."""
        if self._ended:
            return
        self.running += 1

        def ran(result: Log | BaseException) -> None:
            self.running -= 1
            done(result)

        self._parts.disk.run(work, ran)

    def hold(self, log: Log) -> None:
        """Add a created copy to `logs` as the partition's copy."""
        self.logs[log.topic_partition] = log

    def drop(self, log: Log) -> None:
        """Remove a copy, unless it is already promoted."""
        key = log.topic_partition
        if self.logs.get(key) is log:
            del self.logs[key]
            self._parts.gaps.forget(key)
        if not log.closed:
            log.retire()
            self._remove(key, log.directory, log)

    def forget(self, key: TopicPartition) -> None:
        """Remove the current copy of a partition and any copy left by an earlier move."""
        log = self.logs.get(key)
        former = self.left.pop(key, None)
        if log is not None:
            self.drop(log)
        if former is not None:
            self._remove(key, f"{self._parts.path}/{former[0]}", None)

    def _remove(self, key: TopicPartition, source: str, log: Log | None) -> None:
        """Rename a copy's directory to `-delete`, which no start takes for a move, then remove
        it."""
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
                _logger.warning(
                    "%s: cannot be removed, the next start tries again: %s", target, result
                )

        def remove(_: bool) -> None:
            if log is not None:
                log.release()
            parts.disk.run(lambda: parts.disk.remove_tree(target), removed)

        # After the checkpoints lost its entry: otherwise a start would report the log as lost.
        self._remove_later(0, lambda: self._checkpoint(remove))

    # --- taking the original's place -----------------------------------------------------------

    def promote(self, log: Log, original: Log, done: Done[Log | BaseException]) -> None:
        """Rename a complete copy to its partition's directory, durably, on a thread.

        Neither log accepts appends meanwhile. `done` gets the reopened log, flushed to its end,
        with the original's start, high watermark, epochs and producers: call `accept` or `reject`.
        Or `done` gets an error and the copy is removed: StorageError if the directory failed,
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
        """Copy the original's leader epochs and producers to the copy; durable when it closes.

        Raises StorageError.
        """
        if log.epochs.entries != original.epochs.entries:
            log.epochs = LeaderEpochs(original.epochs.entries)
            log.save_epochs()
        log.producers = original.producers
        if log.segments.active.size:
            # A start reads from a segment's first batch on; the roll puts epochs and producers
            # there.
            log.roll()
            return
        try:
            log.unflushed.add_file(log.write_snapshot())
        except OSError as error:
            raise log.context.fail(error, log.directory) from error
        log.unflushed.add_directory(log.directory)

    def _rename(self, log: Log, start: Offset, mark: Offset) -> Log:
        """Close the copy, rename its directory and reopen it. Runs on a thread."""
        parts, key = self._parts, log.topic_partition
        named = f"{parts.path}/{key}"
        log.close()
        stem = file_names.deletion_stem(key)
        for name in parts.disk.list(parts.path):
            # `found` ignores the checkpoints of a name that a `-delete` directory also has.
            if file_names.is_deleted(name) and file_names.stem_of(name) == stem:
                with suppress(FileNotFoundError):  # the removal timer may be removing it
                    parts.disk.remove_tree(f"{parts.path}/{name}")
        parts.disk.rename(log.directory, named)
        parts.disk.sync_directory(parts.path)
        known = Known(
            clean=True, recovery_point=log.end_offset, start_offset=start, high_watermark=mark,
            now_ms=parts.clock.wall_ms(), gaps_below=parts.gaps.below(key),
            producer_expiration_ms=parts.periods.producer_id_expiration_ms,
        )  # fmt: skip
        from headrace.log.recovery.recover import open_log

        try:
            return open_log(parts.context, named, key, log.config, known)
        except CorruptLogError:
            parts.disk.rename(named, log.directory)
            raise

    def accept(self, log: Log) -> None:
        """Add a promoted log to the directory's logs."""
        key = log.topic_partition
        self.promoting.discard(key)
        self._parts.checkpoints.forget(key)
        self._parts.logs[key] = log

    def reject(self, log: Log) -> None:
        """Remove a promoted log; its original stays."""
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
        """Refuse further thread jobs, as the broker stops."""
        self._ended = True

    def close(self) -> None:
        """Close the copies' files; the next start removes their directories."""
        for log in self.logs.values():
            log.close(clean=False)
