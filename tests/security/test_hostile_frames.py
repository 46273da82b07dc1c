"""Frames that lie, against a whole broker: the sender is cut off, nobody else notices."""

import contextlib
import logging
import random
import socket
import struct
from collections.abc import Iterator

import pytest

from headrace.frontends.kafka.connection.registry import APIS
from headrace.testing import BrokerThread
from headrace.wire.kafka.api import ApiKey, is_flexible
from tests.support.net.links import allocates_at_most, ask, connect, receive

ACROSS_ALL = [(api.key, version) for api in APIS for version in (api.min_version, api.max_version)]

FRAME_BYTES_MAX = 1 << 20
OF_A_CONNECTION_BYTES_MAX = FRAME_BYTES_MAX // 4
"""What a connection costs, its log line included."""
OF_CODECS_BYTES_MAX = 16 << 20
"""What requests cost that import the codecs of their version."""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread({"socket.request.max.bytes": str(FRAME_BYTES_MAX)}) as one:
        yield one


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def request(key: int, version: int, body: bytes, correlation_id: int = 7) -> bytes:
    head = struct.pack(">hhih", key, version, correlation_id, 1) + b"c"
    if is_flexible(key, version):
        head += b"\x00"
    return framed(head + body)


def serves(broker: BrokerThread) -> bool:
    """Whether a stranger to all this gets an answer."""
    with connect(broker) as link:
        answer = ask(link, request(ApiKey.API_VERSIONS, 0, b""))
        return answer is not None and answer[:4] == struct.pack(">i", 7)


@pytest.mark.parametrize("length", [-1, 0, -(2**31), 2**31 - 1, FRAME_BYTES_MAX + 1])
def test_an_announced_length_out_of_bounds_ends_the_connection_before_anything_is_allocated(
    broker: BrokerThread, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(broker) as bystander, connect(broker) as link:
        assert ask(bystander, request(ApiKey.API_VERSIONS, 0, b"")) is not None
        with caplog.at_level(logging.WARNING), allocates_at_most(OF_A_CONNECTION_BYTES_MAX):
            assert ask(link, struct.pack(">i", length)) is None
        assert ask(bystander, request(ApiKey.API_VERSIONS, 0, b"")) is not None
    lines = [line.getMessage() for line in caplog.records]
    assert len([line for line in lines if "closing the connection" in line]) == 1


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00",
        struct.pack(">hhi", 18, 0, 1),
        struct.pack(">hhih", 18, 0, 1, 32767),
        struct.pack(">hhih", 18, 0, 1, -2),
        struct.pack(">hhih", 18, 3, 1, 2) + b"\xff\xfe\x00",
        struct.pack(">hhih", 18, 3, 1, -1) + b"\xff" * 11,
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", -1, 0, 1, -1),
        struct.pack(">hhih", 0, 99, 1, -1),
        struct.pack(">hhih", 4, 0, 1, -1),
    ],
)
def test_a_broken_or_unknown_header_ends_the_connection(broker: BrokerThread, frame: bytes) -> None:
    with connect(broker) as link:
        assert ask(link, framed(frame)) is None
    assert serves(broker)


def test_api_versions_of_the_future_is_answered_in_version_0(broker: BrokerThread) -> None:
    with connect(broker) as link:
        answer = ask(link, framed(struct.pack(">hhih", 18, 99, 5, -1) + b"\x00whatever"))
        assert answer is not None
        correlation_id, error, count = struct.unpack_from(">ihi", answer)
        assert (correlation_id, error) == (5, 35)
        served = {struct.unpack_from(">hhh", answer, 10 + 6 * at)[0] for at in range(count)}
        assert served == {int(api.key) for api in APIS}


@pytest.mark.parametrize(("key", "version"), ACROSS_ALL)
def test_an_empty_body_or_one_of_large_numbers_harms_nobody(
    broker: BrokerThread, key: ApiKey, version: int
) -> None:
    with allocates_at_most(OF_CODECS_BYTES_MAX):
        for body in (b"", b"\x7f" * 64, b"\xff" * 64, b"\x80" * 64, b"\x00" * 3, b"\x7f" * 5000):
            with connect(broker) as link:
                link.settimeout(5)
                with contextlib.suppress(TimeoutError):
                    ask(link, request(key, version, body))
        assert serves(broker)


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_after_sound_headers_harm_nobody(broker: BrokerThread, seed: int) -> None:
    chance = random.Random(seed)
    with allocates_at_most(2 * OF_CODECS_BYTES_MAX):
        for _ in range(150):
            api = chance.choice(APIS)
            version = chance.randint(api.min_version, api.max_version)
            body = chance.randbytes(chance.randint(0, 200))
            with connect(broker) as link:
                link.sendall(request(api.key, version, body))
                link.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    while receive(link, 1 << 16):
                        pass
        assert serves(broker)


def test_a_count_that_the_frame_cannot_hold_is_refused_before_anything_is_made_of_it(
    broker: BrokerThread,
) -> None:
    produce = struct.pack(">hhii", -1, 1, 1000, 2**30)
    fetch = struct.pack(">iiiibiii", -1, 0, 1, 1 << 20, 0, 0, -1, 2**31 - 1)
    for key, version, body in ((0, 8, produce), (1, 11, fetch), (3, 1, struct.pack(">i", 2**30))):
        with connect(broker) as link:  # the code behind the API comes with its first request
            assert ask(link, request(key, version, body)) is None
        with connect(broker) as link:
            assert ask(link, request(ApiKey.API_VERSIONS, 0, b"")) is not None
            with allocates_at_most(OF_A_CONNECTION_BYTES_MAX):
                assert ask(link, request(key, version, body)) is None
    assert serves(broker)


def test_one_byte_at_a_time_is_served_like_any_other(broker: BrokerThread) -> None:
    with connect(broker) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request(ApiKey.API_VERSIONS, 0, b"")[:-1]:
            link.sendall(bytes([byte]))
        assert ask(link, request(ApiKey.API_VERSIONS, 0, b"")[-1:]) is not None


def test_who_sends_no_whole_request_is_dropped_and_who_does_is_kept() -> None:
    with BrokerThread({"connection.first.request.ms": "300"}) as quick, connect(quick) as kept:
        assert ask(kept, request(ApiKey.API_VERSIONS, 0, b"")) is not None
        with connect(quick) as silent, connect(quick) as slow:
            slow.sendall(b"\x00\x00\x00\x10half")
            assert receive(silent, 1) == b""
            with contextlib.suppress(ConnectionResetError):
                assert receive(slow, 1) == b""
        assert ask(kept, request(ApiKey.API_VERSIONS, 0, b"")) is not None


def test_connections_beyond_the_bound_are_refused_and_others_served() -> None:
    with BrokerThread({"max.connections": "3"}) as small:
        links = [connect(small) for _ in range(3)]
        for link in links:
            assert ask(link, request(ApiKey.API_VERSIONS, 0, b"")) is not None
        with connect(small) as more:
            assert ask(more, request(ApiKey.API_VERSIONS, 0, b"")) is None
        for link in links:
            assert ask(link, request(ApiKey.API_VERSIONS, 0, b"")) is not None
            link.close()
