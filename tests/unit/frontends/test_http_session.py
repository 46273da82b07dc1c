"""HTTP connections on `net`: heads, bodies, pipelines, slow clients, and the end."""

import asyncio
import contextlib
import logging

import pytest

from headrace.frontends.http import endpoint, session
from headrace.frontends.http.heads import HEAD_BYTES_MAX
from headrace.frontends.http.router import HttpReply, HttpRequest, HttpRoute, text
from headrace.frontends.http.session import REQUESTS_MAX
from headrace.model.invariant import InvariantError
from headrace.net.limits import HTTP_CONNECTIONS_MAX
from tests.support.net.http_endpoint import Served, asked, exchange, serving
from tests.support.net.net import limits_with, until

pytestmark = pytest.mark.usefixtures("frequent_sweeps", "short_discards")

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
FIELD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


def status(answer: bytes) -> int:
    """Return the first answer's status."""
    return int(answer[9:12])


def of(reply: HttpReply) -> HttpRoute:
    """Return a route whose handler answers `reply`."""

    async def handler(_: HttpRequest) -> HttpReply:
        return reply

    return HttpRoute("GET", "/", handler)


def test_a_connection_is_kept_for_the_next_request() -> None:
    async def story() -> None:
        async with serving() as served:
            reader, writer = await asyncio.open_connection(*served.address)
            for _ in range(3):
                writer.write(GET)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(OK)
                assert b"Connection" not in head
                assert await reader.readexactly(3) == b"ok\n"
            writer.close()

    asyncio.run(story())


def test_a_head_may_come_byte_by_byte() -> None:
    async def story() -> bytes:
        async with serving() as served:
            return await asked(served, *(LAST[at : at + 1] for at in range(len(LAST))))

    assert asyncio.run(story()).startswith(OK)


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"GET /healthz HTTP/1.1\nHost: x\n\n", 400),
        (FIELD + b"A: b\n\r\n", 400),
        (FIELD + b"A: b\r\n folded\r\n\r\n", 400),
        (b"\r\n" + GET, 400),
        (b"\x00\x00\x00\x10\x00\x80", 400),
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (FIELD + b"A : b\r\n\r\n", 400),
        (FIELD + b"A: \x00\r\n\r\n", 400),
        (FIELD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (FIELD + b"Content-Length: 3, 4\r\n\r\nabcd", 400),
        (FIELD + b"Content-Length: -1\r\n\r\n", 400),
        (FIELD + b"Content-Length: 0\r\n\r\n", 200),
        (FIELD + b"Content-Length: 3\r\n\r\nabc", 413),
        (FIELD + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n", 413),
        (FIELD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + GET, 413),
        (FIELD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
        (FIELD + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n", 405),
        (b"POST /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * HEAD_BYTES_MAX, 431),
        (b"GET /" + b"x" * HEAD_BYTES_MAX, 414),
    ],
)
def test_a_hostile_head_is_refused_and_the_connection_ends(head: bytes, code: int) -> None:
    refused = code not in {200, 404}
    answer = asyncio.run(
        exchange(head if refused else head.replace(b"x\r\n", b"x\r\nConnection: close\r\n"))
    )
    assert status(answer) == code
    assert answer.count(b"HTTP/1.1 ") == 1, "nothing behind it is taken for a request"
    assert b"\r\nConnection: close\r\n" in answer


def test_a_head_of_the_longest_size_is_answered() -> None:
    filled = LAST[:-2] + b"A: " + b"x" * (HEAD_BYTES_MAX - len(LAST) - 5) + b"\r\n\r\n"
    assert len(filled) == HEAD_BYTES_MAX
    assert status(asyncio.run(exchange(filled))) == 200
    assert status(asyncio.run(exchange(filled.replace(b"A: ", b"A: x")))) == 431


def test_a_refused_body_is_discarded_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "DISCARD_SECONDS", 20.0)

    async def story() -> tuple[bytes, int]:
        async with serving() as served:
            reader, writer = await asyncio.open_connection(*served.address)
            writer.write(FIELD + b"Content-Length: 100000000\r\n\r\n")
            answer = await reader.readuntil(b"here\n")
            sent = 0
            with contextlib.suppress(OSError):
                while sent < 100_000_000:
                    writer.write(bytes(1 << 16))
                    await writer.drain()
                    sent += 1 << 16
            writer.close()
            return answer, sent

    answer, sent = asyncio.run(story())
    assert status(answer) == 413
    assert session.DISCARD_BYTES_MAX < sent < 50_000_000


def test_a_hundred_pipelined_requests_are_answered_in_order() -> None:
    heads = [
        b"%b /%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"HEAD" if n % 7 == 3 else b"GET", path)
        for n in range(99)
        for path in [b"healthz" if n % 3 else b"nowhere"]
    ]
    answer = asyncio.run(exchange(b"".join(heads) + LAST))
    codes = [int(line[:3]) for line in answer.split(b"HTTP/1.1 ")[1:]]
    assert codes == [200 if n % 3 else 404 for n in range(99)] + [200]


def test_a_connection_has_so_many_requests() -> None:
    answer = asyncio.run(exchange(GET * (REQUESTS_MAX + 5)))
    assert answer.count(OK) == REQUESTS_MAX
    assert answer.count(b"Connection: close") == 1


def test_pipelined_requests_wait_while_answers_are_unread() -> None:
    handled: list[str] = []
    size = 1 << 20

    async def big(request: HttpRequest) -> HttpReply:
        handled.append(request.path)
        return text(200, "x" * size)

    async def story() -> None:
        limits = limits_with(connection_answer_bytes_max=65536)
        async with serving(HttpRoute("GET", "/", big), limits=limits) as served:
            reader, writer = await asyncio.open_connection(*served.address, limit=1024)
            count = 200
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * count)
            await reader.readexactly(4)
            await asyncio.sleep(0.3)
            assert len(handled) < 20, "the rest waits in the receive buffer"
            got = 4
            while got < size * count:
                piece = await reader.read(1 << 20)
                assert piece, "the connection was dropped"
                got += len(piece)
            assert len(handled) == count
            writer.close()

    asyncio.run(story())


def test_a_client_that_does_not_read_is_cut_off_when_its_time_is_up() -> None:
    size = 64 << 20

    async def ask() -> tuple[int, int]:
        limits = limits_with(connection_slow_reader_ms=300)
        async with serving(of(HttpReply(200, bytes(size))), limits=limits) as served:
            reader, writer = await asyncio.open_connection(*served.address, limit=1024)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            got = len(await reader.readexactly(4))
            taken = served.connections
            await until(lambda: not served.connections)
            async with asyncio.timeout(30):
                with contextlib.suppress(ConnectionResetError):
                    while part := await reader.read(1 << 20):
                        got += len(part)
            writer.close()
        return taken, got

    taken, got = asyncio.run(ask())
    assert taken == 1
    assert got < size


@pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\n"])
def test_a_first_request_that_does_not_come_is_not_waited_for(begin: bytes) -> None:
    async def story() -> bytes:
        async with serving(limits=limits_with(connection_first_request_ms=100)) as served:
            with contextlib.suppress(ConnectionResetError):
                return await asked(served, begin)
            return b""

    assert asyncio.run(story()) == b""


def test_a_later_request_that_does_not_come_whole_is_not_waited_for() -> None:
    async def story() -> None:
        limits = limits_with(connection_request_receive_ms=300)
        async with serving(limits=limits) as served:
            reader, writer = await asyncio.open_connection(*served.address)
            writer.write(GET + GET[:-2])
            await reader.readuntil(b"ok\n")
            await until(lambda: not served.connections)
            writer.close()

    asyncio.run(story())


def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "KEEP_ALIVE_SECONDS", 0.1)

    async def story() -> None:
        async with serving() as served:
            reader, writer = await asyncio.open_connection(*served.address)
            writer.write(GET)
            await reader.readuntil(b"ok\n")
            await until(lambda: not served.connections)
            writer.close()

    asyncio.run(story())


def test_an_idle_connection_makes_room_for_another_client() -> None:
    async def story() -> None:
        async with serving() as served:
            links = []
            for _ in range(HTTP_CONNECTIONS_MAX):
                reader, writer = await asyncio.open_connection(*served.address)
                writer.write(GET)
                await reader.readuntil(b"ok\n")
                links.append((reader, writer))
            assert (await asked(served, LAST)).startswith(OK)
            with contextlib.suppress(ConnectionResetError):
                assert await links[0][0].read() == b"", "idle for longest"
            links[1][1].write(GET)
            assert (await links[1][0].readuntil(b"ok\n")).startswith(OK)
            for _, writer in links:
                writer.close()

    asyncio.run(story())


def test_a_client_that_half_closes_gets_the_answers_it_asked_for() -> None:
    async def slow(_: HttpRequest) -> HttpReply:
        await asyncio.sleep(0.05)
        return text(200, "ok")

    async def story() -> bytes:
        async with serving(HttpRoute("GET", "/healthz", slow)) as served:
            reader, writer = await asyncio.open_connection(*served.address)
            writer.write(GET * 3)
            writer.write_eof()
            async with asyncio.timeout(5):
                answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(story()).count(OK) == 3


def test_a_handler_that_fails_answers_500_and_logs_the_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    problems: list[Exception] = [ValueError("odd"), InvariantError("broken")]

    async def fails(_: HttpRequest) -> HttpReply:
        raise problems[0]

    async def story() -> list[Exception]:
        async with serving(HttpRoute("GET", "/healthz", fails)) as served:
            assert (await asked(served, GET, LAST)).count(b"HTTP/1.1 500 ") == 2
            assert "please report it" in caplog.text
            assert "ValueError: odd" in caplog.text
            del problems[0]
            await asked(served, LAST)
            return served.broken

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(story()) == [problems[0]], "a broken invariant stops the process"


def test_a_handler_that_takes_too_long_answers_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS_MAX", 0.05)

    async def waits(_: HttpRequest) -> HttpReply:
        await asyncio.Event().wait()
        raise AssertionError

    async def story() -> bytes:
        async with serving(HttpRoute("GET", "/healthz", waits)) as served:
            return await asked(served, LAST)

    assert status(asyncio.run(story())) == 503


class Waiting:
    """A handler that waits until it is stopped, and notes both."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, _: HttpRequest) -> HttpReply:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        raise AssertionError


def test_a_lost_connection_stops_its_handler() -> None:
    async def story() -> None:
        waiting = Waiting()
        async with serving(HttpRoute("GET", "/healthz", waiting)) as served:
            _, writer = await asyncio.open_connection(*served.address)
            writer.write(GET)
            await waiting.begun.wait()
            served.table.abort()
            async with asyncio.timeout(endpoint.ANSWER_SECONDS_MAX / 2):
                await waiting.ended.wait()
            await until(lambda: not served.connections)
            writer.close()

    asyncio.run(story())


def test_a_handler_whose_client_has_left_ends_with_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nothing is read while an answer is pending, so that the client may half-close: that it has
    # left shows when the answer is sent, and the time for an answer bounds that.
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS_MAX", 0.05)

    async def story() -> None:
        waiting = Waiting()
        async with serving(HttpRoute("GET", "/healthz", waiting)) as served:
            _, writer = await asyncio.open_connection(*served.address)
            writer.write(GET)
            await waiting.begun.wait()
            writer.transport.abort()
            await until(lambda: not served.connections and waiting.ended.is_set())
            assert served.broken == []

    asyncio.run(story())


def test_a_stop_sends_the_answers_under_way() -> None:
    asked_for = asyncio.Event()

    async def slow(_: HttpRequest) -> HttpReply:
        asked_for.set()
        await asyncio.sleep(0.1)
        return text(200, "late")

    async def story() -> bytes:
        async with serving(HttpRoute("GET", "/healthz", slow)) as served:
            idle, other = await asyncio.open_connection(*served.address)
            reader, writer = await asyncio.open_connection(*served.address)
            writer.write(GET)
            await asked_for.wait()
            await Served.close(served)
            answer = await reader.read()
            assert await idle.read() == b""
            writer.close()
            other.close()
            return answer

    answer = asyncio.run(story())
    assert answer.endswith(b"Connection: close\r\n\r\nlate\n")
