"""A clock that the test advances, and random numbers from a seed."""

import heapq
import random
from collections.abc import Callable


class SimTimer:
    """A callback scheduled on a `SimClock`."""

    def __init__(self, callback: Callable[[], None]) -> None:
        """Created by `SimClock.call_later`."""
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Cancel the scheduled callback."""
        self.callback = None


class SimClock:
    """`ports.clock.Clock` whose time passes only in `advance`."""

    def __init__(self, wall_ms: int = 1_780_000_000_000) -> None:
        """Start at `wall_ms`; the monotonic clock starts at 0."""
        self._started_ms = wall_ms
        self._now = 0.0
        self._sequence = 0
        self._waiting: list[tuple[float, int, SimTimer]] = []

    def wall_ms(self) -> int:
        """Return the simulated wall clock in milliseconds since 1970."""
        return self._started_ms + round(self._now * 1000)

    def monotonic(self) -> float:
        """Return the simulated seconds since the clock's start."""
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> SimTimer:
        """Schedule a call for when `advance` reaches its time; 0 seconds means the next `turn`."""
        timer = SimTimer(callback)
        self._sequence += 1
        heapq.heappush(self._waiting, (self._now + seconds, self._sequence, timer))
        return timer

    def turn(self) -> int:
        """End a turn of the event loop: make the calls that are due and return their number."""
        due = []
        while self._waiting and self._waiting[0][0] <= self._now:
            due.append(heapq.heappop(self._waiting)[2])
        called = 0
        for timer in due:
            if timer.callback is not None:
                timer.callback()
                called += 1
        return called

    def advance(self, seconds: float) -> None:
        """Let time pass and make the calls that fall due, in the order of their times."""
        until = self._now + seconds
        while self._waiting and self._waiting[0][0] <= until:
            self._now = max(self._now, self._waiting[0][0])
            self.turn()
        self._now = until


class SimRandom:
    """`ports.clock.Random` from a seed."""

    def __init__(self, seed: int | str = 0, life: int = 0) -> None:
        """Create a random source; equal seeds give equal numbers.

        `life`: of a machine whose process was killed, counted from 0. Its ids are others in each.
        """
        self._random = random.Random(seed)  # noqa: S311 - not for secrets
        self._life = life

    def uuid(self) -> bytes:
        """Return 16 bytes in the form of a version 4 UUID."""
        raw = bytearray(self._random.randbytes(16))
        raw[0] ^= self._life & 0xFF
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        return bytes(raw)

    def uniform(self, low: float, high: float) -> float:
        """Return a float between `low` and `high`."""
        return self._random.uniform(low, high)
