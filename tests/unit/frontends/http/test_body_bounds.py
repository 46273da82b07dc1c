"""Bodies of HTTP requests: their bounds in time and memory, alone and together."""

import asyncio
import contextlib

import pytest

from headrace.frontends.http import bodies, endpoint, session
from headrace.frontends.http.endpoint import Endpoint
from headrace.frontends.http.router import (
    HttpReply,
    HttpRequest,
    HttpRoute,
)
from tests.support.net.http_bodies import MAX, ROUTES, answers, exchange
from tests.support.net.http_endpoint import asked, serving
from tests.support.net.http_requests import (
    CHUNKED,
    CLOSES,
    HEAD,
    open_link,
    sized,
)
from tests.support.net.net import until

pytestmark = pytest.mark.usefixtures("frequent_sweeps", "short_discards")


def test_a_body_that_is_not_complete_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS_MAX", 0.05)
    assert [status for status, _ in exchange(sized(b"body")[:-1])] == [408]


def test_the_time_of_a_handler_does_not_pass_while_it_waits_for_the_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS_MAX", 0.2)

    async def waits(request: HttpRequest) -> HttpReply:
        await request.body.read()
        await asyncio.Event().wait()
        raise AssertionError

    async def story() -> None:
        route = HttpRoute("PUT", "/echo", waits, MAX)
        async with serving(route) as served, open_link(served) as (reader, writer):
            request = sized(b"body", CLOSES)
            writer.write(request[:-1])
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await reader.read(1)
            writer.write(request[-1:])
            assert [status for status, _ in answers(await reader.read())] == [503]

    asyncio.run(story())


def test_all_bodies_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODIES_BYTES_MAX", 2 * MAX + 10)

    async def story() -> None:
        async with serving(*ROUTES) as served, contextlib.AsyncExitStack() as stack:
            links = [await stack.enter_async_context(open_link(served)) for _ in range(3)]
            for _, writer in links[:2]:
                writer.write(sized(bytes(MAX), CLOSES)[:-1])
            await until(lambda: served.body_bytes == 2 * MAX - 2)
            reader, writer = links[2]
            writer.write(sized(bytes(20), CLOSES))
            assert [status for status, _ in answers(await reader.read())] == [503]
            for reader, writer in links[:2]:
                writer.write(b"\0")
                assert answers(await reader.read()) == [(200, bytes(MAX))]
            await until(lambda: served.body_bytes == 0)

    asyncio.run(story())


def test_a_promised_length_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODIES_BYTES_MAX", MAX)

    async def story() -> None:
        async with serving(*ROUTES) as served, contextlib.AsyncExitStack() as stack:
            for _ in range(10):
                _, writer = await stack.enter_async_context(open_link(served))
                writer.write(sized(bytes(MAX))[: -MAX + 1])
            await until(lambda: served.body_bytes == 10)
            assert answers(await asked(served, sized(b"x" * (MAX - 10), CLOSES)))[0][0] == 200

    asyncio.run(story())


def test_a_client_that_leaves_midway_leaves_no_body() -> None:
    async def story() -> None:
        stopped = asyncio.Event()

        async def reads(request: HttpRequest) -> HttpReply:
            try:
                await request.body.read()
            finally:
                stopped.set()
            raise AssertionError

        async with serving(HttpRoute("PUT", "/echo", reads, MAX)) as served:
            async with open_link(served) as (_, writer):
                writer.write(sized(bytes(1000))[:-1])
                await until(lambda: served.body_bytes == 999)
            await asyncio.wait_for(stopped.wait(), 10)
            await until(lambda: not served.connections and not served.body_bytes)
            assert served.broken == []

    asyncio.run(story())


def test_a_stop_refuses_bodies_under_way() -> None:
    async def story() -> None:
        async with serving(*ROUTES) as served, open_link(served) as (reader, writer):
            writer.write(sized(bytes(1000))[:-1])
            await until(lambda: served.body_bytes == 999)
            await Endpoint.close(served)
            answer = await reader.read()
            assert [status for status, _ in answers(answer)] == [503]
            assert b"Connection: close\r\n" in answer

    asyncio.run(story())


def test_chunks_of_a_byte_are_refused_and_let_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "DISCARD_SECONDS", 5.0)
    tiny = (
        HEAD.replace(b"\r\nHost", b"\r\nConnection: close\r\nHost")
        + CHUNKED
        + b"1\r\nx\r\n" * 60_000
    )

    async def story() -> None:
        async with serving(*ROUTES) as served, open_link(served) as (reader, writer):
            writer.write(tiny)
            reading = asyncio.ensure_future(reader.readuntil(b"too small\n"))
            turns = 0
            while not reading.done():
                turns += 1
                await asyncio.sleep(0)
            assert (await reading).startswith(b"HTTP/1.1 400 ")
            chunks = bodies.FRAMING_BYTES_MAX // 5
            assert turns > chunks / bodies.EVENTS_MAX / 4

    asyncio.run(story())
