"""`LogCleaner`: compact the log with the largest dirty share, swap the result in, store progress.

One log at a time, on the deciding thread; steps in brackets run elsewhere:

    look -> choose -> checkpoint -> gaps noted -> [prepare] -> [worker] -> swap each segment -> done
    segments removed meanwhile (`about_to_cut`) -> retried later; damage -> not before a restart

A log is compacted only below its stored recovery point: a start after a crash checks what lies
above, where a gap made by compaction would look like a lost segment.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.log import file_names
from headrace.log.compaction import swap_segments
from headrace.log.compaction.cleaner_checkpoint import CleanerOffsets
from headrace.log.compaction.job import Aborted, Cleaned, Counts, Damaged, Done, Event, Stopped
from headrace.log.compaction.order import CleanerSettings, job_of, prepare
from headrace.log.compaction.plan import Cleanable, cleanable, filthiest
from headrace.log.retention import remove_files, remove_snapshots
from headrace.model.errors import CorruptLogError, StorageError
from headrace.model.nouns import Offset, TopicPartition

if TYPE_CHECKING:
    from headrace.log.compaction.worker import Worker
    from headrace.log.directory.log_directory import LogDirectory
    from headrace.log.log import Log
    from headrace.log.segment.segment import Segment
    from headrace.ports.clock import Clock, Timer
    from headrace.ports.disk import Disk

_logger = logging.getLogger(__name__)
_SLICE_LOGS = 200


@dataclass(slots=True)
class _Run:
    """The compaction in progress."""

    directory: "LogDirectory"
    chosen: Cleanable
    began: float
    waiting: deque[Event | Stopped] = field(default_factory=deque)
    busy: bool = False
    """Whether a swap waits for a directory fsync; later events wait too."""
    working: bool = False
    """Whether the worker is running and will report an end."""
    given_up: str = ""

    @property
    def log(self) -> "Log":
        return self.chosen.log


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
        self._settings = settings
        self.uncleanable: dict[TopicPartition, str] = {}
        """Logs that cannot be compacted, with the reason; skipped until the next start."""
        self.counts = Counts()
        """Totals over all compactions."""
        self.seconds = 0.0
        self.compactions = 0
        self._directories = directories
        self._clock = clock
        self._disk = disk
        self._worker = worker
        self._offsets = {
            directory.path: CleanerOffsets(disk, directory.path) for directory in directories
        }
        self._run: _Run | None = None
        self._looking = False
        self._timer: Timer | None = None
        self._closed = False

    # --- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the stored progress, then look for work every `backoff_ms` milliseconds."""
        for directory in self._directories:
            directory.listen(self)

        working = [each.path for each in self._directories if not each.fenced]

        def read() -> None:
            for path in working:
                self._offsets[path].read()

        def have_read(result: BaseException | None) -> None:
            if isinstance(result, BaseException):
                _logger.error(
                    "no log is compacted until the broker is restarted: the cleaner checkpoint"
                    " cannot be read: %s", result,
                )  # fmt: skip
            elif not self._closed:
                self._rest()

        self._disk.run(read, have_read)

    def close(self) -> None:
        """Stop compacting; the next start removes unfinished files."""
        self._closed = True
        self._worker.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(self._settings().backoff_ms / 1000, self.look)

    # --- choosing ----------------------------------------------------------------------------

    def look(self) -> None:
        """Choose the log with the largest dirty share, 200 logs in each turn, and compact it."""
        if self._closed:
            return
        run = self._run
        if run is not None and run.directory.fenced:
            self._run = None  # its callbacks will not come
            self._worker.stop()
        if self._run is not None or self._looking or not self._settings().enabled:
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
            self._clock.call_later(0, next_slice)

        next_slice()

    def _compacted(self) -> "Iterator[tuple[LogDirectory, Log]]":
        for directory in self._directories:
            for log in list(directory.logs.values()):
                if log.config.compacted and log.topic_partition not in self.uncleanable:
                    yield directory, log

    def _cleanable(self, directory: "LogDirectory", log: "Log") -> Cleanable | None:
        if log.closed or log.cutting or directory.fenced:
            return None
        if log.flushed_offset < log.segments[-1].base_offset:
            directory.flusher.flush_soon(log)  # only flushed segments are compacted
        place = log.topic_partition
        checkpoint = self._offsets[directory.path].entries.get(place)
        try:
            return cleanable(log, checkpoint, self._clock.wall_ms(), directory.holds.first(place))
        except CorruptLogError as error:
            self._mark_uncleanable(place, str(error))
            return None

    def _choose(self, found: "list[tuple[LogDirectory, Cleanable]]") -> None:
        chosen = filthiest([candidate for _, candidate in found])
        for directory, candidate in found:
            if candidate is chosen and not candidate.log.closed and not directory.fenced:
                self._begin(directory, candidate)
                return
        self._rest()

    def _mark_uncleanable(self, place: TopicPartition, reason: str) -> None:
        self.uncleanable[place] = reason
        _logger.error(
            "%s is damaged and cannot be compacted; it is skipped until the broker is restarted:"
            " %s", place, reason,
        )  # fmt: skip

    # --- one compaction ----------------------------------------------------------------------

    def _begin(self, directory: "LogDirectory", chosen: Cleanable) -> None:
        run = self._run = _Run(directory, chosen, self._clock.monotonic())
        self._rest()

        def checkpointed(is_written: bool) -> None:
            if is_written and self._goes_on(run):
                # Durable before the first segment is swapped in: a start then accepts the gaps.
                directory.gaps.allow(run.log.topic_partition, chosen.upper)
                directory.gaps.write_soon(noted)

        def noted(error: OSError | None) -> None:
            if error is None and self._goes_on(run):
                self._disk.run(lambda: prepare(chosen), prepared)
            elif error is not None:
                prepared(error)

        def prepared(result: Aborted | BaseException) -> None:
            if isinstance(result, CorruptLogError):
                self._mark_uncleanable(run.log.topic_partition, str(result))
                self._finish(run)
            elif isinstance(result, FileNotFoundError) or not self._goes_on(run):
                self._finish(run)
            elif isinstance(result, OSError):
                _logger.warning(
                    "%s: compaction failed, retrying later: %s",
                    run.log.topic_partition, result,
                )  # fmt: skip
                self._finish(run)
            elif isinstance(result, BaseException):
                raise result
            else:
                run.working = True
                job = job_of(chosen, result, self._settings(), self._clock.wall_ms())
                self._worker.start(job, lambda event: self._told(run, event))

        directory.checkpoint(checkpointed)

    def _goes_on(self, run: _Run) -> bool:
        if run is not self._run or self._closed:
            return False
        if run.given_up:
            self._finish(run)
            return False
        return True

    def _told(self, run: _Run, event: Event | Stopped) -> None:
        if run is self._run and not self._closed:
            run.waiting.append(event)
            self._pump(run)

    def _pump(self, run: _Run) -> None:
        while run.waiting and not run.busy and run is self._run and not self._closed:
            event = run.waiting.popleft()
            match event:
                case Cleaned():
                    self._swap(run, event)
                case Done():
                    run.working = False
                    self._done(run, event)
                case Damaged():
                    run.working = False
                    self._mark_uncleanable(run.log.topic_partition, event.reason)
                    self._clean_up(run)
                case Stopped():
                    run.working = False
                    reason = run.given_up or event.reason
                    _logger.warning(
                        "%s: compaction stopped, retrying later: %s",
                        run.log, reason,
                    )  # fmt: skip
                    self._clean_up(run)

    def _swap(self, run: _Run, cleaned: Cleaned) -> None:
        log = run.log
        at = None if run.given_up else swap_segments.place_of(log, cleaned)
        if at is None or log.closed or not log.config.compacted:
            self._give_up(run, "its segments or cleanup.policy changed")
            return
        try:
            gone = swap_segments.swap_in(log, cleaned, at)
        except StorageError:
            return  # the directory is fenced and has logged it
        run.busy = True

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
            run.busy = False
            self._pump(run)

        self._disk.run(lambda: self._disk.sync_directory(log.directory), synced)

    def _done(self, run: _Run, done: Done) -> None:
        if run.given_up:
            self._clean_up(run)
            return
        directory, log = run.directory, run.log
        seconds = self._clock.monotonic() - run.began
        self._count(done.counts, seconds)
        counts = done.counts
        _logger.info(
            "%s: compacted up to %d in %.1f s: %d of %d records and %d of %d bytes remain%s",
            log.topic_partition, done.end, seconds, counts.records_kept, counts.records_read,
            counts.bytes_written, counts.bytes_read,
            f"; removed {counts.keyless} records without a key" if counts.keyless else "",
        )  # fmt: skip
        offsets = self._offsets[directory.path]
        offsets.entries[log.topic_partition] = Offset(done.end)
        self._save(directory, lambda: self._finish(run, go_on=True))

    def _save(self, directory: "LogDirectory", then: Callable[[], None]) -> None:
        """Write a directory's `cleaner-offset-checkpoint` on a thread, then call `then`."""
        offsets = self._offsets[directory.path]
        content = offsets.content({**directory.logs, **directory.quarantined})

        def written(result: BaseException | None) -> None:
            if isinstance(result, OSError):
                directory.context.fail(result, directory.path)
                return
            if isinstance(result, BaseException):
                raise result
            then()

        self._disk.run(lambda: offsets.write(content), written)

    def _count(self, counts: Counts, seconds: float) -> None:
        self.compactions += 1
        self.seconds += seconds
        for name in Counts.__slots__:
            setattr(self.counts, name, getattr(self.counts, name) + getattr(counts, name))

    def _finish(self, run: _Run, *, go_on: bool = False) -> None:
        if run is not self._run:
            return
        self._run = None
        if go_on and not self._closed:
            self._clock.call_later(0, self.look)

    def _clean_up(self, run: _Run) -> None:
        """Remove the `.cleaned` files of a compaction that did not complete."""
        directory = run.log.directory

        def remove() -> None:
            for name in self._disk.list(directory):
                if name.endswith(file_names.CLEANED):
                    self._disk.remove(f"{directory}/{name}")

        def removed(result: BaseException | None) -> None:
            if isinstance(result, OSError) and not isinstance(result, FileNotFoundError):
                _logger.warning(
                    "%s: cannot remove a stopped compaction's files, the next start tries it: %s",
                    directory, result,
                )  # fmt: skip
            elif isinstance(result, BaseException) and not isinstance(result, OSError):
                raise result
            self._finish(run)

        self._disk.run(remove, removed)

    # --- giving up ---------------------------------------------------------------------------

    def _give_up(self, run: _Run, reason: str) -> None:
        if not run.given_up:
            run.given_up = reason
            self._worker.stop()

    def about_to_cut(self, log: "Log", end: Offset | None) -> None:
        """Stop the compaction of `log`, as segments of it are removed, and lower its progress."""
        run = self._run
        if run is not None and run.log is log:
            self._give_up(run, "segments of it are removed")
        for directory in self._directories:
            if directory.context is not log.context:
                continue
            entries = self._offsets[directory.path].entries
            known = entries.get(log.topic_partition)
            if end is None:
                self.uncleanable.pop(log.topic_partition, None)
                if entries.pop(log.topic_partition, None) is not None:
                    # Otherwise a new topic of that name would count as compacted.
                    self._save(directory, lambda: None)
            elif known is not None and known > end:
                entries[log.topic_partition] = end


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
