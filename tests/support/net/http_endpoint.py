"""HTTP endpoints of their own, and requests to them over a socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

from headrace.frontends.http.endpoint import Endpoint
from headrace.frontends.http.router import HttpRoute, HttpRouter
from headrace.frontends.http.routes import watching
from headrace.frontends.http.scrape import Scrape
from headrace.net.limits import Limits
from headrace.net.table import ConnectionTable
from headrace.observe.metrics import Metrics
from headrace.posix.clock import RealClock
from headrace.posix.network import RealNetwork
from tests.support.net.net import limits_with


class Served(Endpoint):
    """An endpoint with a connection table of its own."""

    def __init__(self, routes: Iterable[HttpRoute], limits: Limits) -> None:
        self.broken: list[Exception] = []
        super().__init__(HttpRouter(routes), self.broken.append)
        clock = RealClock(asyncio.get_running_loop())
        self.table = ConnectionTable(clock, limits, self.open, self.broken.append)

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> tuple[str, int]:
        """Listen at a free port."""
        return await self.start(host, port, self.table, RealNetwork())

    async def close(self) -> None:
        """Close, and end the connections that do not end by themselves."""
        await super().close()
        self.table.close()
        self.table.abort()


@contextlib.asynccontextmanager
async def serving(
    *routes: HttpRoute,
    healthy: bool = True,
    awaited: Sequence[str] = (),
    metrics: Metrics | None = None,
    process: Callable[[], Awaitable[bytes]] | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Served]:
    """Serve `routes`; the usual ones where none are given."""

    async def lines() -> Sequence[str]:
        return awaited

    usual = watching(Scrape(metrics or Metrics(), process), lambda: healthy, lines)
    endpoint = Served(routes or usual, limits or limits_with())
    await endpoint.listen()
    try:
        yield endpoint
    finally:
        await endpoint.close()


async def asked(endpoint: Endpoint, *pieces: bytes) -> bytes:
    """Return all that the endpoint sends until it closes, to `pieces` sent one after the other."""
    reader, writer = await asyncio.open_connection(*endpoint.address)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01 if len(pieces) > 1 else 0)
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.close()


async def exchange(request: bytes, *, healthy: bool = True, awaited: Sequence[str] = ()) -> bytes:
    """Return all that an endpoint of its own answers to `request`."""
    async with serving(healthy=healthy, awaited=awaited) as endpoint:
        return await asked(endpoint, request)
