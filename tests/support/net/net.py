"""What tests of connections are made with."""

import asyncio
import struct
from collections.abc import Callable

from headrace.config.connection_limits import ConnectionLimits
from headrace.config.keys.network import NetworkKeys
from headrace.config.value_types import Value
from headrace.net.limits import Limits


def limits_with(single: ConnectionLimits | None = None, **settings: Value) -> Limits:
    """Make the limits of a configuration that has `settings`, by attribute, and defaults.

    `single`: those of single addresses and listeners.
    """
    return Limits(NetworkKeys(**settings), single or ConnectionLimits())


def framed(data: bytes) -> bytes:
    """Put the length of `data` before it."""
    return struct.pack(">i", len(data)) + data


async def until(condition: Callable[[], bool]) -> None:
    """Wait for `condition` to hold, some twenty seconds at most."""
    for _ in range(4000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came true")
