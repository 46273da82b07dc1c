"""`Housekeeping`: a log directory's periodic checkpoints, retention and producer expiry."""

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from headrace.log.directory.directory_parts import DirectoryParts
from headrace.log.directory.periods import Periods
from headrace.log.directory.thinning import Thinning
from headrace.log.log import Log
from headrace.model.errors import StorageError

if TYPE_CHECKING:
    from headrace.ports.clock import Timer

_SLICE_LOGS = 100


class Housekeeping:
    """The timers of one log directory; their number does not depend on its partitions."""

    __slots__ = (
        "_checkpoint", "_directory", "_removal_timer", "_removals", "_sequence", "_thinning",
        "_timers",
    )  # fmt: skip

    def __init__(
        self, directory: DirectoryParts, checkpoint: Callable[[], None], thinning: Thinning
    ) -> None:
        """Make the timers; `checkpoint` writes the checkpoints on a thread."""
        self._directory = directory
        self._checkpoint = checkpoint
        self._thinning = thinning
        self._removals: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._removal_timer: Timer | None = None
        self._timers: dict[str, Timer] = {}

    def start(self) -> None:
        """Start the periodic checkpoints, retention and producer expiry."""
        self._every("checkpoint", self._directory.periods.checkpoint_ms, self._checkpoint)
        self._every("retention", self._directory.periods.retention_check_ms, self.retain_soon)
        self._every("expiry", self._directory.periods.producer_expiry_check_ms, self._expire_soon)

    def reconfigure(self, periods: Periods) -> None:
        """Use new periods, each from its timer's next run on."""
        self._directory.periods = periods

    def stop(self) -> None:
        """Cancel all timers; pending file removals are left to the next start."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._removal_timer is not None:
            self._removal_timer.cancel()
            self._removal_timer = None
        self._removals.clear()
        self._directory.index_writer.stop()

    def _every(self, name: str, period_ms: int, duty: Callable[[], None]) -> None:
        def again() -> None:
            if not self._directory.fenced:
                self._every(name, period_ms, duty)
                duty()

        self._timers[name] = self._directory.clock.call_later(period_ms / 1000, again)

    # --- retention ---------------------------------------------------------------------------

    def retain_all(self) -> None:
        """Apply retention to every log in one call."""
        for log in list(self._directory.logs.values()):
            self._retain(log)

    def retain_soon(self) -> None:
        """Apply retention to all logs, 100 in each turn of the event loop."""
        self._in_slices("slice", self._retain)

    def _in_slices(self, name: str, duty: Callable[[Log], None]) -> None:
        waiting = list(self._directory.logs.values())

        def next_slice() -> None:
            for log in waiting[:_SLICE_LOGS]:
                duty(log)
            del waiting[:_SLICE_LOGS]
            self._timers.pop("slice", None)
            if waiting and not self._directory.fenced:
                self._timers[name] = self._directory.clock.call_later(0, next_slice)

        next_slice()

    def make_room(self) -> None:
        """Apply retention soon, and remove deleted files now instead of after their delay."""
        self._removals = [(0.0, number, removal) for _, number, removal in sorted(self._removals)]
        self._arm()
        if "slice" not in self._timers:
            self.retain_soon()

    def _retain(self, log: Log) -> None:
        directory = self._directory
        if log.closed or log.cutting or directory.fenced:
            return
        from headrace.log import retention  # the first time is minutes after the start

        now_ms = directory.clock.wall_ms()
        try:
            retention.apply_retention(log, now_ms)
        except StorageError:
            return  # the directory is fenced and has logged it
        if log.context.holds.first(log.topic_partition) is not None:
            self._thinning.thin(log, partial(retention.past_retention, now_ms=now_ms))

    # --- producers ---------------------------------------------------------------------------

    def _expire_soon(self) -> None:
        """Remove the state of inactive producers from all logs, 100 logs in each turn of the
        loop."""
        self._in_slices("expiry slice", self._expire)

    def _expire(self, log: Log) -> None:
        if not log.closed:
            clock, periods = self._directory.clock, self._directory.periods
            log.producers.expire(clock.wall_ms(), periods.producer_id_expiration_ms)

    # --- removals ----------------------------------------------------------------------------

    def remove_later(self, delay_ms: int, removal: Callable[[], None]) -> None:
        """Run `removal` after `delay_ms` and outside of flushes; at once if the disk is nearly
        full."""
        self._sequence += 1
        if self._directory.context.low:
            delay_ms = 0
        due = self._directory.clock.monotonic() + delay_ms / 1000
        heappush(self._removals, (due, self._sequence, removal))
        if self._removals[0][1] == self._sequence:
            self._arm()

    def _arm(self) -> None:
        if self._removal_timer is not None:
            self._removal_timer.cancel()
            self._removal_timer = None
        if self._removals:
            clock = self._directory.clock
            wait = max(0.0, self._removals[0][0] - clock.monotonic())
            self._removal_timer = clock.call_later(wait, self._remove_due)

    def _remove_due(self) -> None:
        self._removal_timer = None
        now = self._directory.clock.monotonic()
        while self._removals and self._removals[0][0] <= now:
            _, _, removal = heappop(self._removals)
            self._directory.flusher.after_current(removal)
        self._arm()
