"""Tokens of OAUTHBEARER as an issuer makes them: keys, their public set, and what they sign."""

import base64
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from headrace.config.authentication.oauthbearer import OAuthBearerListener

ISSUER, AUDIENCE = "https://issuer.example", "broker"
NOW = 1_800_000_000
"""Seconds since 1970, in tests whose clock stands."""
SETTINGS = OAuthBearerListener(
    jwks_url="file:/keys.json", audiences=(AUDIENCE, "another"), issuer=ISSUER, sub_claim="sub",
    scope_claim="scope", clock_skew_seconds=30, refresh_ms=60_000, retry_backoff_ms=100,
    retry_backoff_max_ms=1_000,
)  # fmt: skip
_CURVES = {
    "ES256": ("P-256", ec.SECP256R1()),
    "ES384": ("P-384", ec.SECP384R1()),
    "ES512": ("P-521", ec.SECP521R1()),
}
_HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}


def encode(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int, size: int = 0) -> str:
    return encode(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class Signer:
    """One key of an issuer."""

    def __init__(self, algorithm: str, kid: str, bits: int = 2048) -> None:
        self.algorithm, self.kid = algorithm, kid
        self.private: Any
        if algorithm in _CURVES:
            self.private = ec.generate_private_key(_CURVES[algorithm][1])
        elif algorithm == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
        else:
            self.private = rsa.generate_private_key(65537, bits)

    def jwk(self, **changed: Any) -> dict[str, Any]:
        """What the issuer publishes of it; a change to None leaves that out."""
        public = self.private.public_key()
        found: dict[str, Any] = {"kid": self.kid, "use": "sig"}
        if self.algorithm in _CURVES:
            curve, parameters = _CURVES[self.algorithm]
            numbers, size = public.public_numbers(), (parameters.key_size + 7) // 8
            found |= {
                "kty": "EC", "crv": curve, "x": _number(numbers.x, size),
                "y": _number(numbers.y, size),
            }  # fmt: skip
        elif self.algorithm == "EdDSA":
            found |= {"kty": "OKP", "crv": "Ed25519", "x": encode(public.public_bytes_raw())}
        else:
            numbers = public.public_numbers()
            found |= {"kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}
        return {name: value for name, value in (found | changed).items() if value is not None}

    def sign(self, data: bytes) -> bytes:
        """The signature, as JWS has it."""
        if self.algorithm == "EdDSA":
            return bytes(self.private.sign(data))
        digest = _HASHES[self.algorithm[2:]]
        if self.algorithm in _CURVES:
            size = (_CURVES[self.algorithm][1].key_size + 7) // 8
            r, s = decode_dss_signature(self.private.sign(data, ec.ECDSA(digest)))
            return r.to_bytes(size, "big") + s.to_bytes(size, "big")
        if self.algorithm.startswith("PS"):
            scheme: Any = padding.PSS(padding.MGF1(digest), digest.digest_size)
            return bytes(self.private.sign(data, scheme, digest))
        return bytes(self.private.sign(data, padding.PKCS1v15(), digest))

    def token(
        self, claims: Mapping[str, Any], header: Mapping[str, Any] | None = None, **changed: Any
    ) -> str:
        """A signed token; a change of a header's field to None leaves it out."""
        fields = {"alg": self.algorithm, "kid": self.kid, "typ": "JWT", **(header or {}), **changed}
        fields = {name: value for name, value in fields.items() if value is not None}
        return self.signed(json.dumps(fields), json.dumps(dict(claims)))

    def signed(self, header: str, claims: str) -> str:
        """A token of these texts, whatever they are."""
        signed = f"{encode(header.encode())}.{encode(claims.encode())}"
        return f"{signed}.{encode(self.sign(signed.encode()))}"


@cache
def signer(algorithm: str = "RS256", kid: str = "") -> Signer:
    """One key for each algorithm and id, made once."""
    return Signer(algorithm, kid or f"key-{algorithm}")


def jwks(*signers: Signer) -> bytes:
    """The public keys."""
    return json.dumps({"keys": [each.jwk() for each in signers or (signer(),)]}).encode()


def claims(now: float = NOW, **changed: Any) -> dict[str, Any]:
    """What a good token says, for an hour; a change to None leaves a claim out."""
    found = {
        "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 3600, **changed,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}


def listener_settings(keys: Path | str, listener: str = "SASL") -> dict[str, str]:
    """What a broker is told whose `listener` takes tokens."""
    prefix = f"listener.name.{listener.lower()}."
    url = keys if isinstance(keys, str) else f"file:{keys}"
    return {
        f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-256",
        f"{prefix}sasl.oauthbearer.jwks.endpoint.url": url,
        f"{prefix}sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": f"{AUDIENCE},another",
    }
