"""Requests with bodies as bytes, connections that send them, and their answers taken apart."""

import asyncio
import contextlib
import http.client
import io
from collections.abc import AsyncIterator
from typing import NamedTuple

from headrace.frontends.http.endpoint import Endpoint

HEAD = b"PUT /echo HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CLOSES = b"Connection: close\r\n"
Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Answer(NamedTuple):
    """An answer; a body in chunks is joined."""

    status: int
    body: bytes
    fields: http.client.HTTPMessage


@contextlib.asynccontextmanager
async def open_link(endpoint: Endpoint, limit: int = 1 << 16) -> AsyncIterator[Link]:
    """Connect to the endpoint for 20 seconds at most, and leave without a farewell."""
    reader, writer = await asyncio.open_connection(*endpoint.address, limit=limit)
    try:
        async with asyncio.timeout(20):
            yield reader, writer
    finally:
        writer.transport.abort()


def sized(body: bytes, *fields: bytes) -> bytes:
    """Return a request with a body and its length."""
    return HEAD + b"".join(fields) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*pieces: bytes) -> bytes:
    """Return a request with a body in chunks."""
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    return HEAD + CHUNKED + b"".join(chunks) + b"0\r\n\r\n"


def answers_in(sent: bytes) -> list[Answer]:
    """Return the answers that a server sent on one connection. Raises ValueError for a torn one."""
    found = []
    while sent:
        head, _, rest = sent.partition(b"\r\n\r\n")
        line, _, fields = head.partition(b"\r\n")
        parsed = http.client.parse_headers(io.BytesIO(fields + b"\r\n\r\n"))
        if parsed.get("transfer-encoding") == "chunked":
            body, sent = _joined(rest)
        else:
            size = int(parsed.get("content-length", len(rest)))
            body, sent = rest[:size], rest[size:]
        found.append(Answer(int(line.split()[1]), body, parsed))
    return found


def _joined(chunks: bytes) -> tuple[bytes, bytes]:
    found, at = [], 0
    while True:
        end = chunks.index(b"\r\n", at)
        begin, length = end + 2, int(chunks[at:end], 16)
        at = begin + length + 2
        if chunks[at - 2 : at] != b"\r\n":
            raise ValueError("a chunk is torn")
        found.append(chunks[begin : begin + length])
        if not length:
            return b"".join(found), chunks[at:]
