"""Listeners that speak TLS, as stock clients and bad ones meet them."""

import contextlib
import logging
import random
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from headrace.cli.main import run as command
from headrace.net.tls import handshakes
from headrace.testing import BrokerThread
from headrace.wire.first_bytes import TLS_ALERT
from tests.support.security.certificates import OPEN, Authority, Certificate
from tests.support.security.sasl_kit import PASSWORD, PLAIN_USERS, USER, add_scram_users

SECONDS = 20.0
TLS_AND_PLAIN = "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs this file's certificates."""
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Certificate:
    """The broker's."""
    return authority.sign()


@pytest.fixture(scope="module")
def broker(authority: Authority, server: Certificate) -> Iterator[BrokerThread]:
    """One that asks for certificates and does without."""
    settings = {
        "listeners": TLS_AND_PLAIN,
        "ssl.keystore.location": str(server.both),
        **OPEN,
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=Mill$/$1/L, RULE:^CN=(.*?)$/$1/",
    }
    with BrokerThread(settings) as started:
        yield started


@pytest.fixture(autouse=True)
def lines_left(broker: BrokerThread) -> None:
    """Have the next failures logged, however many there were in this second."""
    tls_of(broker)._logged = 0


def client_of(broker: BrokerThread, authority: Authority, **more: str) -> dict[str, Any]:
    """Return librdkafka's settings for a broker's first listener."""
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def context_of(authority: Authority, certificate: Certificate | None = None) -> ssl.SSLContext:
    """Return what trusts the broker."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if certificate is not None:
        context.load_cert_chain(certificate.both)
    return context


def works(settings: Mapping[str, Any]) -> None:
    """Have something produced and consumed."""
    topic = f"topic-{random.randrange(1 << 40)}"
    producer = Producer(dict(settings))
    values = [random.Random(at).randbytes(20_000) for at in range(50)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        found: list[bytes] = []
        until = time.monotonic() + SECONDS
        while len(found) < len(values) and time.monotonic() < until:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message.value())
        assert found == values
    finally:
        consumer.close()


def plain_of(broker: BrokerThread) -> int:
    """Return the port of the listener without TLS."""
    return broker.server.listeners[1].port


def still_serves(broker: BrokerThread, authority: Authority) -> None:
    """See that others notice nothing."""
    admin = AdminClient(client_of(broker, authority))
    assert admin.list_topics(timeout=SECONDS).brokers


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    until = time.monotonic() + SECONDS
    while not holds() and time.monotonic() < until:
        time.sleep(0.02)
    assert holds()


def principals(broker: BrokerThread) -> list[str]:
    """Return who is connected."""
    return broker.call(
        lambda server: [str(connection.principal) for connection in server.table._connections]
    )


def test_librdkafka_produces_and_consumes_by_tls(
    broker: BrokerThread, authority: Authority
) -> None:
    works(client_of(broker, authority))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_certificate_says_who_it_is(
    broker: BrokerThread, authority: Authority, version: ssl.TLSVersion
) -> None:
    miller = authority.sign("miller", "/OU=Mill/CN=Duke")
    context = context_of(authority, miller)
    context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", broker.port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        eventually(lambda: "User:duke" in principals(broker))


def test_without_a_certificate_one_is_anonymous(broker: BrokerThread, authority: Authority) -> None:
    with (
        socket.create_connection(("127.0.0.1", broker.port)) as plain,
        context_of(authority).wrap_socket(plain, server_hostname="localhost"),
    ):
        eventually(lambda: "User:ANONYMOUS" in principals(broker))


def test_a_name_that_no_rule_fits_is_refused(
    broker: BrokerThread, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    nobody = authority.sign("nobody", "/O=Nobody")
    with (
        socket.create_connection(("127.0.0.1", broker.port)) as plain,
        context_of(authority, nobody).wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        wrapped.settimeout(SECONDS)
        with contextlib.suppress(OSError):
            assert wrapped.recv(1) == b""
    eventually(lambda: "no rule of ssl.principal.mapping.rules fits" in caplog.text)
    still_serves(broker, authority)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_librdkafka_and_our_command_authenticate_over_tls(
    mechanism: str, authority: Authority, server: Certificate, tmp_path: Path
) -> None:
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": str(server.both),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_USERS,
        "super.users": f"User:{USER}",
    }
    told = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
    own = tmp_path / "client.properties"
    with BrokerThread(settings) as broker:
        add_scram_users(broker)
        names = {"sasl.username": USER, "sasl.password": PASSWORD}
        works({**client_of(broker, authority), **told, **names})
        lines = {**told, **names, "ssl.truststore.location": str(authority.certificate)}
        own.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        asked = ["topic", "list", "-b", broker.bootstrap, "--command-config", str(own)]
        assert command(asked) == 0
        own.write_text(own.read_text().replace(PASSWORD, "wrong"))
        assert command(asked) != 0


def test_mutual_tls_lets_in_whom_the_authority_signed_and_nobody_else(
    authority: Authority, server: Certificate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(server.both),
        "listener.name.ssl.ssl.truststore.location": str(authority.certificate),
        "listener.name.ssl.ssl.client.auth": "required",
        "super.users": "User:CN=known,OU=Mill",
    }
    known = authority.sign("known", "/OU=Mill/CN=known")
    stranger = Authority(tmp_path, "stranger").sign("unknown", "/OU=Mill/CN=known")
    with BrokerThread(settings) as broker:
        mine = {"ssl_certificate_location": str(known.chain), "ssl_key_location": str(known.key)}
        works(client_of(broker, authority, **mine))
        theirs = {
            "ssl_certificate_location": str(stranger.chain),
            "ssl_key_location": str(stranger.key),
        }
        for wrong in (theirs, {}):
            with pytest.raises(KafkaException):
                AdminClient(client_of(broker, authority, **wrong)).list_topics(timeout=3)
        eventually(lambda: "invalid client certificate" in caplog.text)
        eventually(lambda: "the client sent no certificate" in caplog.text)


def test_a_client_of_another_authority_ends_the_handshake_itself(
    broker: BrokerThread, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Authority(tmp_path, "other")
    with pytest.raises(KafkaException):
        AdminClient(client_of(broker, other)).list_topics(timeout=3)
    eventually(lambda: "does not trust the authority" in caplog.text)
    still_serves(broker, authority)


def test_tls_1_1_is_refused(
    broker: BrokerThread, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    done = subprocess.run(
        ["openssl", "s_client", "-connect", broker.bootstrap, "-tls1_1",
         "-cipher", "ALL:@SECLEVEL=0"],
        input=b"", capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert b"Cipher is (NONE)" in done.stdout
    eventually(lambda: "supports no TLS version of ssl.enabled.protocols" in caplog.text)
    still_serves(broker, authority)


def test_plain_text_to_a_tls_port_is_closed_with_one_line(
    broker: BrokerThread, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", broker.port)) as plain:
        plain.settimeout(SECONDS)
        plain.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
        assert plain.recv(99) == TLS_ALERT
        assert plain.recv(1) == b""
    lines = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert "set security.protocol=SSL there" in lines[0]
    still_serves(broker, authority)


def test_tls_to_a_plain_port_is_closed_with_one_line(
    broker: BrokerThread, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        socket.create_connection(("127.0.0.1", plain_of(broker))) as plain,
        pytest.raises(OSError, match=r"(?i)eof|reset|ssl"),
    ):
        context_of(authority).wrap_socket(plain, server_hostname="localhost")
    lines = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert "this is a TLS client at a Kafka listener without TLS; SSL listens on" in lines[0]


def test_half_a_handshake_and_silence_hurts_nobody_and_ends(
    authority: Authority, server: Certificate
) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(server.both),
        "connection.handshake.ms": "1000",
    }
    with BrokerThread(settings) as broker, contextlib.ExitStack() as crowd:
        hello = client_hello(authority)
        silent = []
        for at in range(100):
            plain = crowd.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
            plain.settimeout(SECONDS)
            plain.sendall(hello[: at * 3])
            silent.append(plain)
        still_serves(broker, authority)
        for plain in silent:
            with contextlib.suppress(ConnectionResetError):
                assert plain.recv(1) == b""
        assert len(tls_of(broker)) == 0


def test_changed_bytes_in_handshakes_hurt_nobody(
    broker: BrokerThread, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(7)
    hello = client_hello(authority)
    for _ in range(60):
        changed = bytearray(hello)
        for _ in range(chance.randint(1, 20)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        with socket.create_connection(("127.0.0.1", broker.port)) as plain:
            plain.sendall(changed[: chance.randrange(1, len(changed) + 1)])
            plain.sendall(chance.randbytes(chance.randrange(50)))
    eventually(lambda: len(tls_of(broker)) == 0)
    still_serves(broker, authority)
    assert "bug of Headrace" not in caplog.text


def test_new_connections_have_the_new_certificate_and_a_broken_file_changes_nothing(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store.pem"
    first, second = authority.sign("first"), authority.sign("second")
    store.write_bytes(first.both.read_bytes())
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(store),
        "ssl.reload.interval.ms": "100",
    }
    with BrokerThread(settings) as broker, caplog.at_level(logging.INFO):
        assert shown(broker, authority) == der(first)
        store.write_text(second.both.read_text()[:-200])
        eventually(lambda: "changed certificates cannot be loaded" in caplog.text)
        assert shown(broker, authority) == der(first)
        store.write_bytes(second.both.read_bytes())
        eventually(lambda: shown(broker, authority) == der(second))
        store.unlink()
        time.sleep(0.5)
        assert shown(broker, authority) == der(second)
        broken = [one for one in caplog.records if "cannot be loaded" in one.message]
        assert len(broken) == 2  # once for each state of the file, not at each look


def test_a_listeners_certificate_is_altered_while_it_runs(
    authority: Authority, server: Certificate
) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

    settings = {"listeners": TLS_AND_PLAIN, "ssl.keystore.location": str(server.both)}
    other = authority.sign("altered")
    with BrokerThread(settings) as broker:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{plain_of(broker)}"})

        def alter(value: str) -> None:
            entry = ConfigEntry("listener.name.ssl.ssl.keystore.location", value,
                                incremental_operation=AlterConfigOpType.SET)  # fmt: skip
            resource = ConfigResource("BROKER", "0", incremental_configs=[entry])
            for future in admin.incremental_alter_configs([resource]).values():
                future.result(SECONDS)

        alter(str(other.both))
        eventually(lambda: shown(broker, authority) == der(other))
        alter("/nowhere/none.pem")
        time.sleep(0.3)
        assert shown(broker, authority) == der(other)


def client_hello(authority: Authority) -> bytes:
    """Return a client's first words."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context_of(authority).wrap_bio(into, out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def tls_of(broker: BrokerThread) -> handshakes.Handshakes:
    """Return the handshakes under way."""
    found = broker.server.doors.tls
    assert found is not None
    return found.handshakes


def shown(broker: BrokerThread, authority: Authority) -> bytes | None:
    """Return the certificate that a new connection is shown."""
    with (
        socket.create_connection(("127.0.0.1", broker.port)) as plain,
        context_of(authority).wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        return wrapped.getpeercert(binary_form=True)


def der(certificate: Certificate) -> bytes:
    """Return a certificate's bytes."""
    return ssl.PEM_cert_to_DER_cert(certificate.chain.read_text())
