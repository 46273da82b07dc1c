"""`Clock`, `Timer` and `Random`: time, delayed calls and random numbers."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call; no effect after it has run."""


class Clock(Protocol):
    """A source of time and of delayed calls on the deciding thread."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, for timestamps in records and files.

        May jump forwards and backwards.
        """

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start, never decreasing.

        All leases and deadlines use this time.
        """

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the deciding thread after `seconds`; 0: at the end of this turn."""


class Random(Protocol):
    """A source of random ids and numbers."""

    def uuid(self) -> bytes:
        """Return 16 random bytes in the form of a version 4 UUID."""

    def uniform(self, low: float, high: float) -> float:
        """Return a float between `low` and `high`."""
