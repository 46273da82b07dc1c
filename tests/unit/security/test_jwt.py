"""Tokens: what each must say, one refusal for each thing that is wrong, and the edges of time."""

import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from headrace.security.sasl.jwk import ALGORITHMS, parse_jwks
from headrace.security.sasl.jwt import TIME_SECONDS_MAX, Bearer, UnknownKey, verify
from headrace.security.sasl.sasl import SaslRefused
from tests.support.security.token_kit import NOW, SETTINGS, claims, encode, jwks, signer

KEYS = parse_jwks(jwks(*(signer(name) for name in ("RS256", "ES256", "ES384", "ES512", "EdDSA"))))
ONE = signer("ES256")


def check(token: str, now: float = NOW, **settings: Any) -> Bearer:
    return verify(token, KEYS, SETTINGS._replace(**settings), round(now * 1000))


def refused(token: str, now: float = NOW, **settings: Any) -> str:
    with pytest.raises(SaslRefused) as refusal:
        check(token, now, **settings)
    assert refusal.value.told is None
    return str(refusal.value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_good_token_says_who_and_until_when(algorithm: str) -> None:
    one = signer(algorithm)
    keys = parse_jwks(jwks(one))
    found = verify(one.token(claims()), keys, SETTINGS, NOW * 1000)
    assert found == Bearer("alice", (NOW + 3600) * 1000)


@pytest.mark.parametrize("typ", [None, "JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_the_types_of_tokens(typ: str | None) -> None:
    assert check(ONE.token(claims(), typ=typ)).user == "alice"


@pytest.mark.parametrize("typ", ["logout+jwt", "dpop+jwt", "", 7, ["JWT"]])
def test_a_token_of_another_type_is_refused(typ: object) -> None:
    assert "(typ)" in refused(ONE.token(claims(), typ=typ))


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "", None, "HS256", "HS512", "es256", 7]
)
def test_an_algorithm_that_is_not_allowed_is_refused(algorithm: object) -> None:
    assert "signed by none of" in refused(ONE.token(claims(), alg=algorithm))


def test_a_token_without_a_signature_is_refused() -> None:
    header = encode(json.dumps({"alg": "none", "kid": ONE.kid}).encode())
    body = encode(json.dumps(claims()).encode())
    assert "signed by none of" in refused(f"{header}.{body}.")
    assert "signature is wrong" in refused(ONE.token(claims()).rpartition(".")[0] + ".")


@pytest.mark.parametrize("form", ["PEM", "JWK"])
def test_the_public_key_is_no_secret_to_sign_with(form: str) -> None:
    rsa = signer("RS256")
    secret = json.dumps(rsa.jwk()).encode()
    if form == "PEM":
        public = rsa.private.public_key()
        secret = public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    head = json.dumps({"alg": "HS256", "kid": rsa.kid}).encode()
    signed = f"{encode(head)}.{encode(json.dumps(claims()).encode())}"
    forged = encode(hmac.digest(secret, signed.encode(), hashlib.sha256))
    assert "signed by none of" in refused(f"{signed}.{forged}")


def test_a_key_is_found_by_its_id_and_only_for_its_own_algorithm() -> None:
    for changed in ({"kid": "other"}, {"alg": "ES384"}, {"alg": "RS256"}):
        with pytest.raises(UnknownKey):
            check(ONE.token(claims(), changed))
    assert "names no key" in refused(ONE.token(claims(), kid=None))
    assert "names no key" in refused(ONE.token(claims(), kid=7))
    # Another's id: the signature is not that one's.
    assert "signature is wrong" in refused(ONE.token(claims(), kid="key-ES384", alg="ES384"))


def test_a_key_in_the_token_is_not_used() -> None:
    stranger = signer("ES256", "stranger")
    token = stranger.token(claims(), kid=ONE.kid, jwk=stranger.jwk(), jku="https://evil.example")
    assert "signature is wrong" in refused(token)


def test_critical_extensions_are_refused() -> None:
    assert "(crit)" in refused(ONE.token(claims(), crit=["b64"], b64=False))
    assert "(crit)" in refused(ONE.token(claims(), crit=[]))


def test_what_was_signed_is_what_is_read() -> None:
    head, _, signature = ONE.token(claims()).split(".")
    other = encode(json.dumps(claims(sub="admin")).encode())
    assert "signature is wrong" in refused(f"{head}.{other}.{signature}")


@pytest.mark.parametrize(
    "token", ["", "a", "a.b", "a.b.c.d", "..", "a.b.c", "!.!.!", "e30.e30.", "bnVsbA.bnVsbA.YQ"]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    refused(token)


@pytest.mark.parametrize(
    "body",
    ["", "[]", "null", "7", '{"sub": "a", "sub": "b"}', '{"exp": NaN}', '{"exp": Infinity}',
     "[" * 40_000, '{"a":' * 20_000],
)  # fmt: skip
def test_claims_that_are_no_claims_are_refused(body: str) -> None:
    head = json.dumps({"alg": "ES256", "kid": ONE.kid})
    assert "cannot be read" in refused(ONE.signed(head, body))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("iss", [None, "", "https://issuer.example/", 7, ["https://issuer.example"]]),
        ("aud", [None, "", "brokers", [], ["brokers"], [None], 7, {"broker": 1}, [["broker"]]]),
        ("exp", [None, "1900000000", True, [], {}, -1, -0.5, 10**30, 1e300]),
        ("iat", [None, "1", False, [], -1, 10**30]),
        ("nbf", ["1", True, [], -1, 10**30]),
        ("sub", [None, "", "  ", 7, ["alice"], "a\nb", "a\0", "x" * 1025]),
        ("scope", [7, [7], {"a": 1}, True]),
    ],
)
def test_each_claim_is_needed_and_of_its_type(name: str, values: list[Any]) -> None:
    for value in values:
        assert f"({name})" in (said := refused(ONE.token(claims(**{name: value})))) or (
            f"whose {name}" in said
        ), value
        assert "1900000000" not in said


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": ["other", "another"]}, {"scope": "a b"}, {"scope": ["a", "b"]}, {"nbf": NOW},
        {"exp": NOW + 0.5}, {"iat": NOW - 0.25}, {"sub": "bö b"}, {"more": {"a": [1]}},
    ],
    ids=str,
)  # fmt: skip
def test_what_else_a_good_token_may_say(changed: dict[str, Any]) -> None:
    assert check(ONE.token(claims(**changed))).user == changed.get("sub", "alice")


def test_other_claims_can_say_who_it_is() -> None:
    token = ONE.token(claims(azp="carol", roles=7))
    assert check(token, sub_claim="azp").user == "carol"
    assert "(missing)" in refused(token, sub_claim="missing")
    assert "whose roles" in refused(token, scope_claim="roles")


@pytest.mark.parametrize("skew", [0, 30])
def test_the_edges_of_time(skew: int) -> None:
    last = NOW + skew
    good = {"clock_skew_seconds": skew}
    ends = ONE.token(claims(NOW - 60, exp=NOW))
    assert check(ends, last - 0.001, **good).ends_ms == NOW * 1000
    assert "expired" in refused(ends, last, **good)
    half = ONE.token(claims(NOW - 60, exp=NOW + 0.5))
    assert check(half, last + 0.499, **good).ends_ms == NOW * 1000 + 500
    assert "expired" in refused(half, last + 0.5, **good)
    for name in ("iat", "nbf"):
        begins = ONE.token(claims(**{"iat": NOW - 60, name: NOW + skew}))
        assert check(begins, NOW, **good)
        assert f"({name})" in refused(begins, NOW - 0.001, **good)


def test_the_end_of_time_is_taken_and_not_what_is_behind_it() -> None:
    assert check(ONE.token(claims(exp=TIME_SECONDS_MAX))).ends_ms == TIME_SECONDS_MAX * 1000
    assert "out of range" in refused(ONE.token(claims(exp=TIME_SECONDS_MAX + 1)))


@given(st.text(max_size=200))
def test_no_text_is_taken_for_a_token(text: str) -> None:
    refused(text)


@given(st.integers(min_value=0), st.integers(min_value=0, max_value=255))
def test_no_changed_byte_goes_unnoticed(at: int, byte: int) -> None:
    token = bytearray(ONE.token(claims()).encode())
    place = at % len(token)
    if token[place] == byte:
        return
    token[place] = byte
    refused(token.decode("latin-1"))
