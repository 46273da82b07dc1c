"""Time, and being called later."""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that will happen once."""

    def cancel(self) -> None:
        """Make sure it does not happen; no effect once it has."""


class Clock(Protocol):
    """Reads the time and calls back later, on the one thread that decides."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970, for timestamps in records and files.

        May jump either way.
        """

    def monotonic(self) -> float:
        """Return seconds since some start, never going back.

        All leases and deadlines use this one.
        """

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the deciding thread after `seconds`; 0: when this turn is over."""


class Random(Protocol):
    """Chance: ids and jitter."""

    def uuid(self) -> bytes:
        """Return 16 random bytes in the form of a version 4 UUID."""

    def uniform(self, low: float, high: float) -> float:
        """Return a float between `low` and `high`."""
