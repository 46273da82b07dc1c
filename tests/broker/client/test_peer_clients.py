"""Brokers' clients to each other: who they are, what a refusal leads to, and sessions that end."""

import asyncio
import logging
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop

from headrace.client.client import Client
from headrace.client.sync import run
from headrace.client.transport.blocking import BlockingLink, BlockingTransport
from headrace.client.transport.credentials import AuthenticationFailed, Credentials
from headrace.client.transport.events import EventTransport
from headrace.client.transport.handshake import VersionsCall
from headrace.client.transport.peer_clients import (
    REST_SECONDS_MAX,
    REST_SECONDS_MIN,
    TOLD_SECONDS,
    PeerClients,
    Refusals,
)
from headrace.client.transport.port import (
    Address,
    ClientError,
    ConnectionLost,
    Untrusted,
    connection_lost,
)
from headrace.config.listeners import Listener
from headrace.config.tls_settings import tls_settings
from headrace.model.secret import Secret
from headrace.posix.network import RealNetwork
from headrace.posix.tls import peer_context
from headrace.security.sasl.sasl import Mechanism
from headrace.testing.broker import BrokerThread
from tests.support.config_values import defaults
from tests.support.security.certificates import OPEN, Authority
from tests.support.security.sasl_kit import PASSWORD, USER, add_scram_users, guarded

if TYPE_CHECKING:
    from headrace.config.value_types import Value

PEER, OTHER = Address("h", 1), Address("h", 2)
REFUSED = AuthenticationFailed("user broker: no")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """One that lets a user in by SCRAM."""
    with guarded() as running:
        add_scram_users(running)
        yield running


class CountedTransport(BlockingTransport):
    """Its clock is in the test's hands, and each connection is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0
        self.seconds = 100.0

    async def connect(self, address: Address, seconds: float) -> BlockingLink:
        """Count it."""
        self.opened += 1
        return await super().connect(address, seconds)

    def now(self) -> float:
        """The test's time."""
        return self.seconds


def refusals() -> Refusals:
    return Refusals("mend the password", "mend the truststore")


def refusal(known: Refusals, now: float, address: Address = PEER) -> ClientError | None:
    try:
        known.check(address, now)
    except ClientError as error:
        return error
    return None


def test_a_peer_that_refuses_is_left_alone_the_longer_the_more_often_it_has() -> None:
    known = refusals()
    now, rest_seconds = 0.0, REST_SECONDS_MIN
    for _ in range(8):
        assert refusal(known, now) is None
        known.refused(PEER, REFUSED, now)
        again = refusal(known, now + rest_seconds - 0.01)
        assert isinstance(again, AuthenticationFailed)
        assert str(again) == str(REFUSED)
        assert refusal(known, now, OTHER) is None
        now += rest_seconds
        rest_seconds = min(2 * rest_seconds, REST_SECONDS_MAX)
    assert rest_seconds == REST_SECONDS_MAX
    known.believed(PEER)
    known.refused(PEER, REFUSED, now)
    assert refusal(known, now + REST_SECONDS_MIN) is None


def test_a_refusal_is_told_once_a_minute_with_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    known = refusals()
    for seconds in (0.0, 1.0, TOLD_SECONDS - 0.01):
        known.refused(PEER, REFUSED, seconds)
    assert [record.message for record in caplog.records] == [
        "broker at h:1: user broker: no: mend the password; retrying every 10 s"
    ]
    known.refused(PEER, Untrusted("its certificate is refused"), 2.0)
    assert "mend the truststore" in caplog.messages[-1]
    known.refused(OTHER, REFUSED, 2.0)
    known.refused(OTHER, REFUSED, 2.0 + TOLD_SECONDS)
    assert len(caplog.messages) == 4
    known.believed(OTHER)
    known.believed(OTHER)
    assert len(caplog.messages) == 5
    assert "authentication succeeds again" in caplog.messages[-1]


def test_all_clients_of_a_broker_share_what_is_known_of_a_refusal(broker: BrokerThread) -> None:
    transport, known = CountedTransport(), refusals()
    wrong = Credentials(Mechanism.SCRAM_SHA_256, USER, Secret("wrong-913"))
    clients = PeerClients(transport, wrong, known)
    address = Address("127.0.0.1", broker.port)
    for name in ("follower", "controller", "transactions"):
        with clients.make(name) as client, pytest.raises(AuthenticationFailed) as raised:
            run(client.link_to(address))
        assert "wrong-913" not in str(raised.value)
    assert transport.opened == 1
    right = PeerClients(transport, wrong._replace(password=Secret(PASSWORD)), known)
    transport.seconds += REST_SECONDS_MIN
    with right.make("follower") as client:
        run(client.link_to(address))
    with right.make("controller") as client:
        run(client.link_to(address))


def test_what_was_asked_is_answered_though_the_session_ends_meanwhile() -> None:
    async def story(broker: BrokerThread) -> None:
        credentials = Credentials(Mechanism.SCRAM_SHA_256, USER, Secret(PASSWORD))
        with Client(EventTransport(), (), credentials=credentials) as client:
            address = Address("127.0.0.1", broker.port)
            first = await client.link_to(address)
            under_way = asyncio.ensure_future(client.ask(first, VersionsCall()))
            await asyncio.sleep(0)  # it is sent
            client._over[address] = 0.0
            second = await client.link_to(address)
            assert second is not first
            assert await asyncio.wait_for(under_way, 20)
            assert first.closed
            assert not second.closed

    with guarded(connections_max_reauth_ms="60000") as broker:
        add_scram_users(broker)
        asyncio.run(story(broker))


def test_a_blocking_connection_that_retires_gives_what_was_asked_before(
    broker: BrokerThread,
) -> None:
    link = run(BlockingTransport().connect(Address("127.0.0.1", broker.port), 10))
    call = VersionsCall()
    reply = link.send(call.encode(0, link.next_correlation_id(), "c"))
    link.retire()
    assert len(run(reply.wait(20))) > 8
    assert link.closed
    other = run(BlockingTransport().connect(Address("127.0.0.1", broker.port), 10))
    other.retire()
    assert other.closed


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_certificate_that_a_peer_does_not_believe_is_told_as_that(
    tmp_path: Path, version: str
) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    keys = {
        "ssl.keystore.location": str(authority.sign().both),
        "ssl.truststore.location": str(authority.certificate),
    }
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl.client.auth": "required", **OPEN, **keys}

    def context(keystore: Path) -> ssl.SSLContext:
        mine: dict[str, Value] = {
            **keys, "ssl.keystore.location": str(keystore), "ssl.enabled.protocols": (version,),
        }  # fmt: skip
        return peer_context(tls_settings(defaults(mine), Listener("SSL", "", 0, "SSL")))

    async def link(tls: ssl.SSLContext, port: int) -> None:
        transport = EventTransport(partial(RealNetwork().connect, tls=tls))
        with PeerClients(transport, None, refusals()).make("follower") as client:
            await client.link_to(Address("127.0.0.1", port))

    with BrokerThread(settings) as broker:
        uvloop.run(link(context(authority.sign("peer", "/CN=peer").both), broker.port))
        with pytest.raises(Untrusted, match="unknown ca"):
            uvloop.run(link(context(stranger.sign("peer", "/CN=peer").both), broker.port))


@pytest.mark.parametrize("checks", ["https", ""])
def test_a_peers_certificate_is_of_its_host_unless_nobody_wants_to_know(
    tmp_path: Path, checks: str
) -> None:
    authority = Authority(tmp_path)
    elsewhere = authority.sign("elsewhere", "/CN=elsewhere", "DNS:elsewhere.example")
    keys = {
        "ssl.keystore.location": str(elsewhere.both),
        "ssl.truststore.location": str(authority.certificate),
    }
    mine = {**keys, "ssl.endpoint.identification.algorithm": checks}
    tls = peer_context(tls_settings(defaults(mine), Listener("SSL", "", 0, "SSL")))

    async def link(port: int) -> None:
        transport = EventTransport(partial(RealNetwork().connect, tls=tls))
        with PeerClients(transport, None, refusals()).make("follower") as client:
            await client.link_to(Address("127.0.0.1", port))

    with BrokerThread({"listeners": "SSL://127.0.0.1:0", **OPEN, **keys}) as broker:
        if checks:
            with pytest.raises(Untrusted, match="certificate is refused"):
                asyncio.run(link(broker.port))
        else:
            asyncio.run(link(broker.port))


def test_a_connection_that_is_lost_otherwise_is_no_refusal() -> None:
    for error in (None, ConnectionResetError("reset"), ssl.SSLError(1, "bad record mac")):
        found = connection_lost(Address("h", 1), error)
        assert isinstance(found, ConnectionLost)
        assert str(found).startswith("h:1: connection lost: ")
