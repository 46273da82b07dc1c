"""Waiting for what happens soon."""

import time
from collections.abc import Callable

WAIT_SECONDS = 20.0


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
