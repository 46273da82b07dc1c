"""One coroutine run once for many calls: what a watch of the store has somebody do."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headrace.cluster.store.znodes import BadPayload
from headrace.model.errors import ApiError
from headrace.ports.store import BadVersion, SessionLost, StoreError

_logger = logging.getLogger(__name__)


def log_failure(logger: logging.Logger, what: str, error: Exception) -> None:
    """Log that the store could not be asked: as an error, unless no operator is needed.

    No operator is needed where the session is lost, which the store logs itself and once, or ends;
    and where another broker has changed a node first: that change is looked at next.
    """
    level = logging.INFO if isinstance(error, SessionLost | BadVersion) else logging.ERROR
    logger.log(level, "%s: %s: %s", what, type(error).__name__, error)


class Reaction:
    """Runs `act` after each `ask`, one run at a time, asks meanwhile taken together."""

    def __init__(self, act: Callable[[], Awaitable[None]], failing: str) -> None:
        """`failing`: what an operator is told where the store cannot be asked."""
        self._act = act
        self._failing = failing
        self._again = False
        self._running: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Have it run, again if it is running."""
        self._again = True
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """End it where it stands."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self) -> None:
        try:
            while self._again:
                self._again = False
                await self._act()
        except (StoreError, BadPayload, ApiError) as error:
            log_failure(_logger, self._failing, error)
        finally:
            self._running = None
