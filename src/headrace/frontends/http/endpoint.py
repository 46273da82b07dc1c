"""A small HTTP/1.1 server for machines that watch: GET and HEAD of a few paths.

Bounded all over: requests of 8 KiB, ten seconds, 16 connections, one request each. It reads no body
and takes no parameters.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Sequence

from headrace.model.errors import ConfigError, Malformed
from headrace.observe.metrics import Metrics
from headrace.wire.first_bytes import FIRST_BYTES

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 8192
REQUEST_SECONDS_MAX = 10.0
CONNECTIONS_MAX = 16
_TEXT = "text/plain; charset=utf-8"
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


class Endpoint:
    """The open endpoint; `close` ends it."""

    def __init__(
        self,
        metrics: Metrics,
        healthy: Callable[[], bool],
        awaited: Callable[[], Awaitable[Sequence[str]]] | None = None,
        process: Callable[[], Awaitable[bytes]] | None = None,
        check: Callable[[bytes], None] = lambda first: None,
    ) -> None:
        """`awaited`: what is to come before the broker is ready, a line each.

        `process`: the text of what the process itself takes. `check`: raises Malformed where a
        connection begins with another protocol's bytes.
        """
        self._metrics = metrics
        self._healthy = healthy
        self._awaited = awaited
        self._process = process
        self._check = check
        self._scrape: asyncio.Task[bytes] | None = None
        self.address = ("", 0)
        """Host and port that it listens on."""
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns host and port as they became. ConfigError where that is impossible."""
        # Imported now, so that the first answer is as quick as the others.
        from headrace.frontends.http.exposition import rendered  # noqa: F401

        try:
            self._server = await asyncio.start_server(
                self._serve, host, port, limit=REQUEST_BYTES_MAX
            )
        except OSError as error:
            # asyncio's own words repeat the address. A name nobody knows has no positive number.
            number = error.errno or 0
            reason = os.strerror(number) if number > 0 else str(error.strerror or error)
            raise ConfigError(f"metrics.listener={host}:{port}: {reason.lower()}") from None
        self.address = self._server.sockets[0].getsockname()[:2]
        return self.address

    async def close(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            if self._scrape is not None:
                self._scrape.cancel()
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open > CONNECTIONS_MAX:
                return
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                first = await reader.readexactly(FIRST_BYTES)
                self._check(first)
                writer.write(await self._answer(first + await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        except Malformed as error:
            log.warning("metrics.listener: the connection is closed: %s", error)
        except TimeoutError:
            # What it has not read by now would be held for as long as it stays connected.
            writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Whoever asks so badly gets no answer; it concerns nobody else.
            return
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(400, _TEXT, b"bad request\n")
        method, target = words[0], words[1].split(b"?", 1)[0]
        if method not in {b"GET", b"HEAD"}:
            return _response(405, _TEXT, b"only GET and HEAD\n")
        code, kind, body = await self._content(target)
        return _response(code, kind, body, with_body=method == b"GET")

    async def _content(self, target: bytes) -> tuple[int, str, bytes]:
        if target == b"/metrics":
            from headrace.frontends.http.exposition import CONTENT_TYPE

            return 200, CONTENT_TYPE, await self._scraped()
        if target == b"/healthz":
            return (200, _TEXT, b"ok\n") if self._healthy() else (503, _TEXT, b"not healthy\n")
        if target == b"/ready":
            awaited = () if self._awaited is None else await self._awaited()
            text = "\n".join([f"awaited: {line}" for line in awaited] or ["ready"])
            return 503 if awaited else 200, _TEXT, f"{text}\n".encode()
        if target == b"/":
            return 200, _TEXT, b"headrace: /metrics /healthz /ready\n"
        return 404, _TEXT, b"not found\n"

    async def _scraped(self) -> bytes:
        """Return all numbers. Who asks while others are answered gets what they get."""
        if self._scrape is None:
            self._scrape = asyncio.get_running_loop().create_task(self._collect())
            self._scrape.add_done_callback(self._end_scrape)
        return await asyncio.shield(self._scrape)

    def _end_scrape(self, _: "asyncio.Task[bytes]") -> None:
        self._scrape = None

    async def _collect(self) -> bytes:
        from headrace.frontends.http.exposition import rendered

        pieces = [] if self._process is None else [await self._process()]
        for piece in rendered(self._metrics):
            pieces.append(piece)
            await asyncio.sleep(0)
        return b"".join(pieces)


def _response(code: int, kind: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n"
        "X-Content-Type-Options: nosniff\r\n\r\n"
    ).encode("ascii")
    return head + body if with_body else head
