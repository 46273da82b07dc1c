"""Bodies of replies that are made while the client reads them, and compression.

    pieces of the handler --blocks--> BLOCK_BYTES each --gzip--> the session, one chunk each
           | up to WHOLE_BYTES_MAX in all
           '--> bytes with Content-Length

Pieces are joined, as a chunk for each row of a list costs more than the row. Making and compressing
them gives way to other connections each `SLICE_SECONDS`. Events are sent as they come, unjoined and
uncompressed.
"""

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from headrace.frontends.http.router import EVENT_STREAM, HttpReply, HttpRequest, Pieces

if TYPE_CHECKING:
    from zlib import _Compress as Compressor

WHOLE_BYTES_MAX = 256 << 10
"""Longest body made of pieces that is sent with `Content-Length`, in bytes."""
BLOCK_BYTES = 64 << 10
"""Bytes of pieces that are joined, compressed and sent together."""
SLICE_SECONDS = 0.005
"""Seconds of work on a reply between two turns of the loop."""
GZIP_BYTES_MIN = 1024
"""Shortest body in bytes that is compressed."""
GZIP_LEVEL = 1
_VARIES = ("Vary", "Accept-Encoding")


async def prepared(reply: HttpReply, request: HttpRequest) -> HttpReply:
    """Return the reply as it is sent: compressed if both allow it, whole if it is short.

    Pieces beyond `WHOLE_BYTES_MAX` are left to be iterated; else they are closed.
    """
    if reply.content_type == EVENT_STREAM:
        return reply
    made = reply.body
    body = made if isinstance(made, bytes) else await _whole_or_rest(blocks(made))
    if not reply.compresses:
        return reply._replace(body=body)
    headers = reply.headers
    if not any(name.lower() == "vary" for name, _ in headers):
        headers = (*headers, _VARIES)
    if accepts_gzip(request.header(b"accept-encoding")) and _is_long(body):
        headers = (*headers, ("Content-Encoding", "gzip"))
        if isinstance(body, bytes):
            body = await _gzipped(body)
        else:
            body.compressor = _compressor()
    return reply._replace(body=body, headers=headers)


async def blocks(pieces: Pieces) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of `pieces` as blocks of at most `BLOCK_BYTES`, giving way while at it."""
    loop = asyncio.get_running_loop()
    block, since = bytearray(), loop.time()
    async with aclosing(pieces):
        async for piece in pieces:
            block += piece
            while len(block) >= BLOCK_BYTES:
                yield bytes(block[:BLOCK_BYTES])
                del block[:BLOCK_BYTES]
                await asyncio.sleep(0)
                since = loop.time()
            if loop.time() - since > SLICE_SECONDS:
                await asyncio.sleep(0)
                since = loop.time()
    if block:
        yield bytes(block)


def _is_long(body: "bytes | _Rest") -> bool:
    return not isinstance(body, bytes) or len(body) > GZIP_BYTES_MIN


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether a client with this `Accept-Encoding` accepts gzip."""
    for part in accept_encoding.lower().split(","):
        coding, _, parameters = part.partition(";")
        if coding.strip() in {"gzip", "x-gzip"}:
            return parameters.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


async def _whole_or_rest(pieces: Pieces) -> "bytes | _Rest":
    """Return all bytes if they are few, else the pieces, the first ones included."""
    first, size = deque[bytes](), 0
    try:
        async for piece in pieces:
            first.append(piece)
            size += len(piece)
            if size > WHOLE_BYTES_MAX:
                return _Rest(first, pieces)
    except BaseException:
        await pieces.aclose()
        raise
    return b"".join(first)


class _Rest:
    """Blocks of which the first are made, compressed or not. Implements `router.Pieces`.

    No generator: one that is closed before its first step would not close the handler's.
    """

    def __init__(self, first: deque[bytes], more: Pieces) -> None:
        self._first = first
        self._more = more
        self._ended = False
        self.compressor: Compressor | None = None

    def __aiter__(self) -> "_Rest":
        return self

    async def __anext__(self) -> bytes:
        while not self._ended:
            block = self._first.popleft() if self._first else await anext(self._more, b"")
            self._ended = not block
            if self.compressor is not None:
                block = self.compressor.flush() if self._ended else self.compressor.compress(block)
            if block:
                return block
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the handler's pieces."""
        self._ended = True
        await self._more.aclose()


async def _gzipped(body: bytes) -> bytes:
    compressor = _compressor()
    parts = list[bytes]()
    for at in range(0, len(body), BLOCK_BYTES):
        parts.append(compressor.compress(body[at : at + BLOCK_BYTES]))
        if at:
            await asyncio.sleep(0)
    return b"".join([*parts, compressor.flush()])


def _compressor() -> "Compressor":
    return zlib.compressobj(GZIP_LEVEL, wbits=16 + zlib.MAX_WBITS)
