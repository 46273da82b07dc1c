"""Many deadlines, one timer.

Heartbeats move a deadline hundreds of thousands of times for each time it is reached, so moving one
further away is an assignment and nothing else: the heap keeps the earlier time, and when that comes
the deadline is put back at its present one.
"""

import heapq
from collections.abc import Callable

from headrace.ports.clock import Clock, Timer


class Deadline:
    """Something that happens once the clock passes `at`, unless moved or cancelled before."""

    __slots__ = ("_owner", "_queued", "at", "callback")

    def __init__(self, owner: "Deadlines", callback: Callable[[], None]) -> None:
        self._owner = owner
        self._queued: float | None = None
        self.at: float | None = None
        """Monotonic seconds, None while it is not armed."""
        self.callback = callback

    def set(self, seconds: float) -> None:
        """Happen `seconds` from now, whatever was set before."""
        at = self.at = self._owner.clock.monotonic() + seconds
        queued = self._queued
        if queued is None or at < queued:
            self._queued = at
            self._owner.queue(at, self)

    def cancel(self) -> None:
        """Do not happen."""
        self.at = None

    def reached(self, queued_at: float) -> Callable[[], None] | None:
        """Answer what is to be called, now that the time it was queued for has come."""
        if queued_at != self._queued:
            return None  # an earlier place in the heap took over from this one
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


class Deadlines:
    """All deadlines of one shard, with one clock timer between them."""

    __slots__ = ("_armed_at", "_closed", "_heap", "_sequence", "_timer", "clock")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, Deadline]] = []
        self._sequence = 0
        self._timer: Timer | None = None
        self._armed_at = 0.0
        self._closed = False

    def deadline(self, callback: Callable[[], None]) -> Deadline:
        """A deadline that is not armed yet."""
        return Deadline(self, callback)

    def queue(self, at: float, deadline: Deadline) -> None:
        """Look at `deadline` again at `at` (monotonic seconds)."""
        if self._closed:
            return
        self._sequence += 1
        heapq.heappush(self._heap, (at, self._sequence, deadline))
        self._arm()

    def close(self) -> None:
        """Nothing happens any more."""
        self._closed = True
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if not self._heap:
            return
        first = self._heap[0][0]
        if self._timer is not None:
            if self._armed_at <= first:
                return
            self._timer.cancel()
        self._armed_at = first
        wait = max(first - self.clock.monotonic(), 0.0)
        self._timer = self.clock.call_later(wait, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self.clock.monotonic()
        due: list[Callable[[], None]] = []
        while self._heap and self._heap[0][0] <= now:
            at, _, deadline = heapq.heappop(self._heap)
            callback = deadline.reached(at)
            if callback is not None:
                due.append(callback)
        for callback in due:
            callback()
        self._arm()
