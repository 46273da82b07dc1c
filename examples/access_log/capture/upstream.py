"""The application behind nginx: pages, a few slow endpoints, and two bad spells.

Latency is log-normal around each endpoint's own median. Twice in a capture something goes wrong, so
that the picture has something to show: a slow spell with 500s, and an outage that nginx answers
with 502.
"""

from __future__ import annotations

import asyncio
import random
import time

from examples.access_log.capture.website import PAGES

PAGE_MEDIAN_S = 0.011
MEDIAN_S = {"/api/status": 0.004, "/api/orders": 0.035, "/api/search": 0.22, "/api/report": 1.1}
SPREAD = {"/api/status": 0.3, "/api/orders": 0.5, "/api/search": 0.6, "/api/report": 0.5}
SLOW_SPELL_S = range(700, 860)  # seconds after the start
OUTAGE_S = range(1410, 1480)


class Application:
    """Answers HTTP/1.1 requests one after the other on each connection."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._started = time.monotonic()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the other side closes it, or the outage does."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = _content_length(head)
                if length:
                    await reader.readexactly(length)
                if self._elapsed() in OUTAGE_S and self._rng.random() < 0.8:
                    return
                writer.write(await self._answer(head.split(b" ", 2)[1].decode()))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    def _elapsed(self) -> int:
        return int(time.monotonic() - self._started)

    async def _answer(self, target: str) -> bytes:
        path = target.partition("?")[0]
        median = MEDIAN_S.get(path, PAGE_MEDIAN_S)
        slow = self._elapsed() in SLOW_SPELL_S
        await asyncio.sleep(
            median * self._rng.lognormvariate(0, SPREAD.get(path, 0.45)) * (3.0 if slow else 1.0)
        )
        failing = self._rng.random() < (0.3 if slow else 0.004)
        if failing:
            return _response("500 Internal Server Error", 170)
        if path in PAGES:
            return _response("200 OK", 5_000 + 830 * PAGES.index(path))
        if path not in MEDIAN_S:
            return _response("404 Not Found", 24)
        return _response("200 OK", self._rng.randrange(200, 6_000))


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _response(status: str, size: int) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    return head.encode() + b" " * size
