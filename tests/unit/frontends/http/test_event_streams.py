"""Streams of events: sent at once, commented in silence, bounded in number."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from headrace.frontends.http import events
from headrace.frontends.http.endpoint import Endpoint
from headrace.frontends.http.events import EventStreams
from headrace.frontends.http.router import HttpReply, HttpRequest, HttpRoute
from tests.support.net.http_endpoint import asked, serving
from tests.support.net.http_requests import CLOSES, answers_in, open_link
from tests.support.net.net import until

pytestmark = pytest.mark.usefixtures("frequent_sweeps", "short_discards")

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
LAST = GET + CLOSES + b"\r\n"


class Ticks:
    """A handler whose reply is a stream of events, each sent when it is given."""

    def __init__(self) -> None:
        self.streams = EventStreams()
        self.given: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = 0
        self.route = HttpRoute("GET", "/", self)

    async def __call__(self, _: HttpRequest) -> HttpReply:
        return await self.streams.reply(self.events())

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield what is given, until None."""
        try:
            while (event := await self.given.get()) is not None:
                yield b"data: %b\n\n" % event
        finally:
            self.closed += 1


def test_events_are_sent_at_once_with_comments_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "COMMENT_SECONDS", 0.05)

    async def story() -> None:
        ticks = Ticks()
        async with (
            serving(ticks.route) as served,
            open_link(served) as (reader, writer),
        ):
            writer.write(GET + b"Accept-Encoding: gzip\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"Content-Type: text/event-stream\r\n" in head
            assert b"Content-Encoding" not in head
            for event in (b"one", b"two"):
                ticks.given.put_nowait(event)
                await reader.readuntil(b"data: %b\n\n" % event)
                await reader.readuntil(b"\r\n:\n\n\r\n")
            assert ticks.streams.open == 1
            ticks.given.put_nowait(None)
            await reader.readuntil(b"0\r\n\r\n")
            assert ticks.streams.open == 0
            writer.write(LAST.replace(b"/ ", b"/nowhere "))
            assert answers_in(await reader.read())[0].status == 404

    asyncio.run(story())


def test_streams_of_events_are_bounded_and_their_places_come_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "EVENT_STREAMS_MAX", 2)
    monkeypatch.setattr(events, "COMMENT_SECONDS", 0.05)

    async def story() -> None:
        ticks = Ticks()
        async with serving(ticks.route) as served:
            async with open_link(served) as first, open_link(served) as second:
                for reader, writer in (first, second):
                    writer.write(GET + b"\r\n")
                    await reader.readuntil(b":\n\n")
                assert answers_in(await asked(served, LAST))[0].status == 503
                assert answers_in(await asked(served, LAST))[0].status == 503
            await until(lambda: not ticks.streams.open and ticks.closed == 2)
            sent = await asked(served, LAST.replace(b"GET", b"HEAD"))
            assert sent.startswith(b"HTTP/1.1 200 ")
            assert ticks.streams.open == 0

    asyncio.run(story())


def test_a_stop_ends_streams_of_events_as_whole_answers() -> None:
    async def story() -> None:
        ticks = Ticks()
        async with (
            serving(ticks.route) as served,
            open_link(served) as (reader, writer),
        ):
            writer.write(GET + b"\r\n")
            sent = await reader.readuntil(b":\n\n\r\n")
            async with asyncio.timeout(5):
                await Endpoint.close(served)
            [answer] = answers_in(sent + await reader.read())
            assert answer.body == b":\n\n"
            assert (ticks.closed, ticks.streams.open) == (1, 0)

    asyncio.run(story())
