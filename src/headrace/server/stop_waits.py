"""The bounded waits of a broker's stop, and one warning about what did not finish."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.model.errors import HeadraceError

_logger = logging.getLogger(__name__)

FLUSH_SECONDS_MAX = 10.0
"""Longest wait, in seconds, for flushes under way, so that their records are acknowledged."""
SEND_SECONDS_MAX = 2.0
"""Longest wait, in seconds, for clients to read their last responses."""
PART_SECONDS_MAX = 5.0
"""Longest wait, in seconds, for any other part of the broker to end."""
_LOOK_SECONDS = 0.005


async def until(condition: Callable[[], bool], seconds_max: float) -> bool:
    """Wait until `condition()` is true, for `seconds_max` at most; return whether it is."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds_max
    while not condition() and loop.time() < deadline:  # noqa: ASYNC110 - once, at the end
        await asyncio.sleep(_LOOK_SECONDS)
    return condition()


class StopWaits:
    """The waits of one stop, and what did not finish or failed."""

    def __init__(self) -> None:
        self._left: list[str] = []
        self._failed: list[str] = []

    async def until(self, what: str, condition: Callable[[], bool], seconds_max: float) -> None:
        """Wait until `condition()` is true, for `seconds_max` at most; note `what` if it is not."""
        if not await until(condition, seconds_max):
            self._left.append(f"{what} ({seconds_max:g} s)")

    async def within(
        self, what: str, work: Coroutine[Any, Any, None], seconds_max: float = PART_SECONDS_MAX
    ) -> None:
        """Run `work` for `seconds_max` at most; after that it is cancelled and not waited for.

        A HeadraceError or OSError is noted, so that the other parts are still stopped. Any other
        error is a bug and raised: the stop must not look like a clean one.
        """
        task = asyncio.get_running_loop().create_task(work)
        try:
            await asyncio.wait({task}, timeout=seconds_max)
        finally:
            if not task.done():
                task.cancel()  # and not waited for: it may hang where it cannot be cancelled
                task.add_done_callback(_read)
        if not task.done():
            self._left.append(f"{what} ({seconds_max:g} s)")
            return
        try:
            task.result()
        except (HeadraceError, OSError) as error:
            self._failed.append(f"{what}: {error or type(error).__name__}")

    def report(self) -> None:
        """Log what did not finish in time and what failed."""
        if self._left:
            _logger.warning(
                "the broker stops without waiting longer for: %s. No action is needed: sessions"
                " expire, and the next start recovers the logs",
                ", ".join(self._left),
            )  # fmt: skip
        if self._failed:
            _logger.warning(
                "parts of the broker failed to stop: %s; the next start recovers the logs",
                "; ".join(self._failed),
            )  # fmt: skip


def _read(task: "asyncio.Task[None]") -> None:
    """Retrieve the error of an abandoned task: asyncio logs an unretrieved one as a bug."""
    if not task.cancelled():
        task.exception()
