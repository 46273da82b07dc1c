"""Replays of one broker take turns, so that it answers while its coordinators load.

A broker that comes to lead seventeen partitions of an internal topic replays them all at once. Each
would rest between its slices; without this, the others' slices would fill the rests.
"""

from collections import deque
from collections.abc import Callable

from headrace.ports.clock import Clock


class ReplayTurns:
    """One slice of one replay at a time; then as long as it took for everything else."""

    __slots__ = ("_clock", "_running", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = False

    def ask(self, slice_of_work: Callable[[], None]) -> None:
        """Call `slice_of_work` once it is its turn; never before this returns."""
        self._waiting.append(slice_of_work)
        self._begin()

    def go_on(self, slice_of_work: Callable[[], None]) -> None:
        """Call `slice_of_work` before all others that wait: the same replay's turn again."""
        self._waiting.appendleft(slice_of_work)
        self._begin()

    def _begin(self) -> None:
        if not self._running:
            self._running = True
            self._clock.call_later(0, self._next)

    def _next(self) -> None:
        began = self._clock.monotonic()
        try:
            self._waiting.popleft()()
        finally:
            if self._waiting:
                self._clock.call_later(self._clock.monotonic() - began, self._next)
            else:
                self._running = False
