"""Group commit: one flush for all partitions of a log directory that have unflushed records.

    idle ── flush_soon ──> scheduled ── end of the loop's turn ──> running ── done ──> idle
      └──── flush_later ─> gathering ── GATHER_SECONDS or flush_soon ──┘  └─ error ──> fenced

A flush includes everything appended until it begins; appends during a flush join the next one. A
failed flush fences the directory and is not retried: after a failed fsync the page cache may hold
pages marked clean that never reached the disk.

A `Strategy` decides how files are flushed; `bench` measures the alternatives.
"""

from collections.abc import Callable, Collection

from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.log import FlushWork, Log
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock, Timer
from headrace.ports.disk import Disk, DiskFile

GATHER_SECONDS = 0.001
"""Seconds that `flush_later` waits for more appends before it flushes.

Records with acks 0 and 1 become visible that much later. Without the wait, a stream of such records
would keep the disk flushing without a pause.
"""

Strategy = Callable[[Disk, Collection[DiskFile], Done[OSError | None]], None]
Work = list[tuple[Log, FlushWork]]


def fdatasync_each(disk: Disk, files: Collection[DiskFile], done: Done[OSError | None]) -> None:
    """Flush each file on the disk's own threads: the default `Strategy`."""
    disk.flush(files, done)


class Flusher:
    """The group commit of one log directory: flushes logs and reports what is durable."""

    __slots__ = (
        "_after",
        "_clock",
        "_closed",
        "_context",
        "_gathering",
        "_publish",
        "_running",
        "_scheduled",
        "_small",
        "_small_open",
        "_urgent",
        "_waiting",
        "flushes",
        "strategy",
    )

    def __init__(
        self,
        context: LogDirContext[Log],
        clock: Clock,
        publish: Callable[[Collection[Log]], None],
        strategy: Strategy = fdatasync_each,
    ) -> None:
        """Make a flusher; `publish` gets the logs of each flush before any client is answered."""
        self._context = context
        self._clock = clock
        self._publish = publish
        self._waiting: dict[Log, None] = {}
        self._small: dict[Log, None] = {}
        """Logs of which small files alone are to be flushed."""
        self._small_open: list[DiskFile] = []
        """Their files that the running flush includes."""
        self._after: list[Callable[[], None]] = []
        self._scheduled = False
        self._running = False
        self._urgent = False
        self._closed = False
        self._gathering: Timer | None = None
        self.strategy = strategy
        self.flushes = 0
        """Number of flushes begun, for metrics and tests."""

    @property
    def idle(self) -> bool:
        """Whether no flush runs and no log waits for one."""
        return not (self._running or self._waiting)

    def flush_soon(self, log: Log) -> None:
        """Flush all that `log` holds as soon as possible; its listeners are notified when it is
        durable."""
        self._waiting[log] = None
        self._urgent = True
        if not (self._scheduled or self._running):
            self._schedule()

    def flush_later(self, log: Log) -> None:
        """Flush `log` within GATHER_SECONDS, for records whose producers wait for no flush."""
        self._waiting[log] = None
        if not (self._scheduled or self._running or self._gathering):
            self._schedule()

    def flush_small_files(self, log: Log) -> None:
        """Flush and close the small files of `log` soon; its records may wait for a flush longer.

        With log.flush.on.ack=false each partition would have one open until its records' flush.
        """
        if log.unflushed.small_files:
            self._small[log] = None
            if not (self._scheduled or self._running or self._gathering):
                self._schedule()

    def _schedule(self) -> None:
        if self._urgent:
            if self._gathering is not None:
                self._gathering.cancel()
                self._gathering = None
            self._scheduled = True
            self._clock.call_later(0, self._begin)
        elif self._gathering is None:
            self._gathering = self._clock.call_later(GATHER_SECONDS, self._begin)

    def _begin(self) -> None:
        self._scheduled = self._urgent = False
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._context.failure is not None or self._running or self._closed:
            return
        if not (self._waiting or self._small):
            return
        waiting, self._waiting = self._waiting, {}
        work: Work = []
        files: list[DiskFile] = []
        directories: list[str] = []
        for log in waiting:
            if not (log.closed or log.cutting):
                part = log.flush_work()
                work.append((log, part))
                files += part.files
                directories += part.directories
        small, self._small = self._small, {}
        for log in small:
            if not (log.closed or log.cutting):
                directories += log.unflushed.take_small_files(self._small_open)
        files += self._small_open
        self._running = True
        self.flushes += 1
        self._flush_files(work, files, directories)

    def _flush_files(self, work: Work, files: list[DiskFile], directories: list[str]) -> None:
        def done(error: OSError | None) -> None:
            if self._closed:
                self._settled()
            elif error is not None:
                self._failed(error, files[0].path)
            elif directories:
                self._flush_directories(work, directories)
            else:
                self._flushed(work)

        if files:
            self.strategy(self._context.disk, files, done)
        else:  # all logs that waited have been closed or deleted
            done(None)

    def _flush_directories(self, work: Work, directories: list[str]) -> None:
        # A file whose directory entry is lost is lost even if its own fsync succeeded. Directories
        # go after the files, so that no name is durable before its content; the file system's
        # journal has written most of it by then.
        disk = self._context.disk

        # A partition deleted during the flush has no such directory any longer; it is skipped.
        paths = list(dict.fromkeys(directories))

        def done(result: BaseException | None) -> None:
            if self._closed:
                self._settled()
            elif isinstance(result, OSError):
                self._failed(result, directories[0])
            elif isinstance(result, BaseException):
                raise result
            else:
                self._flushed(work)

        disk.run(lambda: disk.sync_directories(paths), done)

    def _flushed(self, work: Work) -> None:
        self._settled()
        now_ms = self._clock.wall_ms()
        logs = []
        for log, part in work:
            log.flushed(part, now_ms)
            logs.append(log)
        # Publish before any answer leaves, so an answered client finds its records in the files.
        # One write serves all logs.
        self._publish(logs)
        for log in logs:
            for listener in log.listeners:
                listener.log_readable()
        if (self._waiting or self._small) and not self._scheduled:
            self._schedule()

    def close(self) -> None:
        """Refuse further flushes, and ignore the result of a running one: its files get closed.

        The caller that closes the logs flushes them itself; an error about a closed file fences
        nothing.
        """
        self._closed = True
        self._waiting.clear()
        self._small.clear()
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None

    def _failed(self, error: OSError, path: str) -> None:
        self._settled()
        self._waiting.clear()
        self._context.fail(error, path, flush=True)

    def after_current(self, action: Callable[[], None]) -> None:
        """Call `action` once no flush runs, as files under flush must not be closed."""
        if self._running:
            self._after.append(action)
        else:
            action()

    def _settled(self) -> None:
        self._running = False
        small, self._small_open = self._small_open, []
        for file in small:
            file.close()
        after, self._after = self._after, []
        for action in after:
            action()
