"""`Reaction`: a coroutine that runs once for several requests, such as events of a watch."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headrace.cluster.store.znodes import BadPayload
from headrace.model.errors import ApiError
from headrace.ports.store import BadVersion, SessionLost, StoreError

_logger = logging.getLogger(__name__)


def log_failure(logger: logging.Logger, what: str, error: Exception) -> None:
    """Log an error of the store; at INFO if no operator is needed.

    That is a lost session, which the store logs itself, and a change by another broker, which is
    read next.
    """
    level = logging.INFO if isinstance(error, SessionLost | BadVersion) else logging.ERROR
    logger.log(level, "%s: %s: %s", what, type(error).__name__, error)


class Reaction:
    """Runs `act` after each `ask`, one run at a time; requests during a run cause one more run."""

    def __init__(self, act: Callable[[], Awaitable[None]], failing: str) -> None:
        """Create a reaction that runs nothing yet.

        `failing`: the beginning of the log line if the store fails.
        """
        self._act = act
        self._failing = failing
        self._again = False
        self._running: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Request a run; if one is running, another follows."""
        self._again = True
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """Cancel the running coroutine."""
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
