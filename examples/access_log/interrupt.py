"""Ctrl-C between two steps instead of in the middle of one.

An exception that strikes inside a call to Spark's JVM leaves that connection unusable, and what
should be stopped in order falls over instead. So a signal is only noted, and raised where the demo
asks; a second one is raised at once.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_STEP_S = 0.2


class Interrupts:
    """Whether the user, or the system, wants an end."""

    def __init__(self) -> None:
        self._noted = False

    def watch(self) -> None:
        """Take SIGINT and SIGTERM from now on, from whoever had them."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def check(self) -> None:
        """Raise KeyboardInterrupt where a signal has been noted."""
        if self._noted:
            raise KeyboardInterrupt

    def wait_until(self, done: Callable[[], bool], seconds_max: float) -> bool:
        """Ask `done` again and again; whether it was true before the time was over."""
        give_up = time.monotonic() + seconds_max
        while not done():
            self.check()
            if time.monotonic() > give_up:
                return False
            time.sleep(_STEP_S)
        return True

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        if self._noted:
            raise KeyboardInterrupt
        self._noted = True
