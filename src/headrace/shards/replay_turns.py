"""`ReplayTurns`: the replays of one broker take turns, so that it serves while coordinators load.

A broker that becomes the leader of many partitions of an internal topic replays them all at once.
If each replay paused only between its own slices, the other replays would fill its pauses.
"""

from collections import deque
from collections.abc import Callable

from headrace.ports.clock import Clock


class ReplayTurns:
    """A queue of slices of replays: one runs, then the loop is free for as long as it took."""

    __slots__ = ("_clock", "_pauses", "_running", "_waiting")

    def __init__(self, clock: Clock, *, pauses: bool = True) -> None:
        """Create an empty queue. Without `pauses` slices follow each other: no client is served."""
        self._clock = clock
        self._pauses = pauses
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = False

    def ask(self, slice_of_work: Callable[[], None]) -> None:
        """Queue `slice_of_work` behind all others; it never runs before this returns."""
        self._waiting.append(slice_of_work)
        self._begin()

    def go_on(self, slice_of_work: Callable[[], None]) -> None:
        """Queue `slice_of_work` before all others: the same replay continues."""
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
                pause = self._clock.monotonic() - began if self._pauses else 0
                self._clock.call_later(pause, self._next)
            else:
                self._running = False
