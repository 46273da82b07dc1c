"""Group commit: one flush for all partitions of a log directory that wait.

`flush_soon` may be called any number of times in a turn of the loop; the flush begins when the turn
is over, takes everything appended until then, and while it runs the next one gathers. A flush that
fails fences the directory: after a failed fsync the page cache cannot be trusted (G14), so nothing
is tried again.

How the files reach the disk is a `Strategy`, replaceable and measured (bench).
"""

from collections.abc import Callable, Collection

from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.log import FlushWork, Log
from headrace.ports.callbacks import Done
from headrace.ports.clock import Clock, Timer
from headrace.ports.disk import Disk, DiskFile

GATHER_SECONDS = 0.001
"""How long `flush_later` may wait for more: so much later do records with acks 0 and 1 become
visible. Without it a stream of them keeps the disk flushing without a pause, for nobody."""

Strategy = Callable[[Disk, Collection[DiskFile], Done[OSError | None]], None]
Work = list[tuple[Log, FlushWork]]


def fdatasync_each(disk: Disk, files: Collection[DiskFile], done: Done[OSError | None]) -> None:
    """Leave it to the disk: it flushes each file, on threads of its own."""
    disk.flush(files, done)


class Flusher:
    """The one who says what is durable in a log directory."""

    __slots__ = (
        "_after",
        "_clock",
        "_closed",
        "_context",
        "_gathering",
        "_publish",
        "_running",
        "_scheduled",
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
        """`publish`: told of the logs of a flush before anybody is answered."""
        self._context = context
        self._clock = clock
        self._publish = publish
        self._waiting: dict[Log, None] = {}
        self._after: list[Callable[[], None]] = []
        self._scheduled = False
        self._running = False
        self._urgent = False
        self._closed = False
        self._gathering: Timer | None = None
        self.strategy = strategy
        self.flushes = 0
        """Flushes begun: for metrics and tests."""

    @property
    def idle(self) -> bool:
        """Whether nothing waits or runs."""
        return not (self._running or self._waiting)

    def flush_soon(self, log: Log) -> None:
        """Have all that `log` holds now made durable; its listeners are told when."""
        self._waiting[log] = None
        self._urgent = True
        if not (self._scheduled or self._running):
            self._schedule()

    def flush_later(self, log: Log) -> None:
        """Flush what nobody waits to be told of: let more gather before."""
        self._waiting[log] = None
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
        if self._context.failure is not None or self._running or not self._waiting:
            return
        if self._closed:
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
        else:  # all that waited has been closed or deleted meanwhile
            done(None)

    def _flush_directories(self, work: Work, directories: list[str]) -> None:
        # A file whose directory entry is lost is lost whatever its own fsync said. After the files:
        # no name is durable before what it stands for, and the journal has most of it by then.
        disk = self._context.disk

        # A partition deleted meanwhile has no directory of that name any more: it is skipped.
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
        # Before anybody is answered: who has an answer finds it in the files. One write for all.
        self._publish(logs)
        for log in logs:
            for listener in log.listeners:
                listener.log_readable()
        if self._waiting and not self._scheduled:
            self._schedule()

    def close(self) -> None:
        """Begin nothing more and let what runs end unheard: its files are closed under it.

        Whoever closes the logs flushes them himself; an error about a closed file fences nothing.
        """
        self._closed = True
        self._waiting.clear()
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None

    def _failed(self, error: OSError, path: str) -> None:
        self._settled()
        self._waiting.clear()
        self._context.fail(error, path, flush=True)

    def after_current(self, action: Callable[[], None]) -> None:
        """Do `action` when no flush is running: files under flush must not be closed."""
        if self._running:
            self._after.append(action)
        else:
            action()

    def _settled(self) -> None:
        self._running = False
        after, self._after = self._after, []
        for action in after:
            action()
