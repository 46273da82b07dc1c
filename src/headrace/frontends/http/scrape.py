"""The collection of all metrics: a single run for all clients that ask during it."""

import asyncio
from collections.abc import Awaitable, Callable

from headrace.observe.metrics import Metrics


class Scrape:
    """A collector of a broker's metrics as Prometheus text. Used on the event loop."""

    def __init__(
        self, metrics: Metrics, process: Callable[[], Awaitable[bytes]] | None = None
    ) -> None:
        """Create a collector. `process`: returns the text of the process's own metrics."""
        self._metrics = metrics
        self._process = process
        self._running: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """Return the text of all metrics. Calls during a running collection share its result."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._collect())
            self._running.add_done_callback(self._end)
        return await asyncio.shield(self._running)

    def _end(self, _: "asyncio.Task[bytes]") -> None:
        self._running = None

    async def _collect(self) -> bytes:
        from headrace.frontends.http.exposition import rendered

        pieces = [] if self._process is None else [await self._process()]
        for piece in rendered(self._metrics):
            pieces.append(piece)
            await asyncio.sleep(0)
        return b"".join(pieces)
