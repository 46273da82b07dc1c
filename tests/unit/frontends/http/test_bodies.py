"""Bodies of HTTP requests: whole in any split, within bounds, and refused where they are not."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from headrace.frontends.http import session
from headrace.frontends.http.router import (
    BodyRefused,
    HttpReply,
    HttpRequest,
    HttpRoute,
    text,
)
from tests.support.net.http_bodies import LAST, MAX, ROUTES, answers, exchange
from tests.support.net.http_endpoint import asked, serving
from tests.support.net.http_requests import (
    CHUNKED,
    CLOSES,
    HEAD,
    chunked,
    open_link,
    sized,
)
from tests.support.net.net import until

pytestmark = pytest.mark.usefixtures("frequent_sweeps", "short_discards")


def splits(request: bytes) -> Iterator[list[bytes]]:
    """Yield the request cut in two at every place."""
    for at in range(1, len(request)):
        yield [request[:at], request[at:]]


@pytest.mark.parametrize("request_", [sized(b"some body"), chunked(b"so", b"me ", b"body")])
def test_a_request_is_answered_alike_in_any_split(request_: bytes) -> None:
    async def story() -> None:
        async with serving(*ROUTES) as served:
            for pieces in splits(request_ + LAST):
                async with open_link(served) as (reader, writer):
                    for piece in pieces:
                        writer.write(piece)
                        await asyncio.sleep(0.002)
                    assert answers(await reader.read()) == [(200, b"some body"), (200, b"none\n")]
            async with open_link(served) as (reader, writer):
                for at in range(len(request_ + LAST)):
                    writer.write((request_ + LAST)[at : at + 1])
                    await asyncio.sleep(0)
                assert answers(await reader.read()) == [(200, b"some body"), (200, b"none\n")]

    asyncio.run(story())


def test_pipelined_bodies_are_answered_in_order() -> None:
    body = bytes(range(256)) * 300
    requests = [
        sized(body[:n]) if n % 2 else chunked(body[:n], body[n : 2 * n]) for n in range(1, 40)
    ]
    expected = [(200, body[:n] if n % 2 else body[: 2 * n]) for n in range(1, 40)]
    assert exchange(b"".join(requests) + LAST) == [*expected, (200, b"none\n")]


def test_a_body_of_the_longest_size_is_accepted() -> None:
    longest = bytes(MAX)
    assert exchange(sized(longest), LAST) == [(200, longest), (200, b"none\n")]
    assert exchange(chunked(longest), LAST) == [(200, longest), (200, b"none\n")]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (sized(bytes(MAX + 1)), 413),
        (HEAD + b"Content-Length: 999999999999999999\r\n\r\n", 413),
        (chunked(bytes(MAX), b"x"), 413),
        (HEAD + CHUNKED + b"FFFFFFFFFFFFFFFF\r\n" + bytes(MAX + 1), 413),
        (HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
        (HEAD + b"Content-Length: 3\r\n" + CHUNKED + b"0\r\n\r\n", 400),
        (HEAD.replace(b"1.1", b"1.0") + CHUNKED + b"0\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: identity\r\n\r\n", 501),
        (HEAD + CHUNKED + b"zz\r\n", 400),
        (HEAD + CHUNKED + b"-1\r\n", 400),
        (HEAD + CHUNKED + b"1\nx\r\n0\r\n\r\n", 400),
        (HEAD + CHUNKED + b"1\r\nx\n0\r\n\r\n", 400),
        (HEAD + CHUNKED + b"1;a\nb\r\nx\r\n0\r\n\r\n", 400),
        (HEAD + CHUNKED + b"1\r\nxy\r\n0\r\n\r\n", 400),
        (HEAD + CHUNKED + b"1\r\nx\r\n0\r\n\n", 400),
        (HEAD + CHUNKED + b"1\r\nx\r\n0\r\nA: b\n\n", 400),
        (HEAD + CHUNKED + b"1\r\nx\r\n0\r\nA: b\r\n\r\n", 400),
        (HEAD + CHUNKED + b"1;" + b"x" * 9000 + b"\r\n", 400),
    ],
)
def test_a_hostile_body_is_refused_and_the_connection_ends(request_: bytes, status: int) -> None:
    found = exchange(request_ + LAST)
    assert [code for code, _ in found] == [status], "nothing behind it is taken for a request"


def test_a_client_that_waits_is_asked_for_its_body() -> None:
    async def story() -> None:
        async with serving(*ROUTES) as served, open_link(served) as (reader, writer):
            request = sized(b"body", b"Expect: 100-continue\r\n")
            writer.write(request[:-4])
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(request[-4:] + LAST)
            assert answers(await reader.read()) == [(200, b"body"), (200, b"none\n")]

    asyncio.run(story())


@pytest.mark.parametrize("path", [b"/refuses", b"/echo", b"/none", b"/nowhere"])
def test_a_client_that_waits_is_not_asked_for_a_refused_body(path: bytes) -> None:
    head = HEAD.replace(b"/echo", path) + b"Expect: 100-continue\r\nContent-Length: 200000\r\n\r\n"
    [(status, _)] = exchange(head)
    assert status == {b"/refuses": 401, b"/echo": 413, b"/none": 405, b"/nowhere": 404}[path]


def test_a_small_body_that_no_handler_reads_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "DISCARD_SECONDS", 20.0)
    refused = [each.replace(b"/echo", b"/refuses") for each in (sized(b"abc"), chunked(b"a", b"b"))]
    expected = [(401, b"who is it\n"), (401, b"who is it\n"), (200, b"none\n")]
    assert exchange(b"".join(refused) + LAST) == expected
    assert exchange(refused[0], refused[1][:-4], refused[1][-4:] + LAST) == expected


def test_a_large_body_that_no_handler_reads_ends_the_connection() -> None:
    head = HEAD.replace(b"/echo", b"/refuses")
    large = b"Content-Length: %d\r\n\r\n" % (session.DISCARD_BYTES_MAX + 1)
    assert [status for status, _ in exchange(head + large)] == [401]
    late = head + b"Content-Length: 5\r\n\r\n"
    assert [status for status, _ in exchange(late)] == [401], "the rest never comes"


def test_a_handler_may_answer_a_refused_body_itself() -> None:
    async def story() -> None:
        async def catches(request: HttpRequest) -> HttpReply:
            try:
                await request.body.read()
            except BodyRefused as refused:
                with pytest.raises(BodyRefused):
                    await request.body.read()
                return text(refused.status, f"caught {refused.reason}")
            raise AssertionError

        async with serving(HttpRoute("PUT", "/echo", catches, 4)) as served:
            answer = await asked(served, sized(b"12345") + LAST)
            assert answers(answer) == [(413, b"caught a body has at most 4 bytes here\n")]

    asyncio.run(story())


def test_a_body_that_is_read_twice_is_the_same() -> None:
    async def story() -> None:
        async def twice(request: HttpRequest) -> HttpReply:
            return HttpReply(200, bytes(await request.body.read() + await request.body.read()))

        async with serving(HttpRoute("PUT", "/echo", twice, 4)) as served:
            assert answers(await asked(served, sized(b"1234", CLOSES))) == [(200, b"12341234")]

    asyncio.run(story())


def test_a_body_that_is_given_up_ends_the_connection() -> None:
    async def story() -> None:
        async def gives_up(request: HttpRequest) -> HttpReply:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(request.body.read(), 0.05)
            return text(200, "gave up")

        async with serving(HttpRoute("PUT", "/echo", gives_up, 40)) as served:
            answer = await asked(served, sized(b"1234")[:-1])
            assert answers(answer) == [(200, b"gave up\n")]
            assert b"Connection: close" in answer

    asyncio.run(story())


def test_a_route_gets_query_headers_and_values() -> None:
    seen: list[HttpRequest] = []

    async def notes(request: HttpRequest) -> HttpReply:
        seen.append(request)
        return text(204, "")._replace(body=b"")

    async def story() -> bytes:
        async with serving(HttpRoute("GET", "/queues/{vhost}/{name}", notes)) as served:
            head = b"GET /queues/%2F/a%20b?x=1 HTTP/1.1\r\nHost: x\r\nAccept: a\r\naccept: b\r\n"
            return await asked(served, head + CLOSES + b"\r\n")

    answer = asyncio.run(story())
    assert answer.startswith(b"HTTP/1.1 204 No Content\r\n")
    assert b"Content-Length" not in answer
    [request] = seen
    assert (request.path, request.query) == ("/queues/%2F/a%20b", "x=1")
    assert request.values == {"vhost": "/", "name": "a b"}
    assert request.header(b"accept") == "a, b"
    assert request.header(b"absent") == ""


@pytest.mark.parametrize("cut", [0, 1, 40, 60])
def test_a_client_that_half_closes_behind_a_body_gets_its_answer(cut: int) -> None:
    async def story() -> None:
        request = sized(b"some body")
        async with serving(*ROUTES) as served, open_link(served) as (reader, writer):
            writer.write(request[:cut])
            await asyncio.sleep(0.01)
            writer.write(request[cut:])
            writer.write_eof()
            assert answers(await reader.read()) == [(200, b"some body")]

    asyncio.run(story())


def test_a_client_that_half_closes_within_a_body_gets_none() -> None:
    async def story() -> None:
        async with serving(*ROUTES) as served, open_link(served) as (reader, writer):
            writer.write(sized(b"some body")[:-1])
            writer.write_eof()
            assert await reader.read() == b""
            await until(lambda: not served.connections and not served.body_bytes)

    asyncio.run(story())
