"""RocketMQ listeners with TLS: next to plain text on one port, and alone."""

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headrace.security.acl import AclBinding, AclEntry, Permission
from headrace.security.authorizer import Operation, Resource, ResourceType
from headrace.testing import BrokerThread
from headrace.wire.first_bytes import TLS_ALERT
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand, encode_command
from headrace.wire.rocketmq.fastjson import decode_body
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, SETTINGS, code, made, port_of
from tests.support.security.certificates import Authority, Certificate

SECONDS = 20.0
ROUTE = b"".join(encode_command(RemotingCommand(105, 7, 0, {"topic": "TBW102"})))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that broker and clients trust."""
    return Authority(tmp_path_factory.mktemp("remoting-tls"))


@pytest.fixture(scope="module")
def certified(authority: Authority) -> dict[str, str]:
    """Settings of a broker with a certificate."""
    return SETTINGS | {
        "ssl.keystore.location": str(authority.sign().both),
        "ssl.truststore.location": str(authority.certificate),
        "connection.handshake.ms": "500",
    }


@pytest.fixture(scope="module")
def broker(certified: Mapping[str, str]) -> Iterator[BrokerThread]:
    """A broker in the default mode, permissive."""
    with BrokerThread(dict(certified)) as started:
        yield started


def trusting(authority: Authority, own: Certificate | None = None) -> ssl.SSLContext:
    """Return a client's context."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if own is not None:
        context.load_cert_chain(own.both)
    return context


def open_connections(broker: BrokerThread) -> tuple[int, int, int]:
    """Return the numbers of connections, places and handshakes at the RocketMQ listener."""

    def counted(server: object) -> tuple[int, int, int]:
        table, tls = broker.server.table, broker.server.doors.tls
        named = [name for name in table.listeners() if name == "ROCKETMQ"]
        return len(named), table.places._of_listener["ROCKETMQ"], len(tls.handshakes) if tls else 0

    return broker.call(counted)


def wait_until_closed(broker: BrokerThread) -> None:
    """Wait until no connection of the listener holds anything."""
    until = time.monotonic() + SECONDS
    while open_connections(broker) != (0, 0, 0) and time.monotonic() < until:
        time.sleep(0.02)
    assert open_connections(broker) == (0, 0, 0)


def closed_after(port: int, data: bytes) -> bytes:
    """Send bytes; return what comes until the broker closes the connection."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as raw:
        raw.sendall(data)
        received = b""
        while piece := raw.recv(1000):
            received += piece
    return received


def test_clients_with_and_without_tls_share_a_port_and_its_topics(
    broker: BrokerThread, authority: Authority
) -> None:
    port = port_of(broker)
    with RemotingClient(port) as plain, RemotingClient(port, tls=trusting(authority)) as secret:
        topic = made(secret, "shared")
        large = bytes(range(256)) * 4096
        for sender, body in (
            (plain, b"plain"),
            (secret, b"secret"),
            (plain, large),
            (secret, large),
        ):
            assert code(sender.send(topic, body)) is ResponseCode.SUCCESS
        for reader in (plain, secret):
            bodies: list[bytes] = []
            while len(bodies) < 4:
                answer = reader.pull(topic, len(bodies))
                bodies += [bytes(message.body) for message in messages_in(answer)]
            assert bodies == [b"plain", b"secret", large, large]


def test_a_route_over_tls_names_the_same_port(broker: BrokerThread, authority: Authority) -> None:
    port = port_of(broker)
    with RemotingClient(port, tls=trusting(authority)) as client:
        answer = client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": made(client, "routed")})
        assert f"127.0.0.1:{port}".encode() in bytes(answer.body)
        assert decode_body(bytes(answer.body))


def test_a_parked_pull_over_tls_is_answered_by_a_plain_send(
    broker: BrokerThread, authority: Authority
) -> None:
    port = port_of(broker)
    with RemotingClient(port, tls=trusting(authority)) as reader, RemotingClient(port) as writer:
        topic = made(writer, "woken")
        parked = reader.ask_pull(topic, **PARKED)
        reader.call(7777)
        writer.send(topic, b"now")
        assert [bytes(one.body) for one in messages_in(reader.answer(parked))] == [b"now"]


def test_a_frame_is_read_from_its_first_byte_however_it_is_cut(broker: BrokerThread) -> None:
    with RemotingClient(port_of(broker)) as client:
        for at in range(len(ROUTE)):
            client.send_bytes(ROUTE[at : at + 1])
        assert code(client.answer(7)) is ResponseCode.SUCCESS


def test_many_plain_requests_in_the_first_bytes_are_all_answered(broker: BrokerThread) -> None:
    with RemotingClient(port_of(broker)) as client:
        asked = [
            RemotingCommand(7777, opaque, 0, None, bytes(40_000)) for opaque in range(100, 112)
        ]
        client.send_bytes(b"".join(part for each in asked for part in encode_command(each)))
        for each in asked:
            assert code(client.answer(each.opaque)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_the_limit_of_handshakes_ends_with_the_first_plain_byte(
    broker: BrokerThread, authority: Authority
) -> None:
    port = port_of(broker)
    with RemotingClient(port) as plain, RemotingClient(port, tls=trusting(authority)) as secret:
        plain.call(7777)
        secret.call(7777)
        assert closed_after(port, b"") == b"", "a silent client, after connection.handshake.ms"
        for client in (plain, secret):
            assert code(client.call(7777)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_closed_connections_leave_no_place_and_no_handshake(
    broker: BrokerThread, authority: Authority
) -> None:
    port = port_of(broker)
    wait_until_closed(broker)
    clients = [RemotingClient(port, tls=tls) for tls in (None, trusting(authority), None)]
    for client in clients:
        client.call(7777)
    assert open_connections(broker) == (3, 3, 0)
    for client in clients:
        client.__exit__(None, None, None)
    wait_until_closed(broker)


def test_plain_bytes_within_a_handshake_are_refused(broker: BrokerThread) -> None:
    half = b"\x16\x03\x01\x02\x00\x01"  # the beginning of a record
    with socket.create_connection(("127.0.0.1", port_of(broker)), SECONDS) as raw:
        raw.sendall(half)
        time.sleep(0.05)
        raw.sendall(ROUTE)
        received = b""
        while piece := raw.recv(1000):
            received += piece
    assert b"brokerDatas" not in received
    assert b"brokerDatas" not in closed_after(port_of(broker), b"\x16" + ROUTE[1:])
    wait_until_closed(broker)


def test_both_kinds_connect_at_the_same_time(broker: BrokerThread, authority: Authority) -> None:
    port, answered = port_of(broker), []

    def asks(tls: ssl.SSLContext | None) -> None:
        for _ in range(5):
            with RemotingClient(port, tls=tls) as client:
                answered.append(client.call(7777).code)

    kinds = [None, trusting(authority)] * 4
    threads = [threading.Thread(target=asks, args=(tls,)) for tls in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS * 2)
    assert answered == [ResponseCode.REQUEST_CODE_NOT_SUPPORTED] * 40


def test_enforcing_refuses_clients_without_tls(
    certified: Mapping[str, str], authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with BrokerThread(dict(certified) | {"rocketmq.tls.server.mode": "enforcing"}) as broker:
        assert closed_after(port_of(broker), ROUTE) == TLS_ALERT
        with RemotingClient(port_of(broker), tls=trusting(authority)) as client:
            assert code(client.call(7777)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "a RocketMQ client without TLS" in caplog.text
    assert "set tls.enable=true there" in caplog.text


def test_disabled_refuses_clients_with_tls(
    certified: Mapping[str, str], authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with BrokerThread(dict(certified) | {"rocketmq.tls.server.mode": "disabled"}) as broker:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            RemotingClient(port_of(broker), tls=trusting(authority))
        with RemotingClient(port_of(broker)) as client:
            assert code(client.call(7777)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "this is a TLS client at a RocketMQ listener without TLS" in caplog.text


def test_a_certificate_names_the_user_whose_rules_apply(
    certified: Mapping[str, str], authority: Authority
) -> None:
    own = "listener.name.rocketmq.ssl."
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        f"{own}client.auth": "requested",
        f"{own}principal.mapping.rules": "RULE:^CN=(.*?),OU=Mill$/$1/L, DEFAULT",
    }
    duke = trusting(authority, authority.sign("duke", "/OU=Mill/CN=Duke"))
    other = trusting(authority, authority.sign("other", "/CN=other"))
    with BrokerThread(dict(certified) | settings) as broker:
        broker.create_topics("t")
        resource = Resource(ResourceType.TOPIC, "t")
        entry = AclEntry("User:duke", "*", Operation.WRITE, Permission.ALLOW)

        async def allow(server: object) -> None:
            acls = broker.server.controller.settings.acls
            assert await acls.add([AclBinding(resource, entry)]) == [None]

        broker.run(allow)
        for tls, expected in (
            (duke, ResponseCode.SUCCESS),
            (other, ResponseCode.NO_PERMISSION),
            (trusting(authority), ResponseCode.NO_PERMISSION),
            (None, ResponseCode.NO_PERMISSION),
        ):
            with RemotingClient(port_of(broker), tls=tls) as client:
                assert code(client.send("t")) is expected


def test_a_replaced_certificate_serves_new_connections_and_plain_ones_stay(
    certified: Mapping[str, str], authority: Authority, tmp_path: Path
) -> None:
    store = tmp_path / "broker.pem"
    store.write_bytes(authority.sign("first").both.read_bytes())
    later = Authority(tmp_path, "later")
    own = {"ssl.keystore.location": str(store), "ssl.reload.interval.ms": "100"}
    with BrokerThread(dict(certified) | own) as broker, RemotingClient(port_of(broker)) as plain:
        plain.call(7777)
        with RemotingClient(port_of(broker), tls=trusting(authority)) as before:
            fresh = tmp_path / "fresh.pem"
            fresh.write_bytes(later.sign("second").both.read_bytes())
            fresh.replace(store)
            until = time.monotonic() + SECONDS
            while True:
                try:
                    RemotingClient(port_of(broker), tls=trusting(later)).__exit__(None, None, None)
                    break
                except ssl.SSLError:
                    assert time.monotonic() < until
                    time.sleep(0.05)
            for client in (before, plain):
                assert code(client.call(7777)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED
