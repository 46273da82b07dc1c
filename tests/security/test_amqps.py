"""AMQP over TLS: by a password, by a client's certificate, and by neither."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.credentials import ExternalCredentials
from pika.exceptions import (
    AMQPConnectionError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.client.sync import connect, run
from headrace.config.tls_settings import NAME_RULES
from headrace.security.principal_mapping import NoRuleFits, PrincipalMapping
from headrace.testing import BrokerThread
from tests.support.security.certificates import Authority, Certificate

SECONDS = 20


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("amqps"))


def started(authority: Authority, **settings: str) -> BrokerThread:
    """Return a broker with a listener of AMQPS that asks for certificates and does without."""
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return BrokerThread(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,AMQPS://127.0.0.1:0",
            "amqp.guest": "true",
            "ssl.keystore.location": str(authority.sign().both),
            "ssl.truststore.location": str(authority.certificate),
            "listener.name.amqps.ssl.client.auth": "requested",
            "connection.failed.authentication.delay.ms": "10",
            **given,
        }
    )


@contextmanager
def connected(
    broker: BrokerThread, authority: Authority, credentials: Any, shown: Certificate | None
) -> Iterator[Any]:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if shown is not None:
        context.load_cert_chain(shown.both)
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(
            "localhost",
            broker.call(lambda server: server.listeners[1].port),
            credentials=credentials,
            ssl_options=pika.SSLOptions(context, "localhost"),
            socket_timeout=SECONDS,
            blocked_connection_timeout=SECONDS,
        )
    )
    try:
        yield connection
    finally:
        connection.close()


def let(broker: BrokerThread, user: str) -> None:
    with connect(broker.bootstrap) as client:
        every = {"configure": ".*", "write": ".*", "read": ".*"}
        run(ask_amqp(client, "permission.set", user=user, vhost="/", **every))


def user_of(broker: BrokerThread) -> str:
    with connect(broker.bootstrap) as client:
        (listed,) = run(ask_amqp(client, "connection.list"))
    user: str = listed["user"]
    return user


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ("CN=alice", "alice"),
        ("CN=alice,O=Mill", "alice"),
        ("O=Mill,CN=alice", "alice"),
        ("UID=7+CN=alice,O=Mill", "alice"),
        ("CN=alice,CN=root", "alice"),
        (r"CN=alice,O=x\,CN=root", "alice"),
        (r"O=x\,CN=root,CN=alice", "alice"),
        (r"O=x\+CN=root,CN=alice", "alice"),
        (r"O=x\,CN=root", None),
        ("O=Mill", None),
        ("OCN=alice", None),
    ],
)
def test_a_common_name_is_the_certificates_own_and_not_what_another_field_says(
    subject: str, user: str | None
) -> None:
    mapping = PrincipalMapping(NAME_RULES["common_name"])
    if user is None:
        with pytest.raises(NoRuleFits):
            mapping.user(subject)
    else:
        assert mapping.user(subject) == user


@pytest.mark.parametrize(
    ("login_from", "user"), [("distinguished_name", "CN=alice,O=Mill"), ("common_name", "alice")]
)
def test_a_certificate_is_who_it_names_by_external(
    authority: Authority, login_from: str, user: str
) -> None:
    alice = authority.sign("alice", "/O=Mill/CN=alice")
    bob = authority.sign("bob", "/O=Mill/CN=bob")
    with started(authority, amqp_ssl_cert_login_from=login_from) as broker:
        let(broker, user)
        with connected(broker, authority, ExternalCredentials(), alice) as connection:
            connection.channel().queue_declare("q", exclusive=True)
            assert user_of(broker) == user
        # Who is not known, or shows nothing, is nobody.
        for shown in (bob, None):
            with (
                pytest.raises(AMQPConnectionError),
                connected(broker, authority, ExternalCredentials(), shown),
            ):
                pass


def test_a_password_is_taken_over_tls_with_a_certificate_and_without(
    authority: Authority, tmp_path: Path
) -> None:
    alice = authority.sign("alice", "/O=Mill/CN=alice")
    with started(authority) as broker:
        for shown in (None, alice):
            guest = pika.PlainCredentials("guest", "guest")
            with connected(broker, authority, guest, shown) as connection:
                connection.channel().queue_declare("q", exclusive=True)
                assert user_of(broker) == "guest"
        wrong = pika.PlainCredentials("guest", "wrong")
        with (
            pytest.raises(ProbableAuthenticationError),
            connected(broker, authority, wrong, None),
        ):
            pass


def test_a_super_user_by_certificate_needs_no_permissions(authority: Authority) -> None:
    root = authority.sign("root", "/CN=root")
    with (
        started(authority, super_users="User:CN=root") as broker,
        connected(broker, authority, ExternalCredentials(), root) as connection,
    ):
        connection.channel().queue_declare("q", exclusive=True)


def test_a_certificate_opens_no_vhost_that_its_user_may_not(authority: Authority) -> None:
    alice = authority.sign("alice", "/O=Mill/CN=alice")
    with started(authority) as broker:
        with connect(broker.bootstrap) as client:
            run(ask_amqp(client, "user.put", name="CN=alice,O=Mill", tags=[]))
        with (
            pytest.raises(ProbableAccessDeniedError, match="access to vhost '/' refused"),
            connected(broker, authority, ExternalCredentials(), alice),
        ):
            pass
