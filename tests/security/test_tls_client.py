"""Our own client by TLS: every transport, both families of settings, and what it refuses."""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headrace.cli.main import run as command
from headrace.client.client import Client
from headrace.client.sync import FetchConnection, connect, run
from headrace.client.transport.blocking import BlockingTransport
from headrace.client.transport.events import EventTransport
from headrace.client.transport.port import Address, CannotConnect
from headrace.model.errors import ConfigError
from headrace.posix.network import RealNetwork
from headrace.posix.tls_client import client_context
from headrace.testing import BrokerThread
from tests.support.security.certificates import OPEN, Authority, Certificate

SSL = {"security.protocol": "SSL"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs this file's certificates."""
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def mine(authority: Authority) -> Certificate:
    """The client's."""
    return authority.sign("client", "/CN=client")


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[BrokerThread]:
    """One that wants certificates."""
    settings = {
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.location": str(authority.sign().both),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.auth": "required",
        **OPEN,
    }
    with BrokerThread(settings) as started:
        yield started


def by_kafkas_names(authority: Authority, mine: Certificate) -> dict[str, str]:
    """Return settings as Java's client takes them."""
    return {
        **SSL,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(mine.both),
    }


def by_librdkafkas_names(authority: Authority, mine: Certificate) -> dict[str, str]:
    """Return settings as librdkafka takes them."""
    return {
        **SSL,
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(mine.chain),
        "ssl.key.location": str(mine.key),
    }


@pytest.mark.parametrize("settings_of", [by_kafkas_names, by_librdkafkas_names])
def test_the_blocking_client_speaks_tls(
    broker: BrokerThread, authority: Authority, mine: Certificate, settings_of: object
) -> None:
    assert callable(settings_of)
    tls = client_context(settings_of(authority, mine))
    with connect(broker.bootstrap, tls=tls) as client:
        assert len(run(client.metadata()).brokers) == 1


def test_the_client_on_a_loop_speaks_tls(
    broker: BrokerThread, authority: Authority, mine: Certificate
) -> None:
    tls = client_context(by_kafkas_names(authority, mine))
    assert tls is not None

    async def ask() -> int:
        transport = EventTransport(partial(RealNetwork().connect, tls=tls))
        with Client(transport, [Address("127.0.0.1", broker.port)]) as client:
            return len((await client.metadata()).brokers)

    assert asyncio.run(ask()) == 1


def test_a_connection_that_only_fetches_speaks_tls(
    broker: BrokerThread, authority: Authority, mine: Certificate
) -> None:
    tls = client_context(by_kafkas_names(authority, mine))
    connection = FetchConnection(Address("127.0.0.1", broker.port), tls=tls)
    assert connection.versions
    connection.close()


def test_a_broker_of_another_authority_or_name_is_not_believed(
    broker: BrokerThread, authority: Authority, mine: Certificate, tmp_path: Path
) -> None:
    stranger = by_kafkas_names(Authority(tmp_path, "stranger"), mine)
    for settings, host in (
        (stranger, "127.0.0.1"),
        (by_kafkas_names(authority, mine), "127.0.0.2"),
    ):
        transport = BlockingTransport(client_context(settings))
        with BrokerThread(
            {
                "listeners": f"SSL://{host}:0",
                "ssl.keystore.location": str(authority.sign().both),
            }
        ) as other, pytest.raises(CannotConnect, match="its certificate is refused"):  # fmt: skip
            run(transport.connect(Address(host, other.port), 10))


def test_the_host_name_goes_unverified_only_with_a_warning(
    authority: Authority, mine: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    settings = by_kafkas_names(authority, mine)
    context = client_context(settings)
    assert context is not None
    assert context.check_hostname
    with caplog.at_level(logging.WARNING):
        context = client_context({**settings, "ssl.endpoint.identification.algorithm": ""})
    assert context is not None
    assert not context.check_hostname
    assert "can pose as a broker" in caplog.text


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"security.protocol": "KERBEROS"}, "must be one of PLAINTEXT"),
        ({**SSL, "enable.ssl.certificate.verification": "false"}, "always verified"),
        ({**SSL, "ssl.engine.factory.class": "x"}, "unknown setting"),
        ({**SSL, "ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.1 is not one of"),
        ({**SSL, "ssl.endpoint.identification.algorithm": "ldaps"}, "must be https"),
        ({**SSL, "ssl.certificate.pem": "x"}, "ssl.key.location"),
        ({**SSL, "ssl.truststore.location": "/nowhere"}, "no such file"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(
    settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        client_context(settings)


def test_without_a_word_of_tls_it_is_plain_text() -> None:
    assert client_context({"bootstrap.servers": "a:1"}) is None


def test_tls_to_a_plain_listener_says_so(
    broker: BrokerThread, authority: Authority, mine: Certificate
) -> None:
    plain = broker.server.listeners[1].port
    transport = BlockingTransport(client_context(by_kafkas_names(authority, mine)))
    with pytest.raises(CannotConnect, match=r"speak TLS|connection reset"):
        run(transport.connect(Address("127.0.0.1", plain), 10))


def test_the_command_takes_them_from_a_file(
    broker: BrokerThread,
    authority: Authority,
    mine: Certificate,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "client.properties"
    lines = {**by_kafkas_names(authority, mine), "bootstrap.servers": broker.bootstrap}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    assert command(["topic", "create", "by-tls", "--command-config", str(file)]) == 0
    assert command(["topic", "list", "--command-config", str(file)]) == 0
    assert "by-tls" in capsys.readouterr().out
    assert command(["topic", "list", "--command-config", str(tmp_path / "none")]) != 0
    assert "no such file" in capsys.readouterr().err
