"""The HTTP endpoint: its few answers, and what it refuses."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from headrace.frontends.http import endpoint
from headrace.frontends.http.endpoint import CONNECTIONS_MAX, REQUEST_BYTES_MAX, Endpoint
from headrace.model.errors import ConfigError
from headrace.observe.metrics import Metrics
from tests.support.http_endpoint import exchange
from tests.support.net import until


def get(path: str, *, healthy: bool = True) -> bytes:
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
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
        (b"GET /other HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1 more\r\n\r\n", b"400"),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", b"200"),
    ],
)
def test_it_answers_with_the_code(request_: bytes, code: bytes) -> None:
    assert asyncio.run(exchange(request_)).startswith(b"HTTP/1.1 " + code)


def test_a_request_without_end_gets_no_answer() -> None:
    assert asyncio.run(exchange(b"GET / " + b"x" * (REQUEST_BYTES_MAX + 2))) == b""


def test_head_has_no_body() -> None:
    answer = asyncio.run(exchange(b"HEAD /healthz HTTP/1.1\r\n\r\n"))
    assert answer.endswith(b"\r\n\r\n")


def test_a_taken_port_is_said_in_one_line() -> None:
    async def twice() -> None:
        first, second = (Endpoint(Metrics(), lambda: True) for _ in range(2))
        host, port = await first.start("127.0.0.1", 0)
        try:
            with pytest.raises(ConfigError, match="in use"):
                await second.start(host, port)
        finally:
            await first.close()

    asyncio.run(twice())


def test_a_client_that_does_not_read_keeps_its_place_till_its_time_is_up_and_then_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "REQUEST_SECONDS_MAX", 1.0)
    size = 64 << 20

    async def ask() -> tuple[int, int]:
        async def content(_: bytes) -> tuple[int, str, bytes]:
            return 200, "text/plain", bytes(size)

        big = Endpoint(Metrics(), lambda: True)
        monkeypatch.setattr(big, "_content", content)
        host, port = await big.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(host, port, limit=1024)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        got = len(await reader.readexactly(4))
        taken = big._open
        await until(lambda: big._open == 0)
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionResetError):
                while part := await reader.read(1 << 20):
                    got += len(part)
            writer.close()
            await big.close()
        return taken, got

    taken, got = asyncio.run(ask())
    assert taken == 1
    assert got < size


def test_who_asks_while_others_are_answered_gets_what_they_get_and_the_loop_turns_meanwhile() -> (
    None
):
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

    async def scrape(host: str, port: int) -> bytes:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer.partition(b"\r\n\r\n")[2]

    async def story() -> None:
        served = Endpoint(metrics, lambda: True, process=process)
        address = await served.start("127.0.0.1", 0)
        try:
            first, *others = await asyncio.gather(*[scrape(*address) for _ in range(5)])
            assert first.startswith(b"process_cpu_seconds_total 1.0\n")
            assert others == [first] * 4
            assert turns == ["process", "survey"]
            await scrape(*address)
            assert turns == ["process", "survey"] * 2, "numbers are not kept"
        finally:
            await served.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("line", "healthy", "status", "body"),
    [
        (b"GET / HTTP/1.1", True, b"200 OK", b"headrace: /metrics /healthz /ready\n"),
        (b"GET /healthz HTTP/1.1", True, b"200 OK", b"ok\n"),
        (b"GET /healthz?x HTTP/1.1", False, b"503 Service Unavailable", b"not healthy\n"),
        (b"GET /x HTTP/1.1", True, b"404 Not Found", b"not found\n"),
        (b"PUT / HTTP/1.1", True, b"405 Method Not Allowed", b"only GET and HEAD\n"),
        (b"GET / HTTP/1.1\r\nHost: x", True, b"200 OK", b"headrace: /metrics /healthz /ready\n"),
        (b"GET / HTTP/2.0", True, b"400 Bad Request", b"bad request\n"),
        (b"HEAD /healthz HTTP/1.1", True, b"200 OK", b""),
    ],
)
def test_an_answer_is_this_to_the_byte(
    line: bytes, healthy: bool, status: bytes, body: bytes
) -> None:
    length = 3 if line.startswith(b"HEAD") else len(body)
    assert asyncio.run(exchange(line + b"\r\n\r\n", healthy=healthy)) == (
        b"HTTP/1.1 %b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
        b"Connection: close\r\nX-Content-Type-Options: nosniff\r\n\r\n%b" % (status, length, body)
    )


def test_so_many_connections_are_served_at_once_and_their_places_come_free() -> None:
    async def story() -> None:
        served = Endpoint(Metrics(), lambda: True)
        host, port = await served.start("127.0.0.1", 0)
        async with asyncio.timeout(20):
            for _ in range(2):
                links = [await asyncio.open_connection(host, port) for _ in range(CONNECTIONS_MAX)]
                await until(lambda: served._open == CONNECTIONS_MAX)
                reader, writer = await asyncio.open_connection(host, port)
                assert await reader.read() == b"", "one too many"
                writer.close()
                for reader, writer in links:
                    writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
                    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
                    writer.close()
                await until(lambda: not served._open)
        await served.close()
        await served.close()
        with pytest.raises(OSError, match="Connect"):
            await asyncio.open_connection(host, port)

    asyncio.run(story())


def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "REQUEST_SECONDS_MAX", 0.01)
    assert asyncio.run(exchange(b"GET / HTTP/1.1\r\n")) == b""


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
    async def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(asyncio, "start_server", refuse)
    with pytest.raises(ConfigError) as refused:
        asyncio.run(Endpoint(Metrics(), lambda: True).start("h", 7))
    assert str(refused.value) == f"metrics.listener=h:7: {reason}"
