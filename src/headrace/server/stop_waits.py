"""What a broker's stop waits for: each thing so long at most, and what was left is said once."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.model.errors import HeadraceError

_logger = logging.getLogger(__name__)

FLUSH_SECONDS_MAX = 10.0
"""How long a stop waits for flushes under way, so that what they hold is acknowledged."""
SEND_SECONDS_MAX = 2.0
"""How long a stop waits for clients to take their last answers."""
PART_SECONDS_MAX = 5.0
"""How long a stop waits for any other part of the broker to end."""
_LOOK_SECONDS = 0.005


async def until(condition: Callable[[], bool], seconds_max: float) -> bool:
    """Wait until the condition holds, so long at most; whether it does."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds_max
    while not condition() and loop.time() < deadline:  # noqa: ASYNC110 - once, at the end
        await asyncio.sleep(_LOOK_SECONDS)
    return condition()


class StopWaits:
    """The waits of one stop."""

    def __init__(self) -> None:
        self._left: list[str] = []
        self._failed: list[str] = []

    async def until(self, what: str, condition: Callable[[], bool], seconds_max: float) -> None:
        """Wait until the condition holds, so long at most."""
        if not await until(condition, seconds_max):
            self._left.append(f"{what} ({seconds_max:g} s)")

    async def within(
        self, what: str, work: Coroutine[Any, Any, None], seconds_max: float = PART_SECONDS_MAX
    ) -> None:
        """Have work done, so long at most; whatever it is, it is not waited for longer.

        A refusal (HeadraceError, OSError) of this part keeps no other part from being stopped: it
        is reported. Any other error is a bug, and raised: the stop must not pass for a clean one.
        """
        task = asyncio.get_running_loop().create_task(work)
        try:
            await asyncio.wait({task}, timeout=seconds_max)
        finally:
            if not task.done():
                task.cancel()  # and not waited for: it may hang in what cannot be cancelled
                task.add_done_callback(_read)
        if not task.done():
            self._left.append(f"{what} ({seconds_max:g} s)")
            return
        try:
            task.result()
        except (HeadraceError, OSError) as error:
            self._failed.append(f"{what}: {error or type(error).__name__}")

    def report(self) -> None:
        """Say what was not waited for any longer."""
        if self._left:
            _logger.warning(
                "the broker ends without having waited any longer for: %s; nothing needs to be"
                " done: a session ends by itself, and the next start looks after the logs",
                ", ".join(self._left),
            )  # fmt: skip
        if self._failed:
            _logger.warning(
                "parts of the broker failed to stop: %s; the next start recovers the logs",
                "; ".join(self._failed),
            )  # fmt: skip


def _read(task: "asyncio.Task[None]") -> None:
    """Read the error of a part that was not waited for: unread it would be reported as a bug."""
    if not task.cancelled():
        task.exception()
