"""When waiting answers are given up: one timer for all of them.

Most answers are there within milliseconds, so a deadline costs one append when it is noted. What is
still unanswered at the next tick moves to a heap; the rest is forgotten.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from headrace.net.pending import Pending
from headrace.ports.clock import Clock, Timer

TICK_SECONDS = 0.1
"""How long a deadline that needs no earlier look may stay unlooked at."""
_SOONEST_SECONDS = 0.001


class Deadlines:
    """Calls `expire` for each pending answer whose time is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now = clock.monotonic
        self._young: list[tuple[float, Pending]] = []
        self._old: list[tuple[float, int, Pending]] = []
        self._sequence = 0
        self._timer: Timer | None = None
        self._wakes_at = 0.0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def add(self, pending: Pending, seconds: float, expire: Callable[[], None]) -> None:
        """Call `expire` after `seconds` unless `pending` is done by then; one each."""
        now = self._now()
        deadline = now + seconds
        pending.on_expire = expire
        self._young.append((deadline, pending))
        if self._timer is None or deadline < self._wakes_at:
            self._wake_at(now, min(deadline, now + TICK_SECONDS))

    def _wake_at(self, now: float, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = when
        self._timer = self._clock.call_later(max(when - now, _SOONEST_SECONDS), self._tick)

    def _tick(self) -> None:
        self._timer = None
        young, self._young = self._young, []
        for deadline, pending in young:
            if not pending.done:
                self._sequence += 1
                heappush(self._old, (deadline, self._sequence, pending))
        now = self._now()
        old = self._old
        while old and (old[0][2].done or old[0][0] <= now):
            expire = heappop(old)[2].on_expire  # of one that is done there is none
            if expire is not None:
                expire()
        if len(old) > 64 and sum(entry[2].done for entry in old) > len(old) // 2:
            self._old = sorted(entry for entry in old if not entry[2].done)
        if self._timer is None and (self._old or self._young):
            soonest = self._old[0][0] if self._old else now + TICK_SECONDS
            self._wake_at(now, min(soonest, now + TICK_SECONDS))

    def close(self) -> None:
        """Expire nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._young.clear()
        self._old.clear()
