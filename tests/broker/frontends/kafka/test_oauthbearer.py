"""Who comes with a token: let in until it ends, refused as RFC 7628 says; keys that change."""

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.model.errors import ErrorCode
from headrace.model.secret import Secret
from headrace.security.sasl.oauthbearer import OAuthBearerClient
from headrace.server import token_keys
from headrace.testing.broker import BrokerThread
from headrace.wire.kafka.api import ApiKey
from tests.support.security.sasl_kit import WAIT_SECONDS, Knocking, guarded
from tests.support.security.token_kit import claims, jwks, listener_settings, signer

ONE = signer("ES256")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_bytes(jwks(ONE))
    return path


@pytest.fixture(scope="module")
def broker(keys: Path) -> Iterator[BrokerThread]:
    with guarded(**listener_settings(keys)) as running:
        yield running


def token(**changed: Any) -> str:
    return ONE.token(claims(time.time(), **changed))


def log_in(client: Knocking, bearer_token: str) -> Any:
    handshake = client.handshake("OAUTHBEARER")
    assert ErrorCode(handshake.error_code) is ErrorCode.NONE
    return client.token(OAuthBearerClient(Secret(bearer_token)).first())


def code(answer: Any) -> str:
    return ErrorCode(int(answer.error_code)).name


def test_a_token_lets_in_until_it_ends(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        answer = log_in(client, token())
        assert (code(answer), bytes(answer.auth_bytes)) == ("NONE", b"")
        assert 3590 < answer.session_lifetime.total_seconds() <= 3600
        assert client.topics() is not None


def test_a_refused_token_is_told_in_json_and_then_as_by_kafka(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    bad = token(aud="planted-4711")
    with Knocking(broker) as client, caplog.at_level(logging.DEBUG):
        answer = log_in(client, bad)
        assert (code(answer), answer.error_message) == ("NONE", None)
        assert json.loads(bytes(answer.auth_bytes)) == {"status": "invalid_token"}
        answer = client.token(b"\x01")
        assert code(answer) == "SASL_AUTHENTICATION_FAILED"
        assert answer.error_message == '{"status":"invalid_token"}'
        assert client.frame() is None
    assert [line for line in caplog.messages if "failed" in line] == [
        "127.0.0.1 on SASL: authentication by OAUTHBEARER failed:"
        " a token for another audience (aud)"
    ]
    assert "planted" not in caplog.text
    assert bad not in caplog.text


def test_who_is_refused_cannot_try_again_and_is_not_let_by(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        log_in(client, token(iss="other"))
        assert client.topics() is None
    with Knocking(broker) as client:
        log_in(client, token(iss="other"))
        answer = client.token(OAuthBearerClient(Secret(token())).first())
        assert code(answer) == "SASL_AUTHENTICATION_FAILED"
        assert client.frame() is None


def test_who_is_refused_and_goes_away_has_a_line_in_the_log(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    with Knocking(broker) as client:
        log_in(client, token(sub=""))
    until(lambda: "does not say whose it is (sub)" in caplog.text)


def test_a_session_ends_with_its_token(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        answer = log_in(client, token(exp=time.time() + 0.4))
        assert 0 < answer.session_lifetime.total_seconds() <= 0.4
        assert client.topics() is not None
        time.sleep(0.5)
        assert client.topics() is None


def test_a_token_past_its_end_by_less_than_the_clocks_may_differ_lets_in_for_a_moment(
    broker: BrokerThread,
) -> None:
    with Knocking(broker) as client:
        answer = log_in(client, token(exp=time.time() - 10))
        assert code(answer) == "NONE"
        assert answer.session_lifetime.total_seconds() == 0.001
        time.sleep(0.1)
        assert client.topics() is None


def test_another_token_prolongs_the_session_of_the_same_one_only(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        log_in(client, token(exp=time.time() + 0.6))
        assert code(log_in(client, token())) == "NONE"
        time.sleep(0.7)
        assert client.topics() is not None
        answer = log_in(client, token(sub="mallory"))
        assert code(answer) == "SASL_AUTHENTICATION_FAILED"
        assert "Cannot change principals" in answer.error_message
        assert client.frame() is None


def test_sessions_end_where_reauthentication_is_due_first(keys: Path) -> None:
    given = {**listener_settings(keys), "connections.max.reauth.ms": "60000"}
    with guarded(**given) as running, Knocking(running) as client:
        assert log_in(client, token()).session_lifetime.total_seconds() == 60
        assert log_in(client, token(exp=time.time() + 5)).session_lifetime.total_seconds() <= 5


def test_who_it_is_comes_from_the_claim(broker: BrokerThread) -> None:
    with Knocking(broker) as client:
        log_in(client, token(sub="carol"))
        told = client.ask(ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=True)
        assert told.cluster_authorized_operations == 0  # alice may do all, carol nothing


def test_without_keys_nobody_is_believed_and_newer_keys_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(token_keys, "FILE_CHECK_SECONDS", 0.05)
    keys = tmp_path / "keys.json"
    with guarded(**listener_settings(keys)) as running:
        assert "refuses all OAUTHBEARER tokens" in caplog.text
        assert "no such file" in caplog.text
        with Knocking(running) as client:
            assert bytes(log_in(client, token()).auth_bytes) != b""
        keys.write_bytes(jwks(ONE))
        until(lambda: lets_in(running, ONE))
        newer = signer("EdDSA")
        keys.write_bytes(jwks(newer))
        until(lambda: lets_in(running, newer))
        assert not lets_in(running, ONE)
        for broken in (b"", b"planted secret", jwks().replace(b"keys", b"kezs")):
            keys.write_bytes(broken)
            verifier = running.server.broker.users.verifiers["SASL"]
            time.sleep(0.2)
            assert verifier.keys
            assert lets_in(running, newer)
        assert "keeps the OAUTHBEARER keys loaded before" in caplog.text
        assert "planted" not in caplog.text


def lets_in(broker: BrokerThread, one: Any) -> bool:
    with Knocking(broker) as client:
        answer = log_in(client, one.token(claims(time.time())))
        return bytes(answer.auth_bytes) == b""


def until(holds: Any) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.02)
