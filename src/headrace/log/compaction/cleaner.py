"""`LogCleaner`: choose the log with the largest dirty share, have it compacted, store progress.

One log at a time, on the deciding thread:

    look -> choose -> `CompactionRun` -> done
    segments removed meanwhile (`about_to_cut`) -> retried later; damage -> not before a restart

A log is compacted only below its stored recovery point: a start after a crash checks what lies
above, where a gap made by compaction would look like a lost segment.

`plan` is imported with the first log of a compacted topic, `compaction_run` with the first log that
is due.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.log.compaction.cleaner_checkpoint import CleanerOffsets
from headrace.log.compaction.cleaner_settings import CleanerSettings
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import Offset, TopicPartition

if TYPE_CHECKING:
    from headrace.log.compaction.compaction_run import CompactionRun
    from headrace.log.compaction.job import Counts
    from headrace.log.compaction.plan import Cleanable
    from headrace.log.compaction.worker import Worker
    from headrace.log.directory.log_directory import LogDirectory
    from headrace.log.log import Log
    from headrace.ports.clock import Clock, Timer
    from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)
_SLICE_LOGS = 200


class LogCleaner:
    """The compaction of all log directories of one broker. For the deciding thread."""

    def __init__(
        self,
        directories: "Sequence[LogDirectory]",
        *,
        clock: "Clock",
        disk: "Disk",
        worker: "Worker",
        settings: Callable[[], CleanerSettings],
    ) -> None:
        """Make the cleaner; `settings` is called before each compaction and each pause."""
        self.settings = settings
        self.uncleanable: dict[TopicPartition, str] = {}
        """Logs that cannot be compacted, with the reason; skipped until the next start."""
        self.seconds = 0.0
        self.compactions = 0
        self.clock = clock
        self.disk = disk
        self.worker = worker
        self.offsets = {
            directory.path: CleanerOffsets(disk, directory.path) for directory in directories
        }
        """The progress of each log directory, by its path."""
        self._directories = directories
        self._run: CompactionRun | None = None
        self._looking = False
        self._timer: Timer | None = None
        self._closed = False

    @cached_property
    def counts(self) -> "Counts":
        """Totals over all compactions."""
        from headrace.log.compaction.job import Counts

        return Counts()

    # --- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the stored progress, then look for work every `backoff_ms` milliseconds."""
        for directory in self._directories:
            directory.listen(self)

        working = [each.path for each in self._directories if not each.fenced]

        def read() -> None:
            for path in working:
                self.offsets[path].read()

        def have_read(result: BaseException | None) -> None:
            if isinstance(result, BaseException):
                _logger.error(
                    "no log is compacted until the broker is restarted: the cleaner checkpoint"
                    " cannot be read: %s", result,
                )  # fmt: skip
            elif not self._closed:
                self._rest()

        self.disk.run(read, have_read)

    def close(self) -> None:
        """Stop compacting; the next start removes unfinished files."""
        self._closed = True
        self.worker.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.clock.call_later(self.settings().backoff_ms / 1000, self.look)

    # --- choosing ----------------------------------------------------------------------------

    def look(self) -> None:
        """Choose the log with the largest dirty share, 200 logs in each turn, and compact it."""
        if self._closed:
            return
        run = self._run
        if run is not None and run.directory.fenced:
            self._run = None  # its callbacks will not come
            self.worker.stop()
        if self._run is not None or self._looking or not self.settings().enabled:
            self._rest()
            return
        self._looking = True
        waiting = self._compacted()
        found: list[tuple[LogDirectory, Cleanable]] = []

        def next_slice() -> None:
            if self._closed:
                return
            for _ in range(_SLICE_LOGS):
                entry = next(waiting, None)
                if entry is None:
                    self._looking = False
                    self._choose(found)
                    return
                chosen = self._cleanable(*entry)
                if chosen is not None and chosen.due:
                    found.append((entry[0], chosen))
            self.clock.call_later(0, next_slice)

        next_slice()

    def _compacted(self) -> "Iterator[tuple[LogDirectory, Log]]":
        for directory in self._directories:
            for log in list(directory.logs.values()):
                if log.config.compacted and log.topic_partition not in self.uncleanable:
                    yield directory, log

    def _cleanable(self, directory: "LogDirectory", log: "Log") -> "Cleanable | None":
        from headrace.log.compaction.plan import cleanable

        if log.closed or log.cutting or directory.fenced:
            return None
        if log.flushed_offset < log.segments[-1].base_offset:
            directory.flusher.flush_soon(log)  # only flushed segments are compacted
        place = log.topic_partition
        checkpoint = self.offsets[directory.path].entries.get(place)
        try:
            return cleanable(log, checkpoint, self.clock.wall_ms(), directory.holds.first(place))
        except CorruptLogError as error:
            self.mark_uncleanable(place, str(error))
            return None

    def _choose(self, found: "list[tuple[LogDirectory, Cleanable]]") -> None:
        chosen = None
        if found:
            from headrace.log.compaction.compaction_run import CompactionRun
            from headrace.log.compaction.plan import filthiest

            chosen = filthiest([candidate for _, candidate in found])
        for directory, candidate in found:
            if candidate is chosen and not candidate.log.closed and not directory.fenced:
                self._run = CompactionRun(self, directory, candidate)
                self._rest()
                self._run.begin()
                return
        self._rest()

    def mark_uncleanable(self, place: TopicPartition, reason: str) -> None:
        """Skip a damaged log until the next start, and log the reason."""
        self.uncleanable[place] = reason
        _logger.error(
            "%s is damaged and cannot be compacted; it is skipped until the broker is restarted:"
            " %s", place, reason,
        )  # fmt: skip

    # --- one compaction ----------------------------------------------------------------------

    def is_running(self, run: "CompactionRun") -> bool:
        """Return whether `run` is the compaction in progress, and the cleaner is not closed."""
        return run is self._run and not self._closed

    def finish(self, run: "CompactionRun", *, go_on: bool = False) -> None:
        """End a compaction; with `go_on` look for the next log at once."""
        if run is not self._run:
            return
        self._run = None
        if go_on and not self._closed:
            self.clock.call_later(0, self.look)

    def save(self, directory: "LogDirectory", then: Callable[[], None]) -> None:
        """Write a directory's `cleaner-offset-checkpoint` on a thread, then call `then`."""
        offsets = self.offsets[directory.path]
        content = offsets.content({**directory.logs, **directory.quarantined})

        def written(result: BaseException | None) -> None:
            if isinstance(result, OSError):
                directory.context.fail(result, directory.path)
                return
            if isinstance(result, BaseException):
                raise result
            then()

        self.disk.run(lambda: offsets.write(content), written)

    def count(self, counts: "Counts", seconds: float) -> None:
        """Add a compaction's counts and its duration in seconds to the totals."""
        self.compactions += 1
        self.seconds += seconds
        for name in type(counts).__slots__:
            setattr(self.counts, name, getattr(self.counts, name) + getattr(counts, name))

    # --- giving up ---------------------------------------------------------------------------

    def about_to_cut(self, log: "Log", end: Offset | None) -> None:
        """Stop the compaction of `log`, as segments of it are removed, and lower its progress."""
        run = self._run
        if run is not None and run.log is log:
            run.give_up("segments of it are removed")
        for directory in self._directories:
            if directory.context is not log.context:
                continue
            entries = self.offsets[directory.path].entries
            known = entries.get(log.topic_partition)
            if end is None:
                self.uncleanable.pop(log.topic_partition, None)
                if entries.pop(log.topic_partition, None) is not None:
                    # Otherwise a new topic of that name would count as compacted.
                    self.save(directory, lambda: None)
            elif known is not None and known > end:
                entries[log.topic_partition] = end
