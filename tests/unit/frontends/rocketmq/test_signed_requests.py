"""Signatures of RocketMQ requests, and the setting with the access keys."""

import pytest

from headrace.config.broker import load
from headrace.frontends.rocketmq.signed_requests import signature_of
from headrace.model.errors import ConfigError
from headrace.model.secret import Secret
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.settings import parse_access_keys

SECRET = Secret("12345678")
EXPECTED = b"g+0fsP6zg8banzw+vSnaxRh06fw="
"""By openssl dgst -sha1 -hmac 12345678 of "rocketmqtüOrdersbody"."""
FIELDS = {"topic": "Orders", "AccessKey": "rocketmq", "SecurityToken": "t", "a": "ü"}


def signed(fields: dict[str, str], body: bytes = b"", version: int = 513) -> bytes:
    """Return the signature of a request."""
    return signature_of(RemotingCommand(10, 1, 0, fields, body, version=version), SECRET)


def test_values_are_signed_in_the_order_of_names_with_the_body_behind() -> None:
    assert signed(FIELDS, b"body") == EXPECTED
    assert signed(dict(reversed(FIELDS.items())), b"body") == EXPECTED
    assert signed(FIELDS | {"Signature": "any"}, b"body") == EXPECTED
    assert signed(FIELDS, memoryview(b"body")) == EXPECTED  # type: ignore[arg-type]
    for other in (FIELDS | {"b": "1"}, FIELDS | {"topic": "orders"}, FIELDS | {"AccessKey": "r"}):
        assert signed(other, b"body") != EXPECTED
    assert signed(FIELDS, b"Body") != EXPECTED


def test_the_query_flag_is_signed_by_clients_behind_4_9_3() -> None:
    flagged = FIELDS | {"_UNIQUE_KEY_QUERY": "true"}
    assert signed(flagged, version=399) == signed(FIELDS)
    assert signed(flagged, version=400) != signed(FIELDS)


def test_lone_surrogates_do_not_break_the_check() -> None:
    assert signed({"a": "\ud800"})


def test_access_keys_are_parsed_and_their_secrets_hidden() -> None:
    found = parse_access_keys("orders:12345678, audit:a:b+/=12345")
    assert {key: secret.reveal() for key, secret in found.items()} == {
        "orders": "12345678",
        "audit": "a:b+/=12345",
    }
    assert "12345678" not in repr(found)
    assert parse_access_keys("") == {} == parse_access_keys(" ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("planted", "entry 1 is not KEY:SECRET|entry 1: a secret has 8"),
        (":planted-planted", "entry 1 is not KEY:SECRET"),
        ("a b:planted-planted", "entry 1 is not KEY:SECRET"),
        ("a:planted-planted,b:planted", "entry 2: a secret has 8 characters or more"),
        ("a:planted-planted,a:planted-planted", "entry 2: the access key appears more than once"),
        ("a:planted-planted,", "entry 2 is not KEY:SECRET"),
        ("ANONYMOUS:planted-planted", "the user without authentication"),
    ],
)
def test_wrong_access_keys_are_refused_without_their_secrets(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        load(f"listeners=PLAINTEXT://127.0.0.1:1\nrocketmq.access.keys={text}\n")
    assert "planted" not in str(refused.value)
