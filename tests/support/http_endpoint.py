"""One request to the HTTP endpoint, over a socket."""

import asyncio
from collections.abc import Sequence

from headrace.frontends.http.endpoint import Endpoint
from headrace.observe.metrics import Metrics


async def exchange(request: bytes, *, healthy: bool = True, awaited: Sequence[str] = ()) -> bytes:
    """Return all that an endpoint of its own answers to `request`."""

    async def lines() -> Sequence[str]:
        return awaited

    endpoint = Endpoint(Metrics(), lambda: healthy, lines)
    host, port = await endpoint.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()
        await endpoint.close()
