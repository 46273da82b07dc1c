"""Who does not go on, at each stage before authentication, and who guesses passwords: a broker in a
process of its own ends them, and others notice nothing."""

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.wire.kafka.api import ApiKey
from tests.support.processes.process import BrokerProcess, free_port
from tests.support.security.certificates import Authority
from tests.support.security.sasl_kit import PLAIN_USERS, Knocking, client_of, request

DEADLINE_MS = 2000
PER_ADDRESS = 8
HERE, THERE = "127.0.0.1", "127.0.0.2"
"""Two addresses of clients."""
LATE_SECONDS = 20.0
"""What a deadline of 2 s may take on a machine that has other work."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the broker's certificate."""
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """One that has a SASL_SSL listener."""
    port = free_port()
    settings: dict[str, Any] = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{port + 1}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        "ssl.keystore.location": authority.sign().both,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.secure.plain.sasl.jaas.config": PLAIN_USERS,
        "super.users": "User:alice",
        "connection.handshake.ms": DEADLINE_MS,
        "connection.authentication.ms": DEADLINE_MS,
        "connection.first.request.ms": DEADLINE_MS,
        "max.connections.unauthenticated.per.ip": PER_ADDRESS,
        "connection.failed.authentication.delay.ms": 300,
        "connection.failed.authentication.delay.max.ms": 2000,
    }
    with BrokerProcess(tmp_path_factory.mktemp("slow"), port, **settings) as started:
        while True:  # the first ones wait for code to be loaded
            with contextlib.suppress(OSError, AssertionError, AttributeError):
                welcome(started, authority)
                break
        yield started


class Guest(Knocking):
    """A connection to the listener, from one of several addresses."""

    def __init__(
        self, broker: BrokerProcess, authority: Authority | None, source: str = HERE
    ) -> None:
        """`authority`: whom to trust; None: without a TLS handshake."""
        address = ("127.0.0.1", broker.port + 1)
        self._socket = socket.create_connection(address, LATE_SECONDS, (source, 0))
        if authority is not None:
            context = ssl.create_default_context(cafile=str(authority.certificate))
            self._socket = context.wrap_socket(self._socket, server_hostname="localhost")

    def says(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def ended(self) -> bool:
        """Wait for the connection's end."""
        with contextlib.suppress(ConnectionResetError, ssl.SSLError):
            while self._socket.recv(1 << 16):
                pass
        return True


def welcome(broker: BrokerProcess, authority: Authority, source: str = HERE) -> None:
    """See that somebody who knows his password is served."""
    with Guest(broker, authority, source) as guest:
        assert ErrorCode(guest.log_in().error_code) is ErrorCode.NONE
        assert guest.topics() is not None


def hello(authority: Authority) -> bytes:
    """A client's first words of TLS."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def begins_scram(guest: Guest) -> None:
    """Say the first of SCRAM's two messages."""
    guest.handshake("SCRAM-SHA-256")
    guest.token(client_of("SCRAM-SHA-256").first())


STAGES: dict[str, tuple[bool, Callable[[Guest, Authority], object]]] = {
    "nothing": (False, lambda guest, authority: None),
    "half a hello": (False, lambda guest, authority: guest.says(hello(authority)[:100])),
    "a handshake": (True, lambda guest, authority: None),
    "half a frame": (True, lambda guest, authority: guest.says(b"\0\0\0\x20\0\x11")),
    "ApiVersions": (True, lambda guest, authority: guest.ask(ApiKey.API_VERSIONS, 0)),
    "a mechanism": (True, lambda guest, authority: guest.handshake("PLAIN")),
    "half of SCRAM": (True, lambda guest, authority: begins_scram(guest)),
    "half a token": (
        True,
        lambda guest, authority: guest.says(
            b"\0\0\x20\0" + request(ApiKey.SASL_AUTHENTICATE, 0, auth_bytes=b"x" * 99)
        ),
    ),
}
"""What is done before the silence, with a TLS handshake before it or not."""


def test_who_stops_at_a_stage_is_ended_and_others_are_served_meanwhile(
    broker: BrokerProcess, authority: Authority
) -> None:
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        guests: dict[str, Guest] = {}
        for stage, (with_tls, does) in STAGES.items():
            trusted = authority if with_tls else None
            guest = guests[stage] = stack.enter_context(Guest(broker, trusted, THERE))
            with contextlib.suppress(OSError):  # on a busy machine its time is over before
                does(guest, authority)
        welcome(broker, authority)
        for stage, guest in guests.items():
            assert guest.ended(), stage
    assert DEADLINE_MS / 1000 * 0.9 < time.monotonic() - began < LATE_SECONDS
    said = broker.output
    assert "TLS handshake not complete within 2 s" in said
    assert "not authenticated within 2 s" in said
    assert "no complete request within 2 s" in said


def test_a_silent_crowd_of_one_address_keeps_out_nobody_who_goes_on(
    broker: BrokerProcess, authority: Authority
) -> None:
    with Guest(broker, authority, THERE) as known, contextlib.ExitStack() as crowd:
        known.log_in()
        for _ in range(PER_ADDRESS * 4):
            crowd.enter_context(Guest(broker, None, THERE))
        welcome(broker, authority)
        welcome(broker, authority, THERE)
        assert known.topics() is not None, "who has authenticated is not hurt"


def seconds_to_fail(broker: BrokerProcess, authority: Authority, source: str) -> float:
    """Give a wrong password; returns how long the answer took."""
    with Guest(broker, authority, source) as guest:
        guest.handshake("PLAIN")
        began = time.monotonic()
        answer = guest.token(b"\0alice\0wrong")
        assert ErrorCode(answer.error_code) is ErrorCode.SASL_AUTHENTICATION_FAILED
        return time.monotonic() - began


def test_guessing_becomes_slower_for_its_address_and_for_nobody_else(
    broker: BrokerProcess, authority: Authority
) -> None:
    source = "127.0.0.3"
    waited = [seconds_to_fail(broker, authority, source) for _ in range(4)]
    for seconds, least in zip(waited, (0.3, 0.6, 1.2, 2.0), strict=True):
        assert seconds >= least
    began = time.monotonic()
    welcome(broker, authority, source)
    welcome(broker, authority)
    assert time.monotonic() - began < LATE_SECONDS


def guess_at_once(broker: BrokerProcess, authority: Authority, source: str) -> None:
    """Guess over as many connections as an address may have, and wait for no answer."""
    with contextlib.ExitStack() as stack:
        guests = [stack.enter_context(Guest(broker, authority, source)) for _ in range(PER_ADDRESS)]
        for guest in guests:
            guest.handshake("PLAIN")
        for guest in guests:
            guest.send(request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0wrong"))


def test_guesses_that_do_not_wait_for_their_answers_are_no_faster(
    broker: BrokerProcess, authority: Authority
) -> None:
    source = "127.0.0.5"
    guess_at_once(broker, authority, source)
    time.sleep(2.5)  # the longest delay, and a fifth
    guess_at_once(broker, authority, source)
    with pytest.raises(OSError, match=r"(?i)reset|eof|abort"):
        Guest(broker, authority, source)
    welcome(broker, authority)
    said = (
        f"refusing a connection from {source}: {PER_ADDRESS} connections from this address failed"
    )
    assert said in broker.output
    time.sleep(2.5)
    welcome(broker, authority, source)
