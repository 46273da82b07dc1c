"""Hostile bodies at a broker's HTTP server: slow, lying, oversized, smuggled, random."""

import contextlib
import http.client
import logging
import random
import socket
import threading
from collections.abc import Iterator

import pytest

from headrace.frontends.http import bodies, session
from headrace.frontends.http.router import HttpReply, HttpRequest, HttpRoute, HttpRouter, text
from headrace.testing.broker import BrokerThread

BODY_BYTES_MAX = 20_000_000
HEAD = b"PUT /echo HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = b"GET /secret HTTP/1.1\r\nHost: x\r\n\r\n"
API_VERSIONS = b"\0\0\0\x0b\0\x12\0\0\0\0\0\1\0\1x"
SEEDS = range(40)
INSERTED = (b"\r\n", b"\n", b"\0", b":", b",", b"0", b"\r\n\r\n")


async def echo(request: HttpRequest) -> HttpReply:
    """Answer the body."""
    return HttpReply(200, bytes(await request.body.read()))


async def secret(_: HttpRequest) -> HttpReply:
    """Answer what no request here asks for."""
    return text(200, "a secret")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """A broker whose HTTP server takes bodies."""
    with BrokerThread({"metrics.listener": "127.0.0.1:0"}) as running:
        assert running.server.http is not None
        running.server.http.router = HttpRouter(
            [HttpRoute("PUT", "/echo", echo, BODY_BYTES_MAX), HttpRoute("GET", "/secret", secret)]
        )
        yield running


def connect(broker: BrokerThread) -> socket.socket:
    """Connect to the HTTP server."""
    assert broker.server.http is not None
    return socket.create_connection(broker.server.http.address, 20)


def received(link: socket.socket) -> bytes:
    """Return what the server sends until it ends the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while piece := link.recv(1 << 16):
            found += piece
    return found


def serves(broker: BrokerThread) -> None:
    """Check that clients of HTTP and of Kafka are answered."""
    assert broker.server.http is not None
    client = http.client.HTTPConnection(*broker.server.http.address, timeout=20)
    client.request("PUT", "/echo", body=b"a body")
    assert client.getresponse().read() == b"a body"
    client.close()
    with socket.create_connection(("127.0.0.1", broker.port), 20) as kafka:
        kafka.sendall(API_VERSIONS)
        assert len(kafka.recv(4)) == 4


def test_slow_bodies_are_ended_and_take_no_memory(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS_MAX", 1.0)
    links = [connect(broker) for _ in range(8)]
    for at, link in enumerate(links):
        # Half of them promise much and send a byte, half send the head of a chunk.
        link.sendall(HEAD + (b"Content-Length: 19999999\r\n\r\nx" if at % 2 else CHUNKED + b"ff"))
    serves(broker)
    assert broker.server.http is not None
    assert broker.server.http.body_bytes <= len(links)
    for link in links:
        assert received(link).startswith(b"HTTP/1.1 408 ")
        link.close()
    assert broker.server.http.body_bytes == 0


def test_bodies_of_many_connections_stay_within_their_bound(broker: BrokerThread) -> None:
    served = broker.server.http
    assert served is not None
    links = [connect(broker) for _ in range(12)]
    most = 0

    def send(link: socket.socket) -> None:
        nonlocal most
        with contextlib.suppress(OSError):
            link.sendall(HEAD + b"Content-Length: 20000000\r\n\r\n")
            for _ in range(199):
                link.sendall(bytes(100_000))
                most = max(most, served.body_bytes)

    senders = [threading.Thread(target=send, args=(link,)) for link in links]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(30)
    assert 40_000_000 < most <= bodies.BODIES_BYTES_MAX
    for link in links:
        link.close()
    serves(broker)


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        b"Content-Length: 0\r\nContent-Length: 34\r\n\r\n",
        b"Content-Length: 3, 3\r\n\r\nabc",
        b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        b"Content-Length: 3\r\n\tContent-Length: 4\r\n\r\nabc",
        b"Content-Length : 3\r\n\r\nabc",
        b"Content-Length: +3\r\n\r\nabc",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\n\r\n0\r\n\r\n",
        CHUNKED + b"3\nabc\r\n0\r\n\r\n",
        CHUNKED + b"3\r\nabc\n0\r\n\r\n",
        CHUNKED + b"3;x\n\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"0\r\n\n",
        CHUNKED + b"0\r\nContent-Length: 3\r\n\r\n",
        CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b" 3\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_no_request_is_smuggled_behind_an_ambiguous_body(
    broker: BrokerThread, fields: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "DISCARD_SECONDS", 0.05)
    with connect(broker) as link:
        link.sendall(HEAD + fields + SMUGGLED)
        answer = received(link)
    assert answer[:10] in {b"HTTP/1.1 4", b"HTTP/1.1 5"}
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"a secret" not in answer


def mutated(seed: int) -> bytes:
    """Return requests with bodies, of which some bytes are changed, lost, doubled or new."""
    drawn = random.Random(seed)
    body = drawn.randbytes(drawn.randrange(200))
    requests = bytearray(
        HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
        + HEAD + CHUNKED + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
        + HEAD + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"
    )  # fmt: skip
    for _ in range(drawn.randrange(1, 5)):
        at = drawn.randrange(len(requests))
        match drawn.randrange(4):
            case 0:
                requests[at] = drawn.randrange(256)
            case 1:
                del requests[at : at + drawn.randrange(1, 20)]
            case 2:
                requests[at:at] = requests[at : at + drawn.randrange(1, 20)]
            case _:
                requests[at:at] = drawn.choice(INSERTED)
    return bytes(requests)


def test_random_bodies_meet_no_bug(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "DISCARD_SECONDS", 0.05)
    with caplog.at_level(logging.ERROR):
        for seed in SEEDS:
            with connect(broker) as link, contextlib.suppress(ConnectionError):
                link.sendall(mutated(seed))
                link.shutdown(socket.SHUT_WR)
                received(link)
        serves(broker)
    assert [record.message for record in caplog.records] == []
    assert broker.server.http is not None
    assert broker.server.http.body_bytes == 0
