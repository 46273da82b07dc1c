"""`RealClock` and `RealRandom`: time and random numbers of the operating system."""

import asyncio
import os
import time
from collections.abc import Callable

from headrace.ports.clock import Timer

_BOOT_TIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has a clock that includes sleep; macOS includes it in the monotonic one."""


class RealClock:
    """The event loop's time. Implements `ports.clock.Clock`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.monotonic = time.monotonic

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` on the loop after `seconds`; 0: at the end of this turn."""
        if seconds <= 0:
            return self._loop.call_soon(callback)
        return self._loop.call_later(seconds, callback)


def boot_seconds() -> float:
    """Return seconds since the machine booted, including sleep."""
    return time.clock_gettime(_BOOT_TIME)


class RealRandom:
    """Random numbers of the operating system. Implements `ports.clock.Random`."""

    def uuid(self) -> bytes:
        """Return the 16 bytes of a random version 4 UUID."""
        drawn = bytearray(os.urandom(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        return bytes(drawn)

    def uniform(self, low: float, high: float) -> float:
        """Return a random float between `low` and `high`."""
        # The random module would import hashlib for its seed: 5 ms of start-up for some jitter.
        return low + (high - low) * int.from_bytes(os.urandom(6), "big") / (1 << 48)
