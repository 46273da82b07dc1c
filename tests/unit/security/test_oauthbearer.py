"""SASL OAUTHBEARER's messages: both sides, what is refused, and how a client is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.secret import Secret
from headrace.security.sasl.jwt import Bearer
from headrace.security.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer, parse
from headrace.security.sasl.sasl import TOKEN_BYTES_MAX, SaslRefused

TOKEN = "aaa.bbb.ccc"
FIRST = b"n,,\x01auth=Bearer aaa.bbb.ccc\x01\x01"


def check(token: str) -> Bearer:
    if token != TOKEN:
        raise SaslRefused("a token that is not the one")
    return Bearer("alice", 7)


def test_a_client_is_let_in_by_its_token_until_that_ends() -> None:
    client, server = OAuthBearerClient(Secret(TOKEN)), OAuthBearerServer(check)
    assert client.first() == FIRST
    assert (server.done, server.ends_ms) == (False, None)
    answer = server.respond(client.first())
    assert answer == b""
    assert client.respond(answer) is None
    assert (server.done, server.user, server.ends_ms) == (True, "alice", 7)
    assert not server.by_delegation_token
    with pytest.raises(SaslRefused):
        server.respond(FIRST)


@pytest.mark.parametrize("behind", [b"\x01", FIRST, b"", b"anything"])
def test_a_refused_token_is_answered_and_the_next_message_is_the_end(behind: bytes) -> None:
    client, server = OAuthBearerClient(Secret("other")), OAuthBearerServer(check)
    answer = server.respond(client.first())
    assert answer == b'{"status":"invalid_token"}'
    assert server.rejected == "a token that is not the one"
    assert not server.done
    assert client.respond(answer) == b"\x01"
    with pytest.raises(SaslRefused) as refused:
        server.respond(behind)
    assert str(refused.value) == "a token that is not the one"
    assert refused.value.told == '{"status":"invalid_token"}'
    assert not server.done
    assert not server.rejected


def test_extensions_are_taken_and_mean_nothing() -> None:
    client = OAuthBearerClient(Secret(TOKEN), {"logicalCluster": "lkc-1", "pool": "a b"})
    assert OAuthBearerServer(check).respond(client.first()) == b""


@pytest.mark.parametrize(
    "token",
    [
        b"n,,\x01auth=bearer  aaa.bbb.ccc\x01\x01",
        b"n,a=alice,\x01auth=Bearer aaa.bbb.ccc\x01\x01",
        b"n,,\x01host=h\x01port=9\x01auth=BEARER aaa.bbb.ccc\x01\x01",
        b"n,,\x01auth=Bearer aaa.bbb.ccc\x01text=a=b \t\r\n\x01\x01",
    ],
)
def test_messages_as_clients_write_them(token: bytes) -> None:
    assert parse(token)[1] == TOKEN


def test_nobody_is_taken_for_another_one() -> None:
    with pytest.raises(SaslRefused) as refused:
        OAuthBearerServer(check).respond(b"n,a=admin,\x01auth=Bearer aaa.bbb.ccc\x01\x01")
    assert refused.value.told is not None
    assert "different from the token's principal" in refused.value.told
    assert parse(b"n,a=a=2Cb=3D,\x01auth=Bearer x\x01\x01") == ("a,b=", "x")


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\x01",
        b"n,,",
        FIRST[:-1],  # without its end
        FIRST + b"\x01",
        FIRST[1:],
        b"y" + FIRST[1:],  # channel bindings
        b"p=tls-unique" + FIRST[1:],
        b"n,,\x01\x01",  # no token
        b"n,,\x01auth=\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic aaa\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        b"n,,\x01auth=Bearer a\x01x=\x01\x01",  # empty extension
        b"n,,\x01auth=Bearer a\x01x1=y\x01\x01",  # extension's name
        b"n,,\x01auth=Bearer a\x01x=\xc3\xa4\x01\x01",
        b"n,,\x01auth=Bearer a\x01x=y\x01x=y\x01\x01",
        b"n,a=,\x01auth=Bearer a\x01\x01",
        b"n,a=b=2c,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"a" * TOKEN_BYTES_MAX + b"\x01\x01",
    ],
)
def test_what_is_no_message_is_refused(token: bytes) -> None:
    with pytest.raises(SaslRefused) as refused:
        OAuthBearerServer(lambda _: Bearer("alice", 7)).respond(token)
    assert refused.value.told is None
    assert "aaa" not in str(refused.value)


@given(st.binary(max_size=300))
def test_no_bytes_break_the_parser(token: bytes) -> None:
    try:
        parse(token)
    except SaslRefused:
        return
    assert token.startswith(b"n,")
