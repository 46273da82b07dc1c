"""Replies that are streams of events (`text/event-stream`): how many, and comments in silence."""

import asyncio
from collections.abc import AsyncGenerator

from headrace.frontends.http.router import EVENT_STREAM, HttpReply, Pieces, text

EVENT_STREAMS_MAX = 16
"""Most streams of events that a broker serves at a time."""
COMMENT_SECONDS = 15.0
"""Seconds without an event after which a comment is sent, which shows that the client is there."""
COMMENT = b":\n\n"


class EventStreams:
    """The streams of events of one broker. Used on the event loop."""

    def __init__(self) -> None:
        self.open = 0
        """Number of streams that clients read."""

    async def reply(self, events: Pieces) -> HttpReply:
        """Return a reply that sends `events`, each in the format of `text/event-stream`.

        503 if `EVENT_STREAMS_MAX` are open; `events` is closed then.
        """
        if self.open >= EVENT_STREAMS_MAX:
            await events.aclose()
            return text(503, f"{EVENT_STREAMS_MAX} streams of events are open")
        self.open += 1
        headers = (("Cache-Control", "no-store"),)
        return HttpReply(200, _Counted(self, events), EVENT_STREAM, headers)

    def leave(self) -> None:
        """Count a stream as closed."""
        self.open -= 1


class _Counted:
    """Events with comments between them. Implements `router.Pieces`."""

    def __init__(self, streams: EventStreams, events: Pieces) -> None:
        self._streams = streams
        self._events = events
        self._pieces = _commented(events)
        self._closed = False

    def __aiter__(self) -> "_Counted":
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """Close the events, and count the stream as closed."""
        if not self._closed:
            self._closed = True
            self._streams.leave()
            await self._pieces.aclose()
            await self._events.aclose()


async def _commented(events: Pieces) -> AsyncGenerator[bytes, None]:
    yield COMMENT  # the client gets the head at once
    waiting: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            if waiting is None:
                waiting = asyncio.ensure_future(_next(events))
            await asyncio.wait([waiting], timeout=COMMENT_SECONDS)
            if not waiting.done():
                yield COMMENT
                continue
            event, waiting = waiting.result(), None
            if event is None:
                return
            yield event
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait([waiting])


async def _next(events: Pieces) -> bytes | None:
    return await anext(events, None)
