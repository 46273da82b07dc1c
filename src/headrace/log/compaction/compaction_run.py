"""`CompactionRun`: one compaction of `LogCleaner`, from the choice of its log to its end.

    checkpoint -> gaps noted -> [prepare] -> [worker] -> swap each segment -> done

Imported with the first log that is due. On the deciding thread; steps in brackets run elsewhere.
"""

import logging
from collections import deque
from typing import TYPE_CHECKING

from headrace.log import file_names
from headrace.log.compaction import swap_segments
from headrace.log.compaction.job import Aborted, Cleaned, Damaged, Done, Event, Stopped
from headrace.log.compaction.order import job_of, prepare
from headrace.log.compaction.plan import Cleanable
from headrace.log.retention import remove_files, remove_snapshots
from headrace.model.errors import CorruptLogError, StorageError
from headrace.model.nouns import Offset

if TYPE_CHECKING:
    from headrace.log.compaction.cleaner import LogCleaner
    from headrace.log.directory.log_directory import LogDirectory
    from headrace.log.log import Log
    from headrace.log.segment.segment import Segment

_logger = logging.getLogger("headrace.log.compaction.cleaner")


class CompactionRun:
    """The compaction in progress."""

    __slots__ = ("_began", "_busy", "_chosen", "_cleaner", "_waiting", "directory", "given_up")

    def __init__(self, cleaner: "LogCleaner", directory: "LogDirectory", chosen: Cleanable) -> None:
        """Make the run; `begin` starts it. `directory` holds the log of `chosen`."""
        self.directory = directory
        self.given_up = ""
        """Why the result is discarded; empty while it is wanted."""
        self._cleaner = cleaner
        self._chosen = chosen
        self._began = cleaner.clock.monotonic()
        self._waiting: deque[Event | Stopped] = deque()
        self._busy = False
        """Whether a swap waits for a directory fsync; later events wait too."""

    @property
    def log(self) -> "Log":
        """The log that is compacted."""
        return self._chosen.log

    def begin(self) -> None:
        """Make the recovery point and the allowed gaps durable, then start the worker."""
        self.directory.checkpoint(self._checkpointed)

    def _checkpointed(self, is_written: bool) -> None:
        if is_written and self._goes_on():
            # Durable before the first segment is swapped in: a start then accepts the gaps.
            self.directory.gaps.allow(self.log.topic_partition, self._chosen.upper)
            self.directory.gaps.write_soon(self._noted)

    def _noted(self, error: OSError | None) -> None:
        if error is None and self._goes_on():
            self._cleaner.disk.run(lambda: prepare(self._chosen), self._prepared)
        elif error is not None:
            self._prepared(error)

    def _prepared(self, result: Aborted | BaseException) -> None:
        cleaner = self._cleaner
        if isinstance(result, CorruptLogError):
            cleaner.mark_uncleanable(self.log.topic_partition, str(result))
            cleaner.finish(self)
        elif isinstance(result, FileNotFoundError) or not self._goes_on():
            cleaner.finish(self)
        elif isinstance(result, OSError):
            _logger.warning(
                "%s: compaction failed, retrying later: %s", self.log.topic_partition, result
            )
            cleaner.finish(self)
        elif isinstance(result, BaseException):
            raise result
        else:
            job = job_of(self._chosen, result, cleaner.settings(), cleaner.clock.wall_ms())
            cleaner.worker.start(job, self._told)

    def _goes_on(self) -> bool:
        if not self._cleaner.is_running(self):
            return False
        if self.given_up:
            self._cleaner.finish(self)
            return False
        return True

    def _told(self, event: Event | Stopped) -> None:
        if self._cleaner.is_running(self):
            self._waiting.append(event)
            self._pump()

    def _pump(self) -> None:
        while self._waiting and not self._busy and self._cleaner.is_running(self):
            event = self._waiting.popleft()
            match event:
                case Cleaned():
                    self._swap(event)
                case Done():
                    self._done(event)
                case Damaged():
                    self._cleaner.mark_uncleanable(self.log.topic_partition, event.reason)
                    self._clean_up()
                case Stopped():
                    reason = self.given_up or event.reason
                    _logger.warning("%s: compaction stopped, retrying later: %s", self.log, reason)
                    self._clean_up()

    def _swap(self, cleaned: Cleaned) -> None:
        log, disk = self.log, self._cleaner.disk
        at = None if self.given_up else swap_segments.place_of(log, cleaned)
        if at is None or log.closed or not log.config.compacted:
            self.give_up("its segments or cleanup.policy changed")
            return
        try:
            gone = swap_segments.swap_in(log, cleaned, at)
        except StorageError:
            return  # the directory is fenced and has logged it
        self._busy = True

        def synced(result: BaseException | None) -> None:
            if isinstance(result, FileNotFoundError) and log.closed:
                result = None  # the log was deleted and its directory renamed
            if isinstance(result, OSError):
                log.context.fail(result, log.directory)
                return
            if isinstance(result, BaseException):
                raise result
            kept = cleaned.base_offset
            log.context.events.remove_later(
                log.config.file_delete_delay_ms, lambda: _remove(log, gone, kept)
            )
            self._busy = False
            self._pump()

        disk.run(lambda: disk.sync_directory(log.directory), synced)

    def _done(self, done: Done) -> None:
        if self.given_up:
            self._clean_up()
            return
        cleaner, log = self._cleaner, self.log
        seconds = cleaner.clock.monotonic() - self._began
        cleaner.count(done.counts, seconds)
        counts = done.counts
        _logger.info(
            "%s: compacted up to %d in %.1f s: %d of %d records and %d of %d bytes remain%s",
            log.topic_partition, done.end, seconds, counts.records_kept, counts.records_read,
            counts.bytes_written, counts.bytes_read,
            f"; removed {counts.keyless} records without a key" if counts.keyless else "",
        )  # fmt: skip
        cleaner.offsets[self.directory.path].entries[log.topic_partition] = Offset(done.end)
        cleaner.save(self.directory, lambda: cleaner.finish(self, go_on=True))

    def _clean_up(self) -> None:
        """Remove the `.cleaned` files of a compaction that did not complete."""
        directory, disk = self.log.directory, self._cleaner.disk

        def remove() -> None:
            for name in disk.list(directory):
                if name.endswith(file_names.CLEANED):
                    disk.remove(f"{directory}/{name}")

        def removed(result: BaseException | None) -> None:
            if isinstance(result, OSError) and not isinstance(result, FileNotFoundError):
                _logger.warning(
                    "%s: cannot remove a stopped compaction's files, the next start tries it: %s",
                    directory, result,
                )  # fmt: skip
            elif isinstance(result, BaseException) and not isinstance(result, OSError):
                raise result
            self._cleaner.finish(self)

        disk.run(remove, removed)

    def give_up(self, reason: str) -> None:
        """Stop the worker and discard its result; the log is compacted later."""
        if not self.given_up:
            self.given_up = reason
            self._cleaner.worker.stop()


def _remove(log: "Log", gone: "list[Segment]", kept: int) -> None:
    remove_files(log, gone)
    if log.closed:
        return
    try:
        remove_snapshots(
            log, [segment.base_offset for segment in gone if segment.base_offset != kept]
        )
    except OSError as error:
        log.context.fail(error, log.directory)
