"""HTTP connections between requests: which may be closed, and which end with the broker."""

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from headrace.frontends.http import session
from headrace.frontends.http.endpoint import Endpoint
from headrace.frontends.http.router import HttpReply, HttpRequest, HttpRoute, text
from headrace.net.limits import HTTP_CONNECTIONS_MAX
from headrace.ports.clock import Timer
from tests.support.net.http_endpoint import asked, serving
from tests.support.net.net import until

pytestmark = pytest.mark.usefixtures("short_discards")

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"

Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def answered(address: tuple[str, int]) -> Link:
    """Return a connection whose first request is answered."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(GET)
    await reader.readuntil(b"ok\n")
    return reader, writer


@pytest.mark.parametrize("requests_before", [0, 1])
def test_a_connection_with_a_pending_answer_makes_room_for_no_other(requests_before: int) -> None:
    go_on = asyncio.Event()
    waiting = asyncio.Event()

    async def waits(_: HttpRequest) -> HttpReply:
        waiting.set()
        await go_on.wait()
        return text(200, "late")

    async def quick(_: HttpRequest) -> HttpReply:
        return text(200, "ok")

    async def story() -> None:
        routes = HttpRoute("GET", "/slow", waits), HttpRoute("GET", "/healthz", quick)
        async with serving(*routes) as served:
            reader, writer = await asyncio.open_connection(*served.address)
            for _ in range(requests_before):
                writer.write(GET)
                await reader.readuntil(b"ok\n")
            writer.write(GET.replace(b"/healthz", b"/slow"))
            await waiting.wait()
            others = [await answered(served.address) for _ in range(HTTP_CONNECTIONS_MAX - 1)]
            assert (await asked(served, LAST)).startswith(OK)
            go_on.set()
            async with asyncio.timeout(10):
                assert (await reader.readuntil(b"late\n")).startswith(OK)
            for _, each in [(reader, writer), *others]:
                each.close()

    asyncio.run(story())


@pytest.mark.parametrize("requests_before", [0, 1, 2])
def test_a_stop_ends_a_connection_between_two_requests(requests_before: int) -> None:
    async def story() -> None:
        async with serving() as served:
            reader, writer = await asyncio.open_connection(*served.address)
            for _ in range(requests_before):
                writer.write(GET)
                await reader.readuntil(b"ok\n")
            await until(lambda: served.connections == 1)
            async with asyncio.timeout(10):
                await Endpoint.close(served)
                assert await reader.read() == b""
            await until(lambda: not served.connections)
            writer.close()

    asyncio.run(story())


@pytest.mark.parametrize("line", [b"HEAD /nowhere", b"HEAD /healthz"])
def test_an_answer_to_head_has_no_body(line: bytes) -> None:
    async def story() -> bytes:
        async with serving() as served:
            return await asked(served, LAST.replace(b"GET /healthz", line))

    answer = asyncio.run(story())
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 0" not in answer


def test_a_refused_body_whose_end_never_comes_is_waited_for_only_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "DISCARD_SECONDS", 0.05)

    async def story() -> None:
        async with serving() as served:
            reader, writer = await asyncio.open_connection(*served.address)
            writer.write(GET[:-2] + b"Content-Length: 100000\r\n\r\n")
            async with asyncio.timeout(10):
                answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 413 ")
            with contextlib.suppress(OSError):
                writer.close()

    asyncio.run(story())


def test_bytes_after_a_refusal_are_no_request() -> None:
    async def story() -> None:
        async with serving() as served:
            reader, writer = await asyncio.open_connection(*served.address)
            writer.write(GET.replace(b"Host: x", b"Host: x\r\nContent-Length: 3"))
            answer = await reader.readuntil(b"here\n")
            assert answer.startswith(b"HTTP/1.1 413 ")
            writer.write(GET)
            async with asyncio.timeout(10):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(story())


def test_a_client_that_leaves_during_a_discard_leaves_no_timer() -> None:
    async def story() -> None:
        async with serving() as served:
            later, timers = served.call_later, list[Timer]()

            def noted(seconds: float, callback: Callable[[], None]) -> Timer:
                timers.append(Noted(later(seconds, callback)))
                return timers[-1]

            served.call_later = noted
            reader, writer = await asyncio.open_connection(*served.address)
            writer.write(GET[:-2] + b"Content-Length: 100000\r\n\r\n")
            await reader.readuntil(b"here\n")
            writer.transport.abort()
            await until(lambda: not served.connections)
            assert [timer.cancelled for timer in timers if isinstance(timer, Noted)] == [True]

    asyncio.run(story())


class Noted:
    """A timer that notes whether it was cancelled."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
        self._timer.cancel()
