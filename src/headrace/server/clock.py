"""Time and chance of the real world."""

import asyncio
import random
import time
import uuid
from collections.abc import Callable

from headrace.world.clock import Timer


class RealClock:
    """The event loop's time. `world.clock.Clock`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.monotonic = time.monotonic

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back on the loop; 0: when this turn is over."""
        if seconds <= 0:
            return self._loop.call_soon(callback)
        return self._loop.call_later(seconds, callback)


class RealRandom:
    """`world.clock.Random`."""

    def uuid(self) -> bytes:
        """A version 4 UUID's 16 bytes."""
        return uuid.uuid4().bytes

    def uniform(self, low: float, high: float) -> float:
        """A float between the two; for jitter, not for secrets."""
        return random.uniform(low, high)  # noqa: S311
