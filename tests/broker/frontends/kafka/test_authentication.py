"""Who connects to a SASL listener: let in by each mechanism, refused in Kafka's words, kept out."""

import logging
import struct
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from headrace.frontends.http.exposition import render
from headrace.model.errors import ErrorCode
from headrace.net import limits
from headrace.security.sasl.scram import encode64
from headrace.testing.broker import BrokerThread
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey
from tests.support.security.sasl_kit import (
    PASSWORD,
    USER,
    Knocking,
    add_scram_users,
    client_of,
    guarded,
    request,
)

TOKEN: dict[str, Any] = {"renewers": (), "max_lifetime": timedelta(minutes=1)}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with guarded() as running:
        add_scram_users(running)
        yield running


def code(answer: object) -> str:
    return ErrorCode(int(answer.error_code)).name  # type: ignore[attr-defined]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password_lets_in(broker: BrokerThread, mechanism: str) -> None:
    with Knocking(broker) as client:
        assert client.ask(ApiKey.API_VERSIONS, 0) is not None
        answer = client.log_in(mechanism)
        assert code(answer) == "NONE"
        assert answer.session_lifetime.total_seconds() == 0
        assert client.topics() is not None
        told = client.ask(ApiKey.CREATE_DELEGATION_TOKEN, 1, **TOKEN)
        assert (told.principal_type, told.principal_name) == ("User", USER)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", [USER, "eve"])
def test_a_wrong_password_and_an_unknown_user_are_told_the_same_and_shut_out(
    broker: BrokerThread, mechanism: str, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    planted = "planted-secret-7261"
    began = time.monotonic()
    with Knocking(broker) as client, caplog.at_level(logging.DEBUG):
        answer = client.log_in(mechanism, user, planted)
        assert code(answer) == "SASL_AUTHENTICATION_FAILED"
        if mechanism == "PLAIN":
            assert answer.error_message == "Authentication failed: Invalid username or password"
        else:
            assert answer.error_message == (
                "Authentication failed during authentication due to invalid credentials with SASL"
                f" mechanism {mechanism}"
            )
        assert client.frame() is None
    assert time.monotonic() - began >= 0.09  # the clocks differ a little
    failed = [line for line in caplog.messages if "failed" in line]
    reason = "wrong password" if user == USER else "unknown user"
    assert failed == [
        f"127.0.0.1 on SASL: authentication by {mechanism} failed: {reason}: '{user}'"
    ]
    assert planted not in caplog.text
    assert PASSWORD not in caplog.text


def test_an_unknown_mechanism_is_refused_with_those_there_are(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        answer = client.handshake("GSSAPI")
        assert code(answer) == "UNSUPPORTED_SASL_MECHANISM"
        assert list(answer.mechanisms) == MECHANISMS
        assert client.frame() is None


def test_a_token_before_the_handshake_is_out_of_place(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        answer = client.token(client_of("PLAIN").first())
        assert code(answer) == "ILLEGAL_SASL_STATE"
        assert "during SASL handshake" in answer.error_message
        assert client.frame() is None


def test_a_second_handshake_before_the_end_of_the_first_is_out_of_place(
    broker: BrokerThread,
) -> None:
    with Knocking(broker) as client:
        client.handshake("PLAIN")
        assert code(client.handshake("PLAIN")) == "ILLEGAL_SASL_STATE"
        assert client.frame() is None


def test_who_is_in_and_asks_again_is_told_so_and_stays(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        client.log_in()
        assert code(client.handshake("PLAIN")) == "ILLEGAL_SASL_STATE"
        assert code(client.token(b"\0a\0b")) == "ILLEGAL_SASL_STATE"
        assert client.topics() is not None


def test_where_nobody_authenticates_nobody_can(broker: BrokerThread) -> None:
    with Knocking(broker, listener=1) as client:
        assert code(client.handshake("PLAIN")) == "ILLEGAL_SASL_STATE"
        assert client.topics() is not None


@pytest.mark.parametrize("stage", ["first", "tokens"])
def test_before_authentication_another_request_ends_the_connection(
    broker: BrokerThread, stage: str
) -> None:
    with Knocking(broker) as client:
        if stage == "tokens":
            client.handshake("PLAIN")
        assert client.topics() is None


def test_requests_sent_with_the_tokens_are_not_let_by_with_a_refusal(broker: BrokerThread) -> None:
    metadata = request(ApiKey.METADATA, 1, topics=None)
    bad = request(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=b"\0alice\0wrong")
    with Knocking(broker) as client:
        client.handshake("PLAIN")
        both = b"".join(struct.pack(">i", len(frame)) + frame for frame in (bad, metadata))
        client._socket.sendall(both)
        assert client.frame() is not None  # the refusal
        assert client.frame() is None


def test_requests_sent_with_the_right_token_are_answered(broker: BrokerThread) -> None:
    frames = (
        request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"),
        request(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=client_of("PLAIN").first()),
        request(ApiKey.METADATA, 1, topics=None),
    )
    with Knocking(broker) as client:
        client._socket.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
        for _ in frames:
            assert client.frame() is not None


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_old_clients_send_bare_tokens(broker: BrokerThread, mechanism: str) -> None:
    with Knocking(broker) as client:
        assert code(client.handshake(mechanism, version=0)) == "NONE"
        exchange = client_of(mechanism)
        client.send(exchange.first())
        answer = client.frame()
        assert answer is not None
        if mechanism == "PLAIN":
            assert answer == b""
        else:
            client.send(exchange.respond(answer) or b"")
            final = client.frame()
            assert final is not None
            assert exchange.respond(final) is None
        assert client.topics() is not None


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0a\0b", b"x", b"\x00\x03\x00\x01" * 8])
def test_a_bare_token_that_proves_nothing_ends_the_connection(
    broker: BrokerThread, token: bytes
) -> None:
    with Knocking(broker) as client:
        client.handshake("PLAIN", version=0)
        began = time.monotonic()
        client.send(token)
        assert client.frame() is None
        assert time.monotonic() - began >= 0.09  # the clocks differ a little


def test_bare_tokens_behind_one_that_failed_are_not_heard(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    with Knocking(broker) as client:
        client.handshake("PLAIN", version=0)
        frames = (b"\0alice\0wrong", client_of("PLAIN").first())
        client._socket.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
        assert client.frame() is None
    assert sum("failed" in line for line in caplog.messages) == 1


def test_before_authentication_frames_are_short(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        client._socket.sendall(struct.pack(">i", limits.AUTHENTICATION_FRAME_BYTES_MAX + 1))
        assert client.frame() is None


def test_a_token_longer_than_is_allowed_is_refused() -> None:
    with guarded(sasl_server_max_receive_size="100") as broker, Knocking(broker) as client:
        client.handshake("PLAIN")
        answer = client.token(b"\0alice\0" + b"x" * 100)
        assert code(answer) == "SASL_AUTHENTICATION_FAILED"
        assert client.frame() is None


def test_quotas_of_a_user_bind_who_has_authenticated_as_him(broker: BrokerThread) -> None:
    asked: list[str] = []
    quotas = broker.server.broker.quotas
    plain = quotas.of

    def of(user: str, client_id: str) -> object:
        asked.append(user)
        return plain(user, client_id)

    quotas.of = of  # type: ignore[method-assign,assignment]
    quotas.active = True
    try:
        with Knocking(broker) as client:
            client.handshake("SCRAM-SHA-256", version=0)  # bare tokens pass by the quotas
            exchange = client_of("SCRAM-SHA-256")
            client.send(exchange.first())
            client.send(exchange.respond(client.frame() or b"") or b"")
            assert client.frame() is not None
            assert client.topics() is not None
    finally:
        del quotas.of
        quotas.active = False
    assert set(asked) == {"ANONYMOUS", USER}


def test_whoever_does_not_authenticate_in_time_is_shut_out() -> None:
    with guarded(connection_authentication_ms="500") as broker:
        with Knocking(broker) as client:
            client.handshake("PLAIN")
            assert client.frame() is None
        with Knocking(broker) as client:
            client.log_in()
            time.sleep(2.5)
            assert client.topics() is not None


def test_secrets_are_in_no_answer_and_no_metric(broker: BrokerThread) -> None:
    kept = broker.server.broker.users.of(USER)
    secrets = [PASSWORD, "builder"]
    secrets += [encode64(credential.stored_key) for credential in kept.values()]
    with Knocking(broker) as client:
        client.log_in()
        seen = [str(client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None))]
        asks = kio_codec.entity_module(ApiKey.DESCRIBE_CONFIGS, 4).request.DescribeConfigsResource
        broker_zero = asks(resource_type=4, resource_name="0", configuration_keys=None)
        seen.append(
            str(
                client.ask(
                    ApiKey.DESCRIBE_CONFIGS, 4, resources=(broker_zero,), include_synonyms=True,
                    include_documentation=True,
                )
            )
        )  # fmt: skip
        assert "SCRAM-SHA-512" in seen[1]
    seen.append(broker.call(lambda server: render(server.metrics)).decode())
    config = broker.server.config
    seen.append(repr(config.sasl) + repr(config.values))
    for secret in secrets:
        assert not [text for text in seen if secret in text]
