"""The HTTP endpoint: the answers of its paths, and its address."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from headrace.model.errors import ConfigError
from headrace.net.limits import HTTP_CONNECTIONS_MAX
from headrace.observe.metrics import Metrics
from headrace.posix.network import RealNetwork
from tests.support.net.http_endpoint import Served, asked, exchange, serving
from tests.support.net.net import limits_with, until

pytestmark = pytest.mark.usefixtures("short_discards")

FIELDS = b"Host: x\r\nConnection: close\r\n\r\n"


def get(path: str, *, healthy: bool = True) -> bytes:
    request = f"GET {path} HTTP/1.1\r\n".encode() + FIELDS
    return asyncio.run(exchange(request, healthy=healthy))


def test_metrics_are_prometheus_text() -> None:
    head, _, body = get("/metrics").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/plain; version=" in head
    assert b"headrace_flush_seconds_bucket" in body


def test_health_says_when_no_log_directory_works() -> None:
    assert get("/healthz").startswith(b"HTTP/1.1 200")
    assert get("/healthz", healthy=False).startswith(b"HTTP/1.1 503")


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"GET /other HTTP/1.1\r\n" + FIELDS, b"404"),
        (b"GET /../etc/passwd HTTP/1.1\r\n" + FIELDS, b"404"),
        (b"POST /metrics HTTP/1.1\r\n" + FIELDS, b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1 more\r\n" + FIELDS, b"400"),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", b"200"),
        (b"GET http://other/metrics?x=1 HTTP/1.1\r\n" + FIELDS, b"200"),
    ],
)
def test_it_answers_with_the_code(request_: bytes, code: bytes) -> None:
    assert asyncio.run(exchange(request_)).startswith(b"HTTP/1.1 " + code)


def test_head_has_no_body() -> None:
    answer = asyncio.run(exchange(b"HEAD /healthz HTTP/1.1\r\n" + FIELDS))
    assert answer.endswith(b"\r\n\r\n")


def test_a_taken_port_is_said_in_one_line() -> None:
    async def twice() -> None:
        async with serving() as first:
            second = Served([], limits_with())
            with pytest.raises(ConfigError, match="in use"):
                await second.listen(*first.address)

    asyncio.run(twice())


def test_scrapes_at_one_time_share_a_collection_and_the_loop_turns() -> None:
    turns: list[str] = []
    metrics = Metrics()

    def slices() -> Iterator[None]:
        turns.append("survey")
        for _ in range(20):
            yield

    metrics.survey("slow", slices)

    async def process() -> bytes:
        turns.append("process")
        await asyncio.sleep(0.05)
        return b"process_cpu_seconds_total 1.0\n"

    async def story() -> None:
        async with serving(metrics=metrics, process=process) as served:

            async def scrape() -> bytes:
                answer = await asked(served, b"GET /metrics HTTP/1.1\r\n" + FIELDS)
                return answer.partition(b"\r\n\r\n")[2]

            first, *others = await asyncio.gather(*[scrape() for _ in range(5)])
            assert first.startswith(b"process_cpu_seconds_total 1.0\n")
            assert others == [first] * 4
            assert turns == ["process", "survey"]
            await scrape()
            assert turns == ["process", "survey"] * 2, "numbers are not kept"

    asyncio.run(story())


INDEX = b"headrace: /metrics /healthz /ready\n"


@pytest.mark.parametrize(
    ("line", "healthy", "status", "body"),
    [
        (b"GET / HTTP/1.1", True, b"200 OK", INDEX),
        (b"GET /healthz HTTP/1.1", True, b"200 OK", b"ok\n"),
        (b"GET /healthz?x HTTP/1.1", False, b"503 Service Unavailable", b"not healthy\n"),
        (b"GET /x HTTP/1.1", True, b"404 Not Found", b"not found\n"),
        (b"GET / HTTP/1.0", True, b"200 OK", INDEX),
        (b"GET / HTTP/2.0", True, b"400 Bad Request", b"bad request\n"),
        (b"HEAD /healthz HTTP/1.1", True, b"200 OK", b""),
    ],
)
def test_an_answer_is_this_to_the_byte(
    line: bytes, healthy: bool, status: bytes, body: bytes
) -> None:
    length = 3 if line.startswith(b"HEAD") else len(body)
    assert asyncio.run(exchange(line + b"\r\n" + FIELDS, healthy=healthy)) == (
        b"HTTP/1.1 %b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
        b"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%b" % (status, length, body)
    )


def test_another_method_is_refused_with_those_that_are_allowed() -> None:
    assert asyncio.run(exchange(b"PUT / HTTP/1.1\r\n" + FIELDS)) == (
        b"HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\n"
        b"Content-Length: 18\r\nX-Content-Type-Options: nosniff\r\nAllow: GET, HEAD\r\n"
        b"Connection: close\r\n\r\nonly GET and HEAD\n"
    )


def test_so_many_connections_are_served_at_once_and_their_places_come_free() -> None:
    async def story() -> None:
        async with serving() as served, asyncio.timeout(20):
            host, port = served.address
            for _ in range(2):
                links = [
                    await asyncio.open_connection(host, port) for _ in range(HTTP_CONNECTIONS_MAX)
                ]
                await until(lambda: served.connections == HTTP_CONNECTIONS_MAX)
                reader, writer = await asyncio.open_connection(host, port)
                with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)  # one too many
                writer.close()
                for reader, writer in links:
                    writer.write(b"GET /healthz HTTP/1.1\r\n" + FIELDS)
                    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
                    writer.close()
                await until(lambda: not served.connections)
            await served.close()
            await served.close()
            with pytest.raises(OSError, match="Connect"):
                await asyncio.open_connection(host, port)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(98, "error while attempting to bind"), "address already in use"),
        (OSError(1, "its words"), "operation not permitted"),
        (OSError("words alone"), "words alone"),
        (socket.gaierror(-2, "Name or service not known"), "name or service not known"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_said_with_the_systems_reason(
    error: OSError, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    async def listen() -> None:
        await Served([], limits_with()).listen("h", 7)

    monkeypatch.setattr(RealNetwork, "listen", refuse)
    with pytest.raises(ConfigError) as refused:
        asyncio.run(listen())
    assert str(refused.value) == f"metrics.listener=h:7: {reason}"
