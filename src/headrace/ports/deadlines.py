"""`Deadlines`: many deadlines on one timer.

Most deadlines are moved or done before they are reached, so setting one is cheap:

* Moving a deadline further away (`Deadline.set`, such as a heartbeat) is an assignment. The heap
  keeps the earlier time; when that comes, the deadline is queued again at its current time.
* A wait that is usually done within milliseconds (`Deadlines.add`, such as an answer that waits for
  a flush) goes to a list; only what is not done at the next tick goes to the heap.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from headrace.ports.clock import Clock, Timer

TICK_SECONDS = 0.1
"""Seconds that an added wait may stay in the list, unless it is due earlier."""
_SOONEST_SECONDS = 0.001
"""Shortest timer in seconds, except for waits that are already due."""
_PRUNED_FROM = 64
"""Number of added waits in the heap from which on done ones are removed."""
_NEVER = float("inf")


class Waiting(Protocol):
    """An operation that may expire once, unless it is done before."""

    @property
    def done(self) -> bool: ...

    on_expire: Callable[[], None] | None
    """The callback for expiry, set by `Deadlines.add`; None once the operation is done."""


class Deadline:
    """A callback that runs once the clock passes `at`, unless moved or cancelled before."""

    __slots__ = ("_owner", "_queued", "at", "callback")

    def __init__(self, owner: "Deadlines", callback: Callable[[], None]) -> None:
        self._owner = owner
        self._queued: float | None = None
        self.at: float | None = None
        """Due time in monotonic seconds; None while not armed."""
        self.callback = callback

    def set(self, seconds: float) -> None:
        """Run the callback `seconds` from now, replacing any earlier time."""
        at = self.at = self._owner.clock.monotonic() + seconds
        queued = self._queued
        if queued is None or at < queued:
            self._queued = at
            self._owner.queue(at, self)

    def cancel(self) -> None:
        """Disarm the deadline; `set` may arm it again."""
        self.at = None

    def end(self) -> None:
        """Disarm the deadline for good, and release its callback now."""
        self.at = None
        self.callback = _nothing

    def reached(self, queued_at: float) -> Callable[[], None] | None:
        """Return the callback to run at its queued time; None if moved, cancelled or superseded."""
        if queued_at != self._queued:
            return None  # an earlier entry in the heap replaced this one
        self._queued = None
        at = self.at
        if at is None:
            return None
        if at > queued_at:
            self._queued = at
            self._owner.queue(at, self)
            return None
        self.at = None
        return self.callback


def _nothing() -> None:
    """Do nothing: the callback of an ended deadline."""


class Deadlines:
    """All deadlines of one shard, or of one broker's connections, on one timer."""

    __slots__ = (
        "_added", "_closed", "_heap", "_sequence", "_timer", "_wakes_at", "_young", "clock",
    )  # fmt: skip

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._young: list[tuple[float, Waiting]] = []
        self._heap: list[tuple[float, int, Deadline | Waiting]] = []
        self._added = 0
        """Number of heap entries that came from `add` and may be done."""
        self._sequence = 0
        self._timer: Timer | None = None
        self._wakes_at = _NEVER
        self._closed = False

    def __len__(self) -> int:
        return len(self._young) + len(self._heap)

    def deadline(self, callback: Callable[[], None]) -> Deadline:
        """Make a deadline that is not armed."""
        return Deadline(self, callback)

    def add(self, waiting: Waiting, seconds: float, expire: Callable[[], None]) -> None:
        """Call `expire` after `seconds` unless `waiting` is done by then. One call per
        `waiting`."""
        now = self.clock.monotonic()
        at = now + seconds
        waiting.on_expire = expire
        self._young.append((at, waiting))
        if at < self._wakes_at or now + TICK_SECONDS < self._wakes_at:
            self._wake_at(now, min(at, now + TICK_SECONDS))

    def queue(self, at: float, deadline: Deadline) -> None:
        """Check `deadline` again at `at` (monotonic seconds)."""
        if self._closed:
            return
        self._push(at, deadline)
        if at < self._wakes_at:
            self._wake_at(self.clock.monotonic(), at)

    def close(self) -> None:
        """Drop all deadlines and stop the timer."""
        self._closed = True
        self._wakes_at = _NEVER
        self._young.clear()
        self._heap.clear()
        self._added = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _push(self, at: float, entry: Deadline | Waiting) -> None:
        self._sequence += 1
        heappush(self._heap, (at, self._sequence, entry))

    def _wake_at(self, now: float, when: float) -> None:
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = when
        # A timer that fires slightly early must not be set repeatedly for the same moment.
        wait = max(when - now, _SOONEST_SECONDS) if when > now else 0.0
        self._timer = self.clock.call_later(wait, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._wakes_at = _NEVER
        self._keep_the_young()
        now = self.clock.monotonic()
        due: list[tuple[float, Deadline | Waiting]] = []
        heap = self._heap
        while heap and (heap[0][0] <= now or _is_done(heap[0][2])):
            at, _, entry = heappop(heap)
            due.append((at, entry))
            self._added -= not isinstance(entry, Deadline)
        for at, entry in due:
            # Looked up only now: a callback before may have finished or moved it.
            callback = entry.reached(at) if isinstance(entry, Deadline) else entry.on_expire
            if callback is not None:
                callback()
        self._prune()
        now = self.clock.monotonic()
        soonest = self._heap[0][0] if self._heap else _NEVER
        if self._young:
            soonest = min(soonest, now + TICK_SECONDS)
        if soonest < self._wakes_at:
            self._wake_at(now, soonest)

    def _keep_the_young(self) -> None:
        young, self._young = self._young, []
        for at, waiting in young:
            if not waiting.done:
                self._added += 1
                self._push(at, waiting)

    def _prune(self) -> None:
        """Remove finished waits from the heap once they are more than half of those added."""
        if self._added <= _PRUNED_FROM:
            return
        kept = [entry for entry in self._heap if not _is_done(entry[2])]
        gone = len(self._heap) - len(kept)
        if gone * 2 > self._added:
            heapify(kept)
            self._heap = kept
            self._added -= gone


def _is_done(entry: Deadline | Waiting) -> bool:
    return not isinstance(entry, Deadline) and entry.done
