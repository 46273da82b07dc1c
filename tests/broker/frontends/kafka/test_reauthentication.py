"""Sessions that end (KIP-368): renewed they go on, used behind their end they do not."""

import time
from collections.abc import Iterator

import pytest

from headrace.model.errors import ErrorCode
from headrace.testing.broker import BrokerThread
from tests.support.security.sasl_kit import Knocking, add_scram_users, guarded

LIFE_SECONDS = 1.5


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    life = str(int(LIFE_SECONDS * 1000))
    with guarded(connections_max_reauth_ms=life) as running:
        add_scram_users(running)
        add_scram_users(running, "bob", "builder")
        yield running


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_authenticated_again_a_session_goes_on(broker: BrokerThread, mechanism: str) -> None:
    with Knocking(broker) as client:
        for _ in range(3):
            answer = client.log_in(mechanism)
            assert answer.session_lifetime.total_seconds() == LIFE_SECONDS
            assert client.topics() is not None
            time.sleep(LIFE_SECONDS / 2)
        assert client.topics() is not None


def test_a_session_used_behind_its_end_is_closed(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    with Knocking(broker) as client:
        client.log_in()
        time.sleep(LIFE_SECONDS + 0.5)
        assert client.topics() is None
    assert (
        "METADATA v1 behind the session's end (connections.max.reauth.ms, or its token)"
        in caplog.text
    )


def test_behind_its_end_a_session_can_still_be_renewed(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        client.log_in()
        time.sleep(LIFE_SECONDS + 0.5)
        client.log_in()
        assert client.topics() is not None


def test_nobody_becomes_another_user(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        client.log_in()
        answer = client.log_in(user="bob", password="builder")
        assert ErrorCode(answer.error_code) is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User:alice to User:bob"
        )
        assert client.frame() is None


def test_a_mechanism_stays_what_it_was(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        client.log_in()
        answer = client.handshake("SCRAM-SHA-256")
        assert ErrorCode(answer.error_code) is ErrorCode.ILLEGAL_SASL_STATE
        assert client.frame() is None


def test_while_authenticating_again_nothing_else_is_answered(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        client.log_in()
        client.handshake("PLAIN")
        assert client.topics() is None


def test_a_wrong_password_the_second_time_ends_the_connection(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        client.log_in("SCRAM-SHA-256")
        answer = client.log_in("SCRAM-SHA-256", password="wrong")
        assert "during re-authentication" in answer.error_message
        assert client.frame() is None
