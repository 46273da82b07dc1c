"""The connection that only fetches: what it asks, what it gives, and what ends it and says so."""

import socket
import struct
from collections.abc import Iterator

import pytest

from headrace.client import sync
from headrace.client.sync import FetchConnection, Fetched, Wanted
from headrace.client.transport.port import Address, ConnectionLost, TimedOut
from headrace.model.errors import ApiError, ErrorCode
from headrace.wire.kafka.frame import parse_request
from headrace.wire.kafka.hot import fetch as codec
from headrace.wire.kafka.hot.fetch_response import AbortedTransaction
from tests.support.net.net import framed

ADDRESS = Address("127.0.0.1", 9)
ID = bytes(range(16))
WANTED = Wanted("t", ID, 3, 40, leader_epoch=7)
VERSIONS = struct.pack(">ihihhh", 1, 0, 1, 1, 4, 18)
"""An answer numbered 1, without an error: of API 1, versions 4 to 18 are served."""
Pair = tuple[FetchConnection, socket.socket]


def opened(monkeypatch: pytest.MonkeyPatch, first: bytes) -> tuple[socket.socket, socket.socket]:
    """Both ends of what the next connection is opened on; the broker has said `first`."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    theirs.sendall(first)

    def open_socket(address: Address, timeout_seconds: float, tls: object = None) -> socket.socket:
        assert (address, timeout_seconds) == (ADDRESS, 10.0)
        return ours

    monkeypatch.setattr(sync, "open_socket", open_socket)
    return ours, theirs


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A connection whose hands are shaken, and the broker's end of it."""
    _, theirs = opened(monkeypatch, framed(VERSIONS))
    with theirs, FetchConnection(ADDRESS, client_id="me", timeout_seconds=10.0) as connection:
        asked = parse_request(memoryview(theirs.recv(1 << 16))[4:])
        assert (asked.api_key, asked.version, asked.correlation_id) == (18, 0, 1)
        assert asked.client_id == "me"
        yield connection, theirs


def request(theirs: socket.socket) -> codec.FetchRequest:
    """The next fetch that was asked for."""
    frame = memoryview(theirs.recv(1 << 16))[4:]
    asked = parse_request(frame)
    assert asked.api_key == 1
    assert asked.client_id == "me"
    return codec.decode_request(asked.version, frame[asked.body :])


def answer(correlation_id: int, records: bytes, *, error: int = 0) -> bytes:
    """A framed answer in version 18: one partition with `records`, or a refusal."""
    partition = codec.FetchedPartition(3, 0, 50, 49, 20, records, [AbortedTransaction(5, 41)])
    topics = [] if error else [codec.FetchedTopic("", ID, [partition])]
    body = codec.encode_response(18, codec.FetchResponse(0, error, 0, topics))
    return framed(struct.pack(">ib", correlation_id, 0) + b"".join(map(bytes, body)))  # type: ignore[arg-type]


def test_what_is_not_said_is_asked_for_as_documented(pair: Pair) -> None:
    connection, theirs = pair
    connection.send([WANTED])
    asked = request(theirs)
    assert (asked.max_wait_ms, asked.min_bytes, asked.max_bytes) == (500, 1, 50 << 20)
    assert (asked.isolation_level, asked.session_id, asked.session_epoch) == (0, 0, -1)
    (topic,) = asked.topics
    assert topic.topic_id == ID
    (partition,) = topic.partitions
    assert partition[:6] == (3, 7, 40, -1, -1, 8 << 20)


def test_a_fetch_asks_for_what_its_caller_said_and_gives_what_the_broker_has(pair: Pair) -> None:
    connection, theirs = pair
    theirs.sendall(answer(2, b"records"))
    found = connection.fetch(
        [WANTED], max_bytes=9, min_bytes=8, max_wait_ms=700, read_committed=True
    )
    assert request(theirs)[:4] == (700, 8, 9, 1)
    assert found == [Fetched("t", 3, 0, 50, 49, 20, [(5, 41)], memoryview(b"records"))]
    theirs.sendall(answer(3, b"more"))
    assert bytes(connection.fetch([WANTED])[0].records) == b"more"
    assert request(theirs)[:4] == (500, 1, 50 << 20, 0)


def test_answers_are_those_of_the_oldest_request(pair: Pair) -> None:
    connection, theirs = pair
    connection.send([WANTED])
    connection.send([WANTED._replace(topic="other")])
    theirs.sendall(answer(2, b"1") + answer(3, b"2"))
    first = connection.receive()[0]
    assert (first.topic, bytes(first.records)) == ("t", b"1")
    second = connection.receive()[0]
    assert (second.topic, bytes(second.records)) == ("other", b"2")


def test_a_refused_fetch_is_raised_and_the_next_may_be_asked(pair: Pair) -> None:
    connection, theirs = pair
    theirs.sendall(answer(2, b"", error=int(ErrorCode.UNKNOWN_TOPIC_ID)) + answer(3, b"r"))
    with pytest.raises(ApiError) as refused:
        connection.fetch([WANTED])
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
    assert not connection.closed
    assert bytes(connection.fetch([WANTED])[0].records) == b"r"


def test_a_connection_is_closed_once_it_is_left_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = opened(monkeypatch, framed(VERSIONS))
    with theirs:
        with FetchConnection(ADDRESS, timeout_seconds=10.0) as connection:
            closed = [connection.closed]
        closed.append(connection.closed)
        assert closed == [False, True]
        assert ours.fileno() == -1


def test_requests_are_numbered_on_and_begin_again_at_0(pair: Pair) -> None:
    connection, _ = pair
    assert [connection.next_correlation_id() for _ in range(2)] == [2, 3]
    connection._correlation_id = 0x7FFFFFFE
    assert [connection.next_correlation_id() for _ in range(3)] == [0x7FFFFFFF, 0, 1]


def test_a_broker_that_does_not_shake_hands_leaves_no_socket_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusal = framed(struct.pack(">ihi", 1, int(ErrorCode.UNSUPPORTED_VERSION), 0))
    ours, theirs = opened(monkeypatch, refusal)
    with theirs:
        with pytest.raises(ApiError):
            FetchConnection(ADDRESS, timeout_seconds=10.0)
        assert ours.fileno() == -1


@pytest.mark.parametrize("size", [-1, 0, 3, (256 << 20) + 1])
def test_a_size_that_no_answer_has_ends_the_connection(pair: Pair, size: int) -> None:
    connection, theirs = pair
    theirs.sendall(struct.pack(">i", size) + b"more")
    with pytest.raises(ConnectionLost, match=f"127.0.0.1:9: .*an answer of {size} bytes announced"):
        connection.fetch([WANTED])
    assert connection.closed


@pytest.mark.parametrize("size", [4, 5, 256 << 20])
def test_an_answer_may_have_any_size_up_to_the_limit(pair: Pair, size: int) -> None:
    connection, theirs = pair
    connection._buffer = bytearray(size)
    theirs.sendall(struct.pack(">i", size) + b"1234")
    theirs.close()
    if size == 4:
        assert bytes(connection._receive(10)) == b"1234"
        return
    with pytest.raises(ConnectionLost, match="closed by the broker"):
        connection._receive(10)
    assert connection.closed


def test_an_answer_that_does_not_fit_gets_a_larger_buffer_and_the_old_one_stays(
    pair: Pair,
) -> None:
    connection, theirs = pair
    first = connection._buffer
    assert len(first) == 1 << 20
    kept = memoryview(first)
    connection._buffer = bytearray(b"abcdefgh")
    view = memoryview(connection._buffer)
    theirs.sendall(framed(b"12345678") + framed(b"123456789"))
    assert bytes(connection._receive(10)) == b"12345678"
    assert view.obj is connection._buffer, "what fits goes where the last one was"
    assert bytes(connection._receive(10)) == b"123456789"
    assert len(connection._buffer) == 16, "twice as large, for the next one grows a little too"
    theirs.sendall(framed(bytes(40)))
    assert len(connection._receive(10)) == 40
    assert len(connection._buffer) == 40
    assert len(kept) == 1 << 20


def test_an_answer_is_waited_for_as_long_as_the_broker_may_wait_and_no_longer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, theirs = pair
    waited: list[float] = []

    def receive(seconds: float) -> memoryview:
        waited.append(seconds)
        return memoryview(answer(2, b"r"))[4:]

    with monkeypatch.context() as patched:
        patched.setattr(connection, "_receive", receive)
        connection.fetch([WANTED], max_wait_ms=2500)
    assert waited == [12.5]
    theirs.sendall(answer(2, b"r"))
    assert len(connection._receive(0.9)) > 0
    assert connection._socket.gettimeout() != 10.0
    connection.send([WANTED])
    assert connection._socket.gettimeout() == 10.0, "what is sent has its own time"
    theirs.sendall(answer(3, b"r")[:-1])
    with pytest.raises(TimedOut, match=r"127\.0\.0\.1:9: no answer in time"):
        connection._receive(0.01)
    assert connection.closed


def test_time_that_is_over_is_not_read_in(pair: Pair) -> None:
    connection, theirs = pair
    theirs.sendall(answer(2, b"r"))
    with pytest.raises(TimedOut):
        connection._receive(0)
    assert connection.closed


def test_a_request_that_cannot_be_sent_is_told_as_the_end_of_the_connection(pair: Pair) -> None:
    connection, theirs = pair
    theirs.close()
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:9: connection lost: "):
        connection.send([WANTED])
    assert connection.closed


def test_a_silent_broker_is_given_up_after_the_time_to_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sync, "CONNECT_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(*silent.getsockname())
        with pytest.raises(TimedOut):
            FetchConnection(address, timeout_seconds=60)
