"""What brokers connect to each other's listeners with: their certificates, and changed ones."""

import asyncio
import ssl
from pathlib import Path
from typing import NoReturn

import pytest

from headrace.config.broker import BrokerConfig, load
from headrace.model.errors import ConfigError
from headrace.net.limits import Limits
from headrace.net.table import ConnectionTable
from headrace.posix.clock import RealClock
from headrace.posix.network import RealNetwork
from headrace.server.inter_broker_clients import InterBrokerClients
from headrace.server.tls_listeners import TlsListeners
from tests.support.processes.broker import until
from tests.support.security.certificates import Authority


def listeners(config: BrokerConfig, clock: RealClock) -> TlsListeners:
    """Of a broker that nobody comes to."""
    limits = Limits(config, config.connection_limits)
    return TlsListeners(config, clock, ConnectionTable(clock, limits, nobody, nobody))


def nobody(_: object) -> NoReturn:
    raise AssertionError


def configured(authority: Authority, store: Path, **changed: str) -> BrokerConfig:
    """A broker of a cluster with a listener of SSL among brokers and another for clients."""
    given = {
        "listeners": "SSL://127.0.0.1:1,CLIENTS://127.0.0.1:2",
        "listener.security.protocol.map": "SSL:SSL,CLIENTS:SSL",
        "zookeeper.connect": "127.0.0.1:2181",
        "broker.id": "1",
        "ssl.keystore.location": str(store),
        "ssl.truststore.location": str(authority.certificate),
        "ssl.reload.interval.ms": "100",
    }
    return load(flags={**given, **{name.replace("_", "."): v for name, v in changed.items()}})[0]


def connecting(tls: TlsListeners) -> ssl.SSLContext:
    found = tls.connecting("SSL")
    assert found is not None
    return found


def test_connections_to_others_have_the_new_certificate_and_a_broken_file_changes_nothing(
    tmp_path: Path,
) -> None:
    authority, store = Authority(tmp_path), tmp_path / "store.pem"
    first, second = authority.sign("first"), authority.sign("second")
    store.write_bytes(first.both.read_bytes())

    async def story() -> None:
        loop = asyncio.get_running_loop()
        tls = listeners(configured(authority, store), RealClock(loop))
        try:
            before = connecting(tls)
            store.write_text(second.both.read_text()[:-200])
            await asyncio.sleep(0.5)
            assert connecting(tls) is before
            store.write_bytes(second.both.read_bytes())
            await until(lambda: connecting(tls) is not before)
            assert tls.connecting("CLIENTS") is None
            assert tls.connecting("PLAINTEXT") is None
        finally:
            tls.close()

    asyncio.run(story())


def test_other_brokers_are_verified_by_the_truststore_and_their_host(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    store = authority.sign().both

    async def context(**changed: str) -> ssl.SSLContext:
        loop = asyncio.get_running_loop()
        tls = listeners(configured(authority, store, **changed), RealClock(loop))
        tls.close()
        return connecting(tls)

    found = asyncio.run(context())
    assert found.verify_mode is ssl.CERT_REQUIRED
    assert found.check_hostname
    assert len(found.get_ca_certs()) == 1
    unchecked = asyncio.run(context(ssl_endpoint_identification_algorithm=""))
    assert unchecked.verify_mode is ssl.CERT_REQUIRED
    assert not unchecked.check_hostname


def test_a_broker_that_cannot_say_who_it_is_is_told_so_before_it_asks_others() -> None:
    config, _ = load(flags={"listeners": "SASL_PLAINTEXT://127.0.0.1:1"})
    with pytest.raises(ConfigError, match=r"sasl\.mechanism\.inter\.broker\.protocol=GSSAPI"):
        InterBrokerClients(config, RealNetwork(), None).by("SASL_PLAINTEXT")
