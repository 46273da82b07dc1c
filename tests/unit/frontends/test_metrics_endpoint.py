"""The HTTP endpoint: its few answers, and what it refuses."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from headrace.frontends.http import endpoint
from headrace.frontends.http.endpoint import REQUEST_BYTES_MAX, Endpoint
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
