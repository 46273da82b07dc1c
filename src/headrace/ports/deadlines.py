"""Many deadlines, one timer.

Deadlines are set far more often than they are reached, so setting one costs next to nothing:

* One that is moved further away (`Deadline.set`, a heartbeat) is an assignment: the heap keeps the
  earlier time, and when that comes the deadline is put back at its present one.
* One that most often is done within milliseconds (`Deadlines.add`, an answer that waits for a
  flush) is noted in a list; only what is not done at the next tick goes to the heap.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from headrace.ports.clock import Clock, Timer

TICK_SECONDS = 0.1
"""How long one that was added, and needs no earlier look, may stay unlooked at."""
_SOONEST_SECONDS = 0.001
"""The shortest wait there is, but for what is due already."""
_PRUNED_FROM = 64
"""So many of the heap were added before those of them that are done are looked for."""
_NEVER = float("inf")


class Waiting(Protocol):
    """What may expire, once, unless it is done before."""

    @property
    def done(self) -> bool: ...

    on_expire: Callable[[], None] | None
    """None once it is done; set by `Deadlines.add`."""


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

    def end(self) -> None:
        """Never happen any more: what would have been called is let go now, not when it was due."""
        self.at = None
        self.callback = _nothing

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


def _nothing() -> None:
    """Do nothing."""


class Deadlines:
    """All deadlines of one shard, or of one broker's connections."""

    __slots__ = (
        "_added", "_closed", "_heap", "_sequence", "_timer", "_wakes_at", "_young", "clock",
    )  # fmt: skip

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._young: list[tuple[float, Waiting]] = []
        self._heap: list[tuple[float, int, Deadline | Waiting]] = []
        self._added = 0
        """How many of the heap were added, and may be done."""
        self._sequence = 0
        self._timer: Timer | None = None
        self._wakes_at = _NEVER
        self._closed = False

    def __len__(self) -> int:
        return len(self._young) + len(self._heap)

    def deadline(self, callback: Callable[[], None]) -> Deadline:
        """Make a deadline that is not armed yet."""
        return Deadline(self, callback)

    def add(self, waiting: Waiting, seconds: float, expire: Callable[[], None]) -> None:
        """Call `expire` after `seconds` unless `waiting` is done by then; one each."""
        now = self.clock.monotonic()
        at = now + seconds
        waiting.on_expire = expire
        self._young.append((at, waiting))
        if at < self._wakes_at or now + TICK_SECONDS < self._wakes_at:
            self._wake_at(now, min(at, now + TICK_SECONDS))

    def queue(self, at: float, deadline: Deadline) -> None:
        """Look at `deadline` again at `at` (monotonic seconds)."""
        if self._closed:
            return
        self._push(at, deadline)
        if at < self._wakes_at:
            self._wake_at(self.clock.monotonic(), at)

    def close(self) -> None:
        """Let nothing happen any more."""
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
        # A timer that fires a moment early must not be set again and again for that moment.
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
            # Asked only now: one called before may have settled or moved it.
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
        """Forget those added that are done in time, where they are more than half of these."""
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
