"""Write index entries of active segments to their files while the broker runs.

An append keeps its index entries in memory. `IndexWriter` appends them to `.index` and
`.timeindex` within a second, for Kafka's tools and for readers of the files. The files are not
flushed: after a crash the entries are rebuilt from the log. They are closed after each write, or
each partition with records would hold three file descriptors. For the same reason the log's small
files are flushed and closed then.
"""

from itertools import islice
from typing import TYPE_CHECKING

from headrace.log.directory.log_dir_context import LogDirContext
from headrace.log.log import Log
from headrace.ports.clock import Clock, Timer

if TYPE_CHECKING:
    from headrace.log.flusher import Flusher

DELAY_SECONDS = 1.0
"""Seconds that entries stay in memory, so that many appends to a partition share one write."""
_SLICE_LOGS = 64
"""Logs written in one turn of the event loop; 10,000 in one turn would block it for 0.5 s."""


class IndexWriter:
    """The writer of one directory's index entries: logs whose newest entries are in memory only."""

    __slots__ = ("_clock", "_context", "_flusher", "_stopped", "_timer", "_waiting")

    def __init__(self, context: LogDirContext[Log], clock: Clock, flusher: "Flusher") -> None:
        """Make a writer, which writes while no flush runs: flushes need open files."""
        self._context = context
        self._clock = clock
        self._flusher = flusher
        self._waiting: dict[Log, None] = {}
        self._timer: Timer | None = None
        self._stopped = False

    def write_soon(self, log: Log) -> None:
        """Write the index entries of the active segment of `log` within a second."""
        self._waiting[log] = None
        if self._timer is None and not self._stopped:
            self._timer = self._clock.call_later(DELAY_SECONDS, self._due)

    def stop(self) -> None:
        """Stop the timer; closing a log writes its remaining entries."""
        self._stopped = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._flusher.after_current(self._write_slice)

    def _write_slice(self) -> None:
        self._timer = None
        if self._stopped or self._context.failure is not None:
            return
        waiting = self._waiting
        cutting = []
        for log in list(islice(waiting, _SLICE_LOGS)):
            del waiting[log]
            if log.cutting:
                cutting.append(log)  # another thread uses its indexes
            elif log.closed:
                continue
            elif self._written(log):
                self._flusher.flush_small_files(log)
            else:
                return
        if waiting:
            self._timer = self._clock.call_later(0, self._due)
        for log in cutting:
            self.write_soon(log)

    def _written(self, log: Log) -> bool:
        """Write the entries of `log`; return False if that failed and the directory is fenced."""
        active = log.segments.active
        if not active.entries_due:
            return True
        try:
            active.write_out_indexes()
            active.close_indexes()
        except OSError as error:
            self._context.fail(error, active.index.path)
            return False
        return True
