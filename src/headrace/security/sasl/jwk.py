"""Public keys that sign tokens: JSON Web Key Sets (RFC 7517) and signatures (RFC 7518).

Asymmetric keys only: there is no algorithm here for shared keys or unsigned tokens. Unusable keys
of a set are ignored. Needs `cryptography`.
"""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

JWKS_BYTES_MAX = 512 << 10
KEYS_MAX = 100
"""Maximum keys in a set; issuers have a handful."""
KID_CHARS_MAX = 1024
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 8192
"""Shorter RSA keys are unsafe (RFC 7518); longer ones take milliseconds per token."""
_JSON_ERRORS = (ValueError, RecursionError)

_HASHES: Mapping[str, hashes.HashAlgorithm] = {
    "256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512(),
}  # fmt: skip
_CURVES: Mapping[str, tuple[str, ec.EllipticCurve]] = {
    "P-256": ("ES256", ec.SECP256R1()),
    "P-384": ("ES384", ec.SECP384R1()),
    "P-521": ("ES512", ec.SECP521R1()),
}
_OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS = (*_OF_RSA, *(name for name, _ in _CURVES.values()), "EdDSA")
"""All signature algorithms that are accepted."""
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")

_Public = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


class PublicKey(NamedTuple):
    """A public key with the algorithms that it supports."""

    algorithms: tuple[str, ...]
    key: _Public


Keys = Mapping[tuple[str, str], PublicKey]
"""Keys by key id and algorithm, the two values that a token names."""


def parse_jwks(data: bytes) -> Keys:
    """Parse a key set and return its usable keys; ValueError, whose text quotes none of its
    content."""
    if len(data) > JWKS_BYTES_MAX:
        raise ValueError(f"is longer than {JWKS_BYTES_MAX} bytes")
    try:
        parsed = parse_json(data)
    except ValueError:
        raise ValueError("is no JSON") from None
    entries = parsed.get("keys")
    if not isinstance(entries, list):
        raise ValueError("is no set of keys (JWKS)")
    if len(entries) > KEYS_MAX:
        raise ValueError(f"has more than {KEYS_MAX} keys")
    found: dict[tuple[str, str], PublicKey] = {}
    for entry in entries:
        known = _usable(entry)
        if known is None:
            continue
        kid, key = known
        for algorithm in key.algorithms:
            if (kid, algorithm) in found:
                raise ValueError("has two keys of one id (kid)")
            found[kid, algorithm] = key
    if not found:
        raise ValueError(f"has no public key with an id (kid) for any of {', '.join(ALGORITHMS)}")
    return found


def _usable(entry: object) -> tuple[str, PublicKey] | None:
    """Return key id and key of an entry; None if it is unusable."""
    if not isinstance(entry, dict):
        return None
    kid, use, operations = entry.get("kid"), entry.get("use", "sig"), entry.get("key_ops")
    if not isinstance(kid, str) or not 0 < len(kid) <= KID_CHARS_MAX or use != "sig":
        return None
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return None
    try:
        key = _key(entry)
    except (ValueError, UnsupportedAlgorithm):
        return None
    only = entry.get("alg")
    if key is not None and only is not None:
        key = key._replace(algorithms=tuple(name for name in key.algorithms if name == only))
    return None if key is None else (kid, key)


def _key(entry: Mapping[str, Any]) -> PublicKey | None:
    kind, curve = entry.get("kty"), entry.get("crv")
    if kind == "RSA":
        numbers = rsa.RSAPublicNumbers(_number(entry.get("e")), _number(entry.get("n")))
        if not RSA_BITS_MIN <= numbers.n.bit_length() <= RSA_BITS_MAX:
            raise ValueError("an RSA key of another length")
        return PublicKey(_OF_RSA, numbers.public_key())
    if kind == "EC" and isinstance(curve, str) and curve in _CURVES:
        algorithm, parameters = _CURVES[curve]
        size = (parameters.key_size + 7) // 8
        x, y = decode64url(entry.get("x")), decode64url(entry.get("y"))
        if len(x) != size or len(y) != size:
            raise ValueError("a point of another length")
        point = ec.EllipticCurvePublicNumbers(
            int.from_bytes(x, "big"), int.from_bytes(y, "big"), parameters
        )
        return PublicKey((algorithm,), point.public_key())
    if kind == "OKP" and curve == "Ed25519":
        raw = decode64url(entry.get("x"))
        return PublicKey(("EdDSA",), ed25519.Ed25519PublicKey.from_public_bytes(raw))
    return None


def verifies(key: PublicKey, algorithm: str, signed: bytes, signature: bytes) -> bool:
    """Return whether `signature` is the key's signature of `signed` under this algorithm."""
    public = key.key
    try:
        if isinstance(public, ed25519.Ed25519PublicKey):
            public.verify(signature, signed)
            return True
        digest = _HASHES[algorithm[2:]]
        if isinstance(public, ec.EllipticCurvePublicKey):
            size = (public.curve.key_size + 7) // 8
            if len(signature) != 2 * size:
                return False
            r, s = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
            public.verify(encode_dss_signature(r, s), signed, ec.ECDSA(digest))
            return True
        scheme: padding.AsymmetricPadding = padding.PKCS1v15()
        if algorithm.startswith("PS"):
            scheme = padding.PSS(padding.MGF1(digest), digest.digest_size)
        public.verify(signature, signed, scheme, digest)
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return False
    return True


def parse_json(data: bytes) -> dict[str, Any]:
    """Parse a JSON object with unique names and finite numbers. Raises ValueError."""
    try:
        parsed = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except _JSON_ERRORS:
        raise ValueError("is no JSON") from None
    if not isinstance(parsed, dict):
        raise ValueError("is no JSON object")
    return parsed


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def decode64url(text: object) -> bytes:
    """Decode base64url without padding; ValueError if it is not in canonical form."""
    if not isinstance(text, str) or not _BASE64URL.fullmatch(text) or len(text) % 4 == 1:
        raise ValueError("is no base64url")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(data).rstrip(b"=") != text.encode():
        raise ValueError("is no base64url: bits behind its end")
    return data


def _number(text: object) -> int:
    return int.from_bytes(decode64url(text), "big")
