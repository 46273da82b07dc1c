"""Replies as bytes of HTTP/1.1: heads by h11, whole bodies, bodies in pieces.

A body in pieces is sent in chunks, to HTTP/1.0 until the end of the connection. The next piece is
made once the client has room for it (`net.stream`), so a slow reader costs what `net` holds for it.
"""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import h11

from headrace.frontends.http.router import REASONS, HttpReply, Pieces

if TYPE_CHECKING:
    from headrace.net.stream import Stream
    from headrace.ports.disk import Buffer

PIECE_SECONDS_MAX = 30.0
"""Seconds that the next piece of a body may take; then the connection is dropped."""
_BODILESS = frozenset({204, 304})


class Sender:
    """The sending half of one HTTP connection. Used on the event loop."""

    def __init__(self, stream: "Stream") -> None:
        self._stream = stream
        self._room: asyncio.Future[None] | None = None

    def whole(
        self, http: h11.Connection, reply: HttpReply, *, close: bool, head_only: bool
    ) -> None:
        """Send a reply whose body is bytes; `head_only`: without the body, as HEAD asks for."""
        parts: list[Buffer] = [_head(http, reply, close=close)]
        if reply.body and isinstance(reply.body, bytes) and not head_only:
            # Not joined with the head: a scrape may have megabytes.
            parts += http.send_with_data_passthrough(h11.Data(data=reply.body)) or []
        http.send(h11.EndOfMessage())
        self._stream.push(parts)

    async def pieces(
        self, http: h11.Connection, reply: HttpReply, body: Pieces, *, close: bool
    ) -> None:
        """Send a reply whose body is made meanwhile, but its end; close `body`.

        Raises TimeoutError if the next piece takes too long, and what `body` raises.
        """
        async with aclosing(body):
            self._stream.push(_head(http, reply, close=close))
            while True:
                async with asyncio.timeout(PIECE_SECONDS_MAX):
                    piece = await anext(body, None)
                if piece is None:
                    return
                parts: list[Buffer] = []
                parts += http.send_with_data_passthrough(h11.Data(data=piece)) or []
                self._stream.push(parts)
                await self._has_room()

    def end(self, http: h11.Connection) -> None:
        """Send the end of a body in pieces."""
        self._stream.push(http.send(h11.EndOfMessage()) or b"")

    async def _has_room(self) -> None:
        while not self._stream.takes_more():
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def room(self) -> None:
        """Make the next piece, as the client has room."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)


def _head(http: h11.Connection, reply: HttpReply, *, close: bool) -> "Buffer":
    headers = [("X-Content-Type-Options", "nosniff"), *reply.headers]
    if reply.status not in _BODILESS:
        described = [("Content-Type", reply.content_type)] if reply.content_type else []
        if isinstance(reply.body, bytes):
            described.append(("Content-Length", str(len(reply.body))))
        headers = described + headers
    if close:
        headers.append(("Connection", "close"))
    reason = REASONS[reply.status].encode()
    return http.send(h11.Response(status_code=reply.status, headers=headers, reason=reason)) or b""
