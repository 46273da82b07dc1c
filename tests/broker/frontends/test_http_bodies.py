"""Bodies and streamed answers of a broker's HTTP server, with real clients, by TLS too."""

import asyncio
import contextlib
import gzip
import http.client
import shutil
import ssl
import subprocess
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from headrace.frontends.http.events import EventStreams
from headrace.frontends.http.router import (
    JSON,
    HttpReply,
    HttpRequest,
    HttpRoute,
    HttpRouter,
    json_of,
    text,
)
from headrace.testing.broker import BrokerThread
from tests.support.security.certificates import Authority

BODY_BYTES_MAX = 20_000_000
ROWS = 20_000
ROW = b'{"name":"queue","messages":12},'
EVENTS = EventStreams()


async def echo(request: HttpRequest) -> HttpReply:
    """Answer the body."""
    return HttpReply(201, bytes(await request.body.read()))


async def size(request: HttpRequest) -> HttpReply:
    """Answer the size of the body."""
    body = await request.body.read()
    return json_of(200, {"size": len(body), "name": request.values["name"]})


async def refuse(_: HttpRequest) -> HttpReply:
    """Answer by the head alone."""
    return text(401, "not authorised")


async def listed(_: HttpRequest) -> HttpReply:
    """Answer a long list."""

    async def rows() -> AsyncGenerator[bytes, None]:
        for _ in range(ROWS):
            yield ROW

    return HttpReply(200, rows(), JSON, compresses=True)


async def ticks(_: HttpRequest) -> HttpReply:
    """Answer a stream of events that has no end."""

    async def events() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"data: tick\n\n"
            await asyncio.sleep(0.05)

    return await EVENTS.reply(events())


ROUTER = HttpRouter(
    [
        HttpRoute("PUT", "/echo", echo, BODY_BYTES_MAX),
        HttpRoute("POST", "/sizes/{name}", size, BODY_BYTES_MAX),
        HttpRoute("PUT", "/refuse", refuse, BODY_BYTES_MAX),
        HttpRoute("GET", "/list", listed),
        HttpRoute("GET", "/events", ticks),
    ],
    answers_options=True,
)


@contextlib.contextmanager
def started(**settings: str) -> Iterator[BrokerThread]:
    """Run a broker whose HTTP server has the routes of these tests."""
    with BrokerThread({"metrics.listener": "127.0.0.1:0", **settings}) as broker:
        assert broker.server.http is not None
        broker.server.http.router = ROUTER
        yield broker


def url(broker: BrokerThread, path: str) -> str:
    """Return the address of a path."""
    assert broker.server.http is not None
    return broker.server.http.url + path


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """Return a broker of plain HTTP."""
    with started() as running:
        yield running


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return who signs the certificate of the broker."""
    return Authority(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[BrokerThread]:
    """Return a broker of HTTPS."""
    keys = {"listener.name.metrics.ssl.keystore.location": str(authority.sign().both)}
    with started(**keys) as running:
        yield running


@pytest.fixture(params=["plain", "tls"])
def client(request: pytest.FixtureRequest) -> Iterator[http.client.HTTPConnection]:
    """Return a connection of Python's own client, plain and by TLS."""
    if request.param == "plain":
        served: BrokerThread = request.getfixturevalue("broker")
        assert served.server.http is not None
        connection = http.client.HTTPConnection(*served.server.http.address, timeout=20)
    else:
        served = request.getfixturevalue("secured")
        trusted = ssl.create_default_context(
            cafile=str(request.getfixturevalue("authority").certificate)
        )
        assert served.server.http is not None
        connection = http.client.HTTPSConnection(
            *served.server.http.address, timeout=20, context=trusted
        )
    yield connection
    connection.close()


def test_a_kept_connection_has_bodies_of_both_framings(
    client: http.client.HTTPConnection,
) -> None:
    for _ in range(3):
        client.request("PUT", "/echo", body=b"a body")
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (201, b"a body")
        client.request("PUT", "/echo", body=iter([b"in ", b"chunks"]), encode_chunked=True)
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (201, b"in chunks")
        client.request("PUT", "/refuse", body=b"unread")
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (401, b"not authorised\n")


def test_a_body_of_20_mb_is_received(client: http.client.HTTPConnection) -> None:
    body = bytes(range(250)) * (BODY_BYTES_MAX // 250)
    client.request("PUT", "/echo", body=body)
    answer = client.getresponse()
    assert (answer.status, answer.read()) == (201, body)
    pieces = (body[at : at + 10_000] for at in range(0, len(body), 10_000))
    client.request("POST", "/sizes/a%2Fb", body=pieces, encode_chunked=True)
    assert client.getresponse().read() == b'{"size": 20000000, "name": "a/b"}\n'


def test_a_list_is_streamed_plain_and_compressed(client: http.client.HTTPConnection) -> None:
    client.request("GET", "/list")
    answer = client.getresponse()
    assert answer.getheader("transfer-encoding") == "chunked"
    assert answer.read() == ROW * ROWS
    client.request("GET", "/list", headers={"Accept-Encoding": "gzip"})
    answer = client.getresponse()
    assert answer.getheader("content-encoding") == "gzip"
    assert gzip.decompress(answer.read()) == ROW * ROWS
    client.request("HEAD", "/list")
    assert client.getresponse().read() == b""
    client.request("OPTIONS", "/list")
    answer = client.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    assert answer.getheader("allow") == "GET, HEAD, OPTIONS"


def curl(*arguments: str) -> tuple[bytes, bytes]:
    """Return what curl prints and what it tells of the exchange."""
    done = subprocess.run(["curl", "-sv", *arguments], capture_output=True, timeout=60)
    return done.stdout, done.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_waits_to_be_asked_for_a_large_body(broker: BrokerThread, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(3_000_000))
    expects = ["-H", "Expect: 100-continue", "--expect100-timeout", "20"]
    put = [*expects, "-T", str(large)]
    body, told = curl(*put, url(broker, "/echo"), "--next", "-s", url(broker, "/list"))
    assert body == bytes(3_000_000) + ROW * ROWS
    assert b"100 Continue" in told
    body, told = curl(*put, url(broker, "/refuse"))
    assert body == b"not authorised\n"
    assert b"100 Continue" not in told


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_reads_a_compressed_list_by_http_1_0_and_1_1(broker: BrokerThread) -> None:
    for version in ("--http1.0", "--http1.1"):
        body, _ = curl(version, "--compressed", url(broker, "/list"))
        assert body == ROW * ROWS


def test_a_stop_ends_streams_of_events() -> None:
    with started() as broker:
        assert broker.server.http is not None
        connection = http.client.HTTPConnection(*broker.server.http.address, timeout=20)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.readline() == b":\n"
        read: list[bytes] = []
        reading = threading.Thread(target=lambda: read.append(answer.read()))
        reading.start()
        broker.stop()
        reading.join(20)
        assert b"data: tick\n\n" in read[0], "the answer has its end"
        connection.close()
    assert EVENTS.open == 0
