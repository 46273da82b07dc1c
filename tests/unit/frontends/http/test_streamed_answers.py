"""Answers whose body is made while the client reads it: framing, pressure, and early ends."""

import asyncio
import contextlib
import gzip
import logging
from collections.abc import AsyncGenerator, Callable

import pytest

from headrace.frontends.http import endpoint, sending, streams
from headrace.frontends.http.endpoint import Endpoint
from headrace.frontends.http.router import HttpReply, HttpRequest, HttpRoute, text
from headrace.model.invariant import InvariantError
from tests.support.net.http_endpoint import Served, asked, serving
from tests.support.net.http_requests import CLOSES, Answer, answers_in, open_link
from tests.support.net.net import limits_with, until

pytestmark = pytest.mark.usefixtures("frequent_sweeps", "short_discards")

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
LAST = GET + CLOSES + b"\r\n"
ROW = b"a row of a list " * 64


class Rows:
    """A handler whose reply has rows, and notes how many were made and whether it was closed."""

    def __init__(self, count: int, row: bytes = ROW, *, compresses: bool = False) -> None:
        self.count = count
        self.row = row
        self.compresses = compresses
        self.made = 0
        self.opened = self.closed = 0

    async def __call__(self, _: HttpRequest) -> HttpReply:
        return HttpReply(200, self.rows(), compresses=self.compresses)

    async def rows(self) -> AsyncGenerator[bytes, None]:
        """Yield the rows."""
        self.opened += 1
        try:
            for _ in range(self.count):
                self.made += 1
                yield self.row
        finally:
            self.closed += 1

    @property
    def whole(self) -> bytes:
        """The whole body."""
        return self.row * self.count


def route(handler: Callable[[HttpRequest], object]) -> HttpRoute:
    """Return the route of `/`."""
    return HttpRoute("GET", "/", handler)  # type: ignore[arg-type]  # a handler in each test


def exchange(rows: Rows, request: bytes) -> list[Answer]:
    """Return the answers of an endpoint of its own."""

    async def story() -> bytes:
        async with serving(route(rows)) as served:
            return await asked(served, request)

    found = answers_in(asyncio.run(story()))
    assert rows.opened == rows.closed
    return found


def test_a_long_body_is_sent_in_chunks_and_the_connection_is_kept() -> None:
    rows = Rows(1000)
    [first, second] = exchange(rows, GET + b"\r\n" + LAST)
    for answer in (first, second):
        assert answer.fields["transfer-encoding"] == "chunked"
        assert "content-length" not in answer.fields
        assert answer.body == rows.whole
    assert "connection" not in first.fields


def test_a_short_body_has_a_length() -> None:
    [answer] = exchange(Rows(10), LAST)
    assert answer.fields["content-length"] == str(10 * len(ROW))
    assert answer.body == ROW * 10
    [answer] = exchange(Rows(0), LAST)
    assert (answer.fields["content-length"], answer.body) == ("0", b"")


@pytest.mark.parametrize("size", [-1, 0, 1])
def test_a_body_at_the_border_is_complete(size: int) -> None:
    rows = Rows(1, bytes(streams.WHOLE_BYTES_MAX + size))
    [answer] = exchange(rows, LAST)
    assert answer.body == rows.whole
    assert ("transfer-encoding" in answer.fields) == (size > 0)


def test_http_1_0_reads_a_long_body_until_the_connection_ends() -> None:
    rows = Rows(1000)
    [answer] = exchange(rows, b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert "transfer-encoding" not in answer.fields
    assert answer.fields["connection"] == "close"
    assert answer.body == rows.whole


@pytest.mark.parametrize("count", [10, 1000])
def test_head_has_the_fields_of_get_and_no_body(count: int) -> None:
    async def story() -> bytes:
        async with serving(route(Rows(count))) as served:
            return await asked(served, LAST.replace(b"GET", b"HEAD"))

    sent = asyncio.run(story())
    assert sent.endswith(b"\r\n\r\n")
    length = b"Content-Length: %d\r\n" % (count * len(ROW))
    assert (length if count == 10 else b"Transfer-Encoding: chunked") in sent


@pytest.mark.parametrize("count", [10, 1000, 20_000])
def test_a_body_is_compressed_for_clients_that_accept_it(count: int) -> None:
    rows = Rows(count, compresses=True)
    accepts = GET + b"Accept-Encoding: br, gzip;q=0.5\r\n" + CLOSES + b"\r\n"
    [answer] = exchange(rows, accepts)
    assert answer.fields["content-encoding"] == "gzip"
    assert answer.fields["vary"] == "Accept-Encoding"
    assert gzip.decompress(answer.body) == rows.whole
    assert len(answer.body) < len(rows.whole) / 20
    [answer] = exchange(Rows(count, compresses=True), LAST)
    assert "content-encoding" not in answer.fields
    assert answer.fields["vary"] == "Accept-Encoding"
    assert answer.body == rows.whole


def test_bytes_are_compressed_if_they_are_many_and_their_handler_allows_it() -> None:
    async def story(size: int, *, compresses: bool = False) -> Answer:
        async def replies(_: HttpRequest) -> HttpReply:
            headers = (("vary", "accept"),)
            return HttpReply(200, bytes(size), headers=headers, compresses=compresses)

        async with serving(route(replies)) as served:
            request = GET + b"Accept-Encoding: gzip\r\n" + CLOSES + b"\r\n"
            [answer] = answers_in(await asked(served, request))
            assert answer.fields.get_all("vary") == ["accept"]
            return answer

    for size in (streams.GZIP_BYTES_MIN + 1, 1 << 20):
        answer = asyncio.run(story(size, compresses=True))
        assert answer.fields["content-length"] == str(len(answer.body))
        assert gzip.decompress(answer.body) == bytes(size)
        assert asyncio.run(story(size)).body == bytes(size)
    short = asyncio.run(story(streams.GZIP_BYTES_MIN, compresses=True))
    assert "content-encoding" not in short.fields


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ("", False),
        ("identity", False),
        ("gzip", True),
        ("deflate, GZIP", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("gzip;q=0.1", True),
        ("*", False),
    ],
)
def test_gzip_is_used_if_it_is_named(accepted: str, expected: bool) -> None:
    assert streams.accepts_gzip(accepted) == expected


def test_rows_are_made_as_the_client_reads_them() -> None:
    rows = Rows(30_000)

    async def story() -> None:
        limits = limits_with(connection_answer_bytes_max=65536)
        async with (
            serving(route(rows), limits=limits) as served,
            open_link(served, limit=1024) as (reader, writer),
        ):
            writer.write(LAST)
            await reader.readexactly(4)
            await asyncio.sleep(0.3)
            assert rows.made < rows.count / 4, "the rest waits for the client"
            sent = await reader.read()
            while part := await reader.read():
                sent += part
            assert rows.made == rows.count
            [answer] = answers_in(b"HTTP" + sent)
            assert answer.body == rows.whole

    asyncio.run(story())


def test_other_clients_are_answered_while_a_list_is_made() -> None:
    rows = Rows(1 << 40)

    async def quick(_: HttpRequest) -> HttpReply:
        return text(200, "ok")

    async def drain(reader: asyncio.StreamReader) -> None:
        while await reader.read(1 << 20):
            pass

    async def story() -> None:
        async with (
            serving(route(rows), HttpRoute("GET", "/quick", quick)) as served,
            open_link(served) as (reader, writer),
        ):
            writer.write(LAST)
            draining = asyncio.ensure_future(drain(reader))
            for _ in range(20):
                sent = await asked(served, LAST.replace(b"/ ", b"/quick "))
                assert answers_in(sent)[0].body == b"ok\n"
            assert rows.made
            draining.cancel()
        await until(lambda: rows.closed == 1)

    asyncio.run(story())


def test_rows_are_closed_when_the_client_leaves() -> None:
    rows = Rows(1 << 40)

    async def story() -> None:
        async with serving(route(rows)) as served:
            async with open_link(served) as (reader, writer):
                writer.write(LAST)
                await reader.readexactly(1 << 20)
            await until(lambda: rows.closed == 1)
            await until(lambda: not served.connections)
            assert served.broken == []

    asyncio.run(story())


def test_rows_are_closed_when_the_client_does_not_read() -> None:
    rows = Rows(1 << 40)

    async def story() -> None:
        limits = limits_with(connection_slow_reader_ms=200)
        async with (
            serving(route(rows), limits=limits) as served,
            open_link(served, limit=1024) as (reader, writer),
        ):
            writer.write(LAST)
            await reader.readexactly(4)
            await until(lambda: rows.closed == 1)
            await until(lambda: not served.connections)

    asyncio.run(story())


@pytest.mark.parametrize("made", [0, 1000])
def test_rows_that_fail_leave_no_whole_answer(made: int, caplog: pytest.LogCaptureFixture) -> None:
    problems: list[Exception] = [ValueError("odd"), InvariantError("broken")]

    async def fails(_: HttpRequest) -> HttpReply:
        async def rows() -> AsyncGenerator[bytes, None]:
            for _ in range(made):
                yield ROW
            raise problems[0]

        return HttpReply(200, rows())

    async def story() -> list[Exception]:
        async with serving(route(fails)) as served:
            for _ in range(2):
                sent = await torn(served, LAST)
                if made:
                    with pytest.raises(ValueError):  # noqa: PT011 - wherever it is torn
                        answers_in(sent or b"\r\n\r\n")
                else:
                    assert answers_in(sent)[0].status == 500
                if len(problems) == 2:
                    assert "ValueError: odd" in caplog.text
                    del problems[0]
            return served.broken

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(story()) == [problems[0]], "a broken invariant stops the process"


async def torn(served: Served, request: bytes) -> bytes:
    """Return what is sent until the connection ends, in whichever way."""
    async with open_link(served) as (reader, writer):
        writer.write(request)
        sent = b""
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(1 << 16):
                sent += part
        return sent


def test_a_row_that_takes_too_long_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PIECE_SECONDS_MAX", 0.05)
    closed = []

    async def hangs(_: HttpRequest) -> HttpReply:
        async def rows() -> AsyncGenerator[bytes, None]:
            try:
                yield bytes(2 * streams.WHOLE_BYTES_MAX)
                await asyncio.Event().wait()
            finally:
                closed.append(True)

        return HttpReply(200, rows())

    async def story() -> None:
        async with serving(route(hangs)) as served:
            sent = await torn(served, LAST)
            with pytest.raises(ValueError):  # noqa: PT011 - wherever it is torn
                answers_in(sent or b"\r\n\r\n")
            await until(lambda: not served.connections)

    asyncio.run(story())
    assert closed


def test_a_list_that_does_not_begin_in_time_is_answered_503(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "ANSWER_SECONDS_MAX", 0.05)

    async def hangs(_: HttpRequest) -> HttpReply:
        async def rows() -> AsyncGenerator[bytes, None]:
            yield ROW
            await asyncio.Event().wait()

        return HttpReply(200, rows())

    async def story() -> bytes:
        async with serving(route(hangs)) as served:
            return await asked(served, LAST)

    assert answers_in(asyncio.run(story()))[0].status == 503


def test_a_stop_sends_the_list_under_way_and_ends_the_connection() -> None:
    rows = Rows(20_000)

    async def story() -> None:
        async with serving(route(rows)) as served, open_link(served, limit=1024) as link:
            reader, writer = link
            writer.write(GET + b"\r\n")
            sent = await reader.readexactly(4)
            stopping = asyncio.ensure_future(Endpoint.close(served))
            while part := await reader.read(1 << 16):
                sent += part
            await stopping
            [answer] = answers_in(sent)
            assert answer.body == rows.whole

    asyncio.run(story())


def test_a_stop_cuts_off_a_list_that_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "STOP_SECONDS_MAX", 0.2)
    rows = Rows(1 << 40)

    async def story() -> None:
        async with (
            serving(route(rows)) as served,
            open_link(served, limit=1024) as (reader, writer),
        ):
            writer.write(GET + b"\r\n")
            await reader.readexactly(4)
            async with asyncio.timeout(10):
                await Endpoint.close(served)
            assert rows.closed == 1
            await until(lambda: not served.connections)

    asyncio.run(story())
