"""Sets of public keys: which are taken, which are left out, what is no set; and signatures."""

import json
from typing import Any

import pytest

from headrace.security.sasl.jwk import (
    ALGORITHMS,
    JWKS_BYTES_MAX,
    KEYS_MAX,
    decode64url,
    parse_json,
    parse_jwks,
    verifies,
)
from tests.support.security.token_kit import Signer, encode, jwks, signer

RSA = "RS256"


def of(*entries: Any) -> bytes:
    return json.dumps({"keys": entries}).encode()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signature_by_each_algorithm_is_verified_and_no_other_is(algorithm: str) -> None:
    one = signer(algorithm)
    key = parse_jwks(jwks(one))[one.kid, algorithm]
    signature = one.sign(b"said")
    assert verifies(key, algorithm, b"said", signature)
    assert not verifies(key, algorithm, b"else", signature)
    assert not verifies(key, algorithm, b"said", signature[:-1])
    assert not verifies(key, algorithm, b"said", signature + b"\0")
    assert not verifies(key, algorithm, b"said", b"")
    assert not verifies(key, algorithm, b"said", signature[:-1] + bytes([signature[-1] ^ 1]))
    half = len(signature) // 2
    assert not verifies(key, algorithm, b"said", signature[:half] + b"\0" + signature[half:])
    other = parse_jwks(jwks(Signer(algorithm, "other")))["other", algorithm]
    assert not verifies(other, algorithm, b"said", signature)


def test_a_key_is_for_the_algorithms_of_its_kind_or_for_the_one_it_names() -> None:
    every = parse_jwks(jwks(signer(RSA), signer("ES384"), signer("EdDSA")))
    assert {algorithm for kid, algorithm in every if kid == "key-RS256"} == {
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
    }  # fmt: skip
    assert ("key-ES384", "ES384") in every
    assert ("key-ES384", "ES256") not in every
    assert ("key-EdDSA", "EdDSA") in every
    assert set(parse_jwks(of(signer(RSA).jwk(alg="PS512")))) == {("key-RS256", "PS512")}


@pytest.mark.parametrize(
    "changed",
    [
        {"kid": None}, {"kid": ""}, {"kid": 7}, {"kid": "x" * 1025},
        {"use": "enc"}, {"key_ops": ["sign"]}, {"key_ops": "verify"},
        {"kty": "oct", "k": "c2VjcmV0"}, {"kty": None}, {"kty": 1},
        {"n": None}, {"n": "!"}, {"n": encode(b"\xff" * 128)}, {"n": encode(b"\xff" * 1025)},
        {"e": None}, {"e": "AA"}, {"e": "Ag"}, {"e": "AQ"},
        {"alg": "HS256"}, {"alg": "none"}, {"alg": 3},
    ],
    ids=str,
)  # fmt: skip
def test_a_key_that_cannot_be_used_is_left_out(changed: dict[str, Any]) -> None:
    kept = signer("ES256").jwk()
    assert set(parse_jwks(of(signer(RSA).jwk(**changed), kept))) == {("key-ES256", "ES256")}
    with pytest.raises(ValueError, match="no public key"):
        parse_jwks(of(signer(RSA).jwk(**changed)))


@pytest.mark.parametrize(
    ("algorithm", "changed"),
    [
        ("ES256", {"x": encode(b"\1" * 32)}),  # not on the curve
        ("ES256", {"x": encode(b"\1" * 31)}),
        ("ES256", {"crv": "P-384"}),
        ("ES256", {"crv": "secp256k1"}),
        ("ES256", {"crv": ["P-256"]}),
        ("EdDSA", {"x": encode(b"\1" * 31)}),
        ("EdDSA", {"crv": "X25519"}),
    ],
)
def test_a_point_that_is_none_is_left_out(algorithm: str, changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no public key"):
        parse_jwks(of(signer(algorithm).jwk(**changed)))


@pytest.mark.parametrize("entry", [None, 1, "key", []])
def test_what_is_no_key_is_left_out(entry: Any) -> None:
    assert parse_jwks(of(entry, signer().jwk()))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no JSON"),
        (b"secret", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no JSON"),
        (b"{}", "no set"),
        (b'{"keys": {}}', "no set"),
        (b'{"keys": []}', "no public key"),
        (b'{"keys": [], "keys": []}', "no JSON"),
        (b" " * (JWKS_BYTES_MAX + 1), "longer than"),
        (of(*[None] * (KEYS_MAX + 1)), "more than 100"),
        (of(signer().jwk(), signer().jwk()), "two keys of one id"),
    ],
    ids=range(12),
)
def test_what_is_no_set_is_refused_without_being_quoted(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        parse_jwks(data)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["a", "a=", "YQ==", "Y Q", "YR", "é", "YQ\n", None, 7, b"YQ"])
def test_base64url_is_exactly_that(text: object) -> None:
    with pytest.raises(ValueError, match="base64url"):
        decode64url(text)


def test_base64url_has_no_padding() -> None:
    assert decode64url("YQ") == b"a"
    assert decode64url("") == b""
    assert decode64url("-_-_") == b"\xfb\xff\xbf"


@pytest.mark.parametrize("text", ["NaN", "Infinity", '{"a": NaN}', '{"a": 1, "a": 1}', "1", "null"])
def test_json_has_each_name_once_and_no_number_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        parse_json(text.encode())
