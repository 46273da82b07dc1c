"""The connection of plain sockets: answers in order, and what ends it and says so."""

import asyncio
import os
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from headrace.client.sync import run
from headrace.client.transport import blocking
from headrace.client.transport.blocking import BlockingLink, BlockingTransport
from headrace.client.transport.events import EventLink, EventTransport
from headrace.client.transport.port import (
    Address,
    CannotConnect,
    ConnectionLost,
    NotListening,
    TimedOut,
    cannot_connect,
)
from headrace.model.invariant import InvariantError
from tests.support.net.net import framed

ADDRESS = Address("127.0.0.1", 9)


@pytest.fixture
def pair() -> Iterator[tuple[BlockingLink, socket.socket]]:
    """A link and its other end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield BlockingLink(ADDRESS, ours), theirs


Pair = tuple[BlockingLink, socket.socket]


def test_a_request_is_sent_whole_and_its_answer_is_its_frame(pair: Pair) -> None:
    link, other = pair
    one, several = link.send([b"one"]), link.send([b"a", bytearray(b"b"), memoryview(b"c")])
    assert other.recv(100) == b"oneabc"
    other.sendall(framed(b"first") + framed(b"second"))
    assert bytes(run(several.wait(10))) == b"second"
    assert bytes(run(one.wait(10))) == b"first"
    assert bytes(run(one.wait(10))) == b"first", "it is there"


def test_a_request_without_an_answer_takes_no_place_among_the_others(pair: Pair) -> None:
    link, other = pair
    link.send([b"quiet"], answered=False)
    asked = link.send([b"asked"])
    other.sendall(framed(b"told"))
    assert bytes(run(asked.wait(10))) == b"told"
    with pytest.raises(ConnectionLost):
        link.read_one(time.monotonic() + 10)


@pytest.mark.parametrize("size", [4, 5])
def test_an_answer_may_be_as_short_as_its_number(pair: Pair, size: int) -> None:
    link, other = pair
    asked = link.send([b"asked"])
    other.sendall(framed(bytes(size)))
    assert len(run(asked.wait(10))) == size
    assert not link.closed


@pytest.mark.parametrize("size", [-1, 0, 3, (256 << 20) + 1])
def test_a_size_that_no_answer_has_ends_the_connection(pair: Pair, size: int) -> None:
    link, other = pair
    asked = link.send([b"asked"])
    other.sendall(struct.pack(">i", size) + b"more")
    with pytest.raises(ConnectionLost, match=f"127.0.0.1:9: .*an answer of {size} bytes announced"):
        run(asked.wait(10))
    assert link.closed
    with pytest.raises(ConnectionLost):
        link.send([b"more"])


def test_an_answer_that_does_not_come_in_time_ends_the_connection(pair: Pair) -> None:
    link, other = pair
    asked = link.send([b"asked"])
    other.sendall(framed(b"answer")[:-1])
    with pytest.raises(TimedOut, match=r"127\.0\.0\.1:9: no answer in time"):
        run(asked.wait(0.01))
    assert link.closed
    with pytest.raises(ConnectionLost):
        run(asked.wait(10))


def test_time_that_is_over_is_not_read_in(pair: Pair) -> None:
    link, other = pair
    asked = link.send([b"asked"])
    other.sendall(framed(b"answer"))
    with pytest.raises(TimedOut):
        run(asked.wait(0))
    assert link.closed


def test_a_broker_that_ends_the_connection_amid_an_answer_is_said_to(pair: Pair) -> None:
    link, other = pair
    asked = link.send([b"asked"])
    other.recv(100)
    other.sendall(framed(b"answer")[:-1])
    other.close()
    with pytest.raises(ConnectionLost, match="closed by the broker"):
        run(asked.wait(10))
    assert link.closed


def test_a_wait_that_is_interrupted_ends_the_connection(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, _ = pair
    asked = link.send([b"asked"])

    class Interrupted:
        def settimeout(self, seconds: float) -> None:
            assert 9 < seconds <= 10

        def recv_into(self, view: memoryview) -> int:
            raise KeyboardInterrupt

        def close(self) -> None:
            closed.append(True)

    closed: list[bool] = []
    kept = link._socket
    monkeypatch.setattr(link, "_socket", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        run(asked.wait(10))
    assert closed == [True]
    assert link.closed
    assert kept is not None


@pytest.mark.parametrize("by_loop", [False, True])
def test_requests_are_numbered_from_1_and_begin_again_at_0(by_loop: bool) -> None:
    link = EventLink(ADDRESS) if by_loop else BlockingLink(ADDRESS, socket.socket())
    assert [link.next_correlation_id() for _ in range(3)] == [1, 2, 3]
    link._correlation_id = 0x7FFFFFFE
    assert [link.next_correlation_id() for _ in range(3)] == [0x7FFFFFFF, 0, 1]
    link.close()
    assert link.closed


def test_nobody_there_is_said_with_address_and_reason() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = Address(*deaf.getsockname()[:2])
        with pytest.raises(CannotConnect) as refused:
            run(BlockingTransport().connect(address, 10))
    expected = f"cannot connect to {address}: {os.strerror(111).lower()}"
    assert str(refused.value) == expected

    async def by_loop(made: object, host: str, port: int) -> EventLink:
        assert (host, port) == address
        raise ConnectionRefusedError(111, os.strerror(111))

    with pytest.raises(CannotConnect) as refused:
        asyncio.run(EventTransport(by_loop).connect(address, 10))
    assert str(refused.value) == expected

    async def never(made: object, host: str, port: int) -> EventLink:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(CannotConnect) as refused:
        asyncio.run(EventTransport(never).connect(address, 0.01))
    assert str(refused.value) == f"cannot connect to {address}: no answer"


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (ConnectionRefusedError(111, "Connection refused"), True),
        (
            OSError("Multiple exceptions: [Errno 111] Connect, [Errno 111] Connect"),
            True,
        ),
        (
            OSError("Multiple exceptions: [Errno 111] Connect, [Errno 113] No route"),
            False,
        ),
        (OSError(113, "No route to host"), False),
        (OSError("no address"), False),
    ],
)
def test_refusal_by_all_addresses_shows_that_no_process_listens(
    error: OSError, is_refused: bool
) -> None:
    assert isinstance(cannot_connect(Address("h", 1), error), NotListening) == is_refused


def test_a_socket_sends_small_requests_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address(*server.getsockname()[:2])
        with blocking.open_socket(address, 10) as opened:
            assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert opened.gettimeout() == 10


def test_work_that_waits_for_another_than_the_link_is_ended_and_refused() -> None:
    ended: list[bool] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append(True)

    work = waits()
    with pytest.raises(InvariantError, match="suspended"):
        run(work)
    assert ended == [True]
    work.close()


def test_a_connection_that_was_reset_is_lost_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = BlockingLink(ADDRESS, socket.create_connection(server.getsockname()))
        other, _ = server.accept()
    assert link.address == ADDRESS
    asked = link.send([b"asked"])
    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.close()
    with pytest.raises(ConnectionLost, match=r"127.0.0.1:9: connection lost: .*reset"):
        run(asked.wait(10))
    assert link.closed


def test_a_broker_that_does_not_answer_the_connection_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def late(*_: object, **__: object) -> socket.socket:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", late)
    with pytest.raises(CannotConnect, match=r"cannot connect to 127.0.0.1:9: no answer"):
        blocking.open_socket(ADDRESS, 1)
