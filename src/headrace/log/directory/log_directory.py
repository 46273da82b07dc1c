"""`LogDirectory`: a `log.dir` with its lock, identity, logs, checkpoints and failure state.

    open (blocking: lock, meta.properties, checkpoints, clean-shutdown marker)
      -> load (all logs, several at once on threads) -> start (periodic work) -> close
    any disk error -> fenced until a restart: appends raise `failure`, `on_failure` callbacks run

Files of others and `-stray` directories are not changed.
"""

import errno
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from headrace.config.log_config import LogConfig
from headrace.log import file_names, text_files
from headrace.log.directory.directory_loader import DirectoryLoader, make_durably
from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.directory.future_logs import FutureLogs
from headrace.log.directory.housekeeping import Housekeeping
from headrace.log.directory.leaving_logs import LeavingLogs
from headrace.log.directory.new_log import PREPARED_OPEN_MAX, NewLog, create_log, create_logs
from headrace.log.directory.periods import Periods
from headrace.log.directory.scrub import Scrub
from headrace.log.directory.state_files.meta_properties import Identity, read_identity
from headrace.log.directory.stray_logs import StrayLog
from headrace.log.directory.thinning import Thinning
from headrace.log.directory.truncate_logs import Truncations
from headrace.log.flusher import Strategy, fdatasync_each
from headrace.log.log import Log
from headrace.model.errors import ConfigError, StorageError
from headrace.model.invariant import invariant
from headrace.model.nouns import Offset, TopicPartition
from headrace.ports.clock import Clock, Random
from headrace.ports.disk import Disk

__all__ = ["LogDirectory", "Periods", "read_identity"]

_logger = logging.getLogger(__name__)
AT_REST_EVERY = 12
"""Unchanged logs are written with every 12th checkpoint: once a minute."""


class LogDirectoryListener(Protocol):
    """An observer that is notified before segments of a log are removed."""

    def about_to_cut(self, log: Log, end: Offset | None) -> None:
        """Note that segments of `log` are removed; it will end at `end` (None: all removed)."""


class LogDirectory:
    """A log directory and its logs. For the deciding thread. See `LogDirectoryEvents`."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        path: str,
        *,
        periods: Periods,
        strategy: Strategy,
    ) -> None:
        """Make an unopened directory object; callers use `open`."""
        parts = DirectoryParts(
            disk, clock, random, path, periods=periods, strategy=strategy, events=self
        )
        self._parts = parts
        self.path = path
        self.disk = disk
        self.clock = clock
        self.random = random
        self.context = parts.context
        self.flusher = parts.flusher
        self.flush_soon = self.flusher.flush_soon
        self.write_indexes_soon = parts.index_writer.write_soon
        self.holds = parts.context.holds
        self.logs = parts.logs
        self.quarantined = parts.quarantined
        self.missing = parts.missing
        self.checkpoints = parts.checkpoints
        self.at_rest = parts.at_rest
        self.bounds = parts.bounds
        self.publish = self.bounds.publish
        self.published_end = self.bounds.end_of
        self.gaps = parts.gaps
        self.allow_gap, self.gaps_below = self.gaps.allow, self.gaps.below
        self.loader = DirectoryLoader(parts)
        self.load = self.loader.load
        self.load_blocking = self.loader.load_blocking
        self.found = self.loader.found
        self.refused = self.loader.refused
        self.identity = Identity()
        self.scrub = Scrub(parts)
        truncations = self._truncations = Truncations(parts, self.checkpoint)
        self.truncate_logs, self.reset_logs = truncations.truncate, truncations.reset
        self._thinning = Thinning(parts, self.checkpoint)
        self._housekeeping = Housekeeping(parts, self.checkpoint, self._thinning)
        self.retain_soon = self._housekeeping.retain_soon
        self.remove_later = self._housekeeping.remove_later
        leaving = LeavingLogs(parts, self.checkpoint, self.remove_later)
        self.delete_log = leaving.delete_log
        self.set_aside = leaving.set_aside
        self.futures = FutureLogs(parts, self.checkpoint, self.remove_later)
        """Copies of logs that are moving here from other directories of the broker."""
        self._listeners: tuple[LogDirectoryListener, ...] = ()
        self._failure_listeners: tuple[Callable[[OSError], None], ...] = ()
        self._prepared: dict[TopicPartition, Log] = {}
        self._unlock: Callable[[], None] | None = None
        self._is_new = False
        """Whether `open` created the directory."""
        self._closed = False
        self._checkpoints = 0

    @classmethod
    def open(
        cls,
        disk: Disk,
        clock: Clock,
        random: Random,
        path: str,
        *,
        broker_id: int,
        cluster_id: str,
        accepted: bool = False,
        periods: Periods | None = None,
        strategy: Strategy = fdatasync_each,
    ) -> "LogDirectory":
        """Lock and open a log directory, creating it if missing; logs are loaded later. Blocking.

        `accepted`: a directory of another cluster joins `cluster_id`. ConfigError: another process
        uses the directory, or it belongs to another broker or cluster. Raises CorruptLogError,
        OSError.
        """
        self = cls(disk, clock, random, path, periods=periods or Periods(), strategy=strategy)
        self._is_new = not disk.exists(path)
        make_durably(disk, path)
        try:
            self._unlock = disk.lock(f"{path}/{file_names.LOCK}")
        except BlockingIOError as held:
            holder = held.strerror or "another process"
            raise ConfigError(
                f"log.dirs={path}: in use by {holder}: stop that process (headrace stop --data"
                f" {path}) or use another directory"
            ) from None
        try:
            self.identity = Identity.claim(disk, path, broker_id, cluster_id, accepted=accepted)
            marker = f"{path}/{file_names.CLEAN_SHUTDOWN}"
            loader = self.loader
            loader.was_clean = disk.exists(marker)
            self.gaps.read()
            loader.know_the_boot()
            self.checkpoints.read(used_before=loader.used_before)
            self.at_rest.read(clean=loader.was_clean)
            self.bounds.open()
            if loader.was_clean:
                disk.remove(marker)
                disk.sync_directory(path)
        except BaseException:
            self._unlock()
            raise
        return self

    @property
    def strays(self) -> list[StrayLog]:
        """The `-stray` directories, found at the start or set aside since."""
        return self._parts.strays

    @property
    def failure(self) -> StorageError | None:
        """The error that fenced the directory; None while it works."""
        return self.context.failure

    @property
    def fenced(self) -> bool:
        """Whether a disk error has fenced the directory."""
        return self.context.failure is not None

    # --- listeners and events ----------------------------------------------------------------

    def listen(self, listener: LogDirectoryListener) -> None:
        """Notify `listener` before segments of a log are removed."""
        self._listeners = (*self._listeners, listener)

    def on_failure(self, told: Callable[[OSError], None]) -> None:
        """Call `told` once, with the error, when the directory is fenced."""
        self._failure_listeners = (*self._failure_listeners, told)

    def failed(self, error: OSError, path: str) -> None:
        """Log the error that fenced the directory and call the failure listeners."""
        _logger.critical("%s: %s; directory %s is fenced until a restart", path, error, self.path)
        if self.context.unflushed:
            self.disk.run(self.loader.doubt, lambda _: None)
        for told in self._failure_listeners:
            told(error)

    def about_to_cut(self, log: Log, end: Offset | None) -> None:
        """Notify the listeners that segments of `log` are being removed."""
        for listener in self._listeners:
            listener.about_to_cut(log, end)

    def gap_appended(self, log: Log, below: Offset) -> None:
        """Record a gap that is about to be appended; durable with the log's next flush."""
        try:
            file = self.gaps.note(log.topic_partition, below, ahead=True)
        except OSError as error:
            raise self.context.fail(error, self.path) from error
        if file is not None:
            log.unflushed.add_file(file)
            log.unflushed.add_directory(self.path)

    def start_moved(self) -> None:
        """Write a checkpoint, as DeleteRecords moved a log's start."""
        self.checkpoint()

    def let_go(self, log: Log, below: Offset) -> None:
        """Delete segments below the log's start, and middle segments that no hold needs."""
        if log.closed or log.cutting or self.fenced:
            return
        from headrace.log.retention import delete_below_start, unwanted

        with suppress(StorageError):  # the directory is fenced and has logged it
            delete_below_start(log)
        self._thinning.thin(log, partial(unwanted, below=below))

    # --- partitions come and go --------------------------------------------------------------

    def prepare_logs(
        self,
        wanted: Sequence[NewLog],
        done: Callable[[BaseException | None], None],
    ) -> None:
        """Create the files of new logs on a thread; `create_log` then adds them to the directory.

        Creating a file may block on the file system's journal. `create_log` retries what failed,
        and raises the error.
        """
        missing = [
            new
            for new in wanted
            if new.topic_partition not in self.logs
            and not self.refused(new.topic_partition, new.topic_id)
        ]
        for new in missing:
            # Before the directory exists: entries of a former topic of that name must not apply.
            self.bounds.add(new.topic_id, new.topic_partition.partition)

        def made(result: list[Log] | BaseException) -> None:
            if isinstance(result, BaseException):
                done(result)
                return
            self._prepared.update((log.topic_partition, log) for log in result)
            done(None)

        if self.fenced or not missing:
            done(None)
        else:
            close = len(self._prepared) + len(missing) > PREPARED_OPEN_MAX
            make = partial(create_logs, self.context, self.path, missing, close=close)
            self.disk.run(make, made)

    def prepared(self, partition: TopicPartition) -> bool:
        """Return whether `prepare_logs` has created the files of this partition."""
        return partition in self._prepared

    def create_log(
        self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig
    ) -> Log:
        """Add a new, empty log and request its first flush, which makes it durable.

        StorageError: the directory has failed. CorruptLogError: the partition is out of service.
        OSError: the process has too many open files, which is no fault of the disk.
        """
        if self.context.failure is not None:
            raise self.context.failure
        refused = self.refused(topic_partition, topic_id)
        if refused is not None:
            raise refused
        invariant(topic_partition not in self.logs, f"{topic_partition} exists already")
        path = f"{self.path}/{topic_partition}"
        log = self._prepared.pop(topic_partition, None)
        if log is None:
            # Before the directory exists: entries of a former topic of that name must not apply.
            self.bounds.add(topic_id, topic_partition.partition)
            if self.context.failure is not None:
                raise self.context.failure
            try:
                log = create_log(self.context, path, topic_partition, topic_id, config)
            except OSError as error:
                if error.errno in {errno.EMFILE, errno.ENFILE}:
                    raise
                raise self.context.fail(error, path) from error
        self.checkpoints.forget(topic_partition)
        self.logs[topic_partition] = log
        self.flusher.flush_soon(log)
        return log

    # --- duties ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the periodic work: checkpoints, retention, producer expiry, removals, scrub."""
        if self.fenced:
            return
        for partition in self.missing:
            self.checkpoints.forget(partition)
        self.missing.clear()
        if not self.quarantined:
            self.bounds.keep_only(self.logs.values())
        self.bounds.publish(self.logs.values())
        self.at_rest.forget(self.quarantined)
        if self.quarantined:
            self.at_rest.write_soon(self.logs.values(), self.clock)
        self._housekeeping.start()
        self.scrub.start()

    def end_duties(self) -> None:
        """Stop the periodic work; running jobs have ended when `writing` is False."""
        self._housekeeping.stop()
        self.scrub.stop()
        self.futures.end()

    @property
    def writing(self) -> bool:
        """Whether a thread is writing files of the directory itself.

        `close` writes the same files: before a clean close wait until this is False.
        """
        running = self._truncations.running or self.futures.running
        files = self.checkpoints.writing or self.at_rest.writing or self.gaps.writing
        return bool(files or running)

    def reconfigure(self, periods: Periods) -> None:
        """Use new periods, each from its timer's next run on."""
        self._housekeeping.reconfigure(periods)

    def apply_retention(self) -> None:
        """Apply retention to every log now."""
        self._housekeeping.retain_all()

    def make_room(self) -> None:
        """Apply retention to every log soon, and remove deleted files without their delay."""
        self._housekeeping.make_room()

    def checkpoint(self, done: Callable[[bool], None] | None = None) -> None:
        """Write the changed checkpoints on a thread; `done` as in `Checkpoints.write_soon`."""
        if self.bounds.changed and not self.fenced:
            self.disk.run(self.bounds.sync, self._bounds_synced)
        self.checkpoints.write_soon(self.logs, done)
        self._checkpoints += 1
        if self._checkpoints % AT_REST_EVERY == 0 and not self.fenced and not self._closed:
            self.at_rest.write_soon(self.logs.values(), self.clock)

    def _bounds_synced(self, result: BaseException | None) -> None:
        if isinstance(result, OSError) and not self._closed:
            self.context.fail(result, self.path)

    def sizes(self) -> Mapping[TopicPartition, int]:
        """Return the size in bytes of each partition's segments (DescribeLogDirs)."""
        return {at: sum(segment.size for segment in log.segments) for at, log in self.logs.items()}

    def close(self, clean: bool = True, *, withdrawn: bool = False) -> None:
        """Close all logs, write the checkpoints and, if that succeeds, the clean-shutdown marker.

        Blocking. `clean=False` leaves the directory as a kill would. `withdrawn`: the start failed;
        a directory that it created is removed.
        """
        if self._closed:
            return
        self._closed = True
        self.flusher.close()
        self.futures.close()
        self.end_duties()
        try:
            for log in self.logs.values():
                log.close(clean)
            if clean and not self.fenced:
                self.checkpoints.write_now(self.logs)
                self.at_rest.write_last(self.logs.values())
                if not self.quarantined:
                    # Without the marker the next start examines the damaged logs again.
                    marker = f"{self.path}/{file_names.CLEAN_SHUTDOWN}"
                    self.disk.replace(marker, text_files.write_clean_shutdown())
                    self.bounds.close(remove=True)
        except OSError as error:
            raise self.context.fail(error, self.path, flush=True) from error
        finally:
            for log in self.logs.values():
                log.close(clean=False)
            self.bounds.close(remove=False)
            if clean and self.context.unflushed:
                self.loader.doubt()
            if withdrawn and self._is_new:
                with suppress(OSError):  # what cannot be removed stays; no client has used it
                    self.disk.remove_tree(self.path)
            if self._unlock is not None:
                self._unlock()
