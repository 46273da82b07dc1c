"""Our own client on SASL listeners: settings by Kafka's names, every transport, sessions' ends."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from headrace.client.client import Client
from headrace.client.sync import FetchConnection, connect, run
from headrace.client.transport.credentials import (
    AuthenticationFailed,
    Credentials,
    credentials_in,
)
from headrace.client.transport.events import EventTransport
from headrace.client.transport.port import Address, parse_bootstrap
from headrace.config.authentication.jaas import SCRAM_MODULE
from headrace.config.properties import parse
from headrace.model.errors import ConfigError
from headrace.model.secret import Secret
from headrace.security.sasl.sasl import Mechanism
from headrace.testing.broker import BrokerThread
from tests.support.security.sasl_kit import PASSWORD, USER, add_scram_users, guarded

PASSWORDS = [mechanism for mechanism in Mechanism if mechanism != "OAUTHBEARER"]
WRONG = "wrong-secret-913"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with guarded() as running:
        add_scram_users(running)
        yield running


def alice(mechanism: str = "SCRAM-SHA-256", password: str = PASSWORD) -> Credentials:
    return Credentials(Mechanism(mechanism), USER, Secret(password))


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_a_blocking_client_is_let_in(broker: BrokerThread, mechanism: str) -> None:
    with connect(broker.bootstrap, credentials=alice(mechanism)) as client:
        assert run(client.metadata()).brokers
    address = Address("127.0.0.1", broker.port)
    with FetchConnection(address, credentials=alice(mechanism)) as connection:
        assert connection.fetch([]) == []


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_a_client_on_a_loop_is_let_in(broker: BrokerThread, mechanism: str) -> None:
    async def story() -> None:
        addresses = parse_bootstrap(broker.bootstrap)
        with Client(EventTransport(), addresses, credentials=alice(mechanism)) as client:
            assert (await client.metadata()).brokers

    asyncio.run(story())


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_a_wrong_password_is_told_at_once_and_never_shown(
    broker: BrokerThread, mechanism: str
) -> None:
    began = time.monotonic()
    with (
        connect(broker.bootstrap, credentials=alice(mechanism, WRONG)) as client,
        pytest.raises(AuthenticationFailed, match="user alice: Authentication failed") as raised,
    ):
        run(client.metadata())
    assert WRONG not in str(raised.value)
    assert time.monotonic() - began < 20  # it is not tried again for half a minute
    with pytest.raises(AuthenticationFailed, match="user alice: Authentication failed"):
        FetchConnection(Address("127.0.0.1", broker.port), credentials=alice(mechanism, WRONG))


def test_a_mechanism_that_the_broker_does_not_take_is_named_with_those_it_does() -> None:
    with (
        guarded(sasl_enabled_mechanisms="SCRAM-SHA-512") as broker,
        connect(broker.bootstrap, credentials=alice()) as client,
        pytest.raises(
            AuthenticationFailed, match="does not offer SCRAM-SHA-256, but SCRAM-SHA-512"
        ),
    ):
        run(client.metadata())


def test_a_session_that_is_nearly_over_is_left_for_a_new_one() -> None:
    with guarded(connections_max_reauth_ms="1000") as broker:
        add_scram_users(broker)
        with connect(broker.bootstrap, credentials=alice()) as client:
            first = run(client.any_link())
            assert run(client.any_link()) is first
            time.sleep(1.2)
            assert run(client.metadata()).brokers
            assert run(client.any_link()) is not first


def test_settings_have_kafkas_names() -> None:
    jaas = f'{SCRAM_MODULE} required username="alice" password="{PASSWORD}";'
    text = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
    text += f"sasl.jaas.config={jaas}"
    found = credentials_in(parse(text))
    assert found is not None
    assert (found.mechanism, found.user) == (Mechanism.SCRAM_SHA_512, "alice")
    assert found.password.reveal() == PASSWORD
    assert PASSWORD not in repr(found)
    librdkafka = {
        "security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN",
        "sasl.username": "bob", "sasl.password": "builder",
    }  # fmt: skip
    bob = credentials_in(librdkafka)
    assert bob is not None
    assert (bob.mechanism, bob.user, bob.password.reveal()) == ("PLAIN", "bob", "builder")
    assert credentials_in({}) is None
    assert credentials_in({"security.protocol": "PLAINTEXT"}) is None
    assert credentials_in({"security.protocol": "SSL"}) is None


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "must be one of PLAIN"),
        ({"sasl.mechanism": ""}, "must be one of PLAIN"),
        ({"sasl.username": ""}, "needs username and password"),
        ({"sasl.jaas.config": f'{SCRAM_MODULE} required username="a";'}, "needs username and"),
        (
            {"sasl.jaas.config": f"evil.Module required password={WRONG};"},
            "login module must be one of",
        ),
        ({"sasl.jaas.config": f"{SCRAM_MODULE} {WRONG}"}, "is not: MODULE"),
    ],
)
def test_settings_that_say_nothing_of_use_are_refused_and_not_shown(
    settings: dict[str, str], why: str
) -> None:
    given = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": USER, "sasl.password": WRONG, **settings,
    }  # fmt: skip
    with pytest.raises(ConfigError) as raised:
        credentials_in(given)
    assert why in str(raised.value)
    assert WRONG not in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        {}, {"url": ""}, {"url": "https://issuer.example/token"}, {"url": "/token"},
        {"url": "file://host/token"},
    ],
    ids=str,
)  # fmt: skip
def test_a_token_comes_out_of_a_file_and_from_nobody_else(given: dict[str, str]) -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    if "url" in given:
        settings["sasl.oauthbearer.token.endpoint.url"] = given["url"]
    with pytest.raises(ConfigError, match="must be file:/PATH"):
        credentials_in(settings)
    settings["sasl.oauthbearer.token.endpoint.url"] = "file:///run/a%20token"
    found = credentials_in(settings)
    assert found is not None
    assert found.token_file == "/run/a token"


def test_a_delegation_token_is_told_from_a_password() -> None:
    line = f'{SCRAM_MODULE} required username="id" password="hmac"'
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"}
    for behind, delegated in (
        (' tokenauth="true"', True),
        (' tokenauth="false"', False),
        ("", False),
    ):
        found = credentials_in({**settings, "sasl.jaas.config": f"{line}{behind};"})
        assert found is not None
        assert found.delegated is delegated
    with pytest.raises(ConfigError, match="tokenauth is for SCRAM"):
        credentials_in(
            {**settings, "sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{line} tokenauth="true";'}
        )
