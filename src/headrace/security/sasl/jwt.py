"""Verify signed tokens (JWS compact form, RFC 7515; JWT, RFC 7519) as RFC 8725 recommends.

A required claim that is missing or of another type makes the token invalid. Error texts contain
only claims that were verified.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.config.authentication.oauthbearer import OAuthBearerListener
from headrace.security.sasl.jwk import ALGORITHMS, Keys, decode64url, parse_json, verifies
from headrace.security.sasl.sasl import SaslRefused

SUBJECT_CHARS_MAX = 1024
TIME_SECONDS_MAX = 253_402_300_799
"""The end of the year 9999, in seconds since 1970."""
_TYPES = frozenset({"jwt", "at+jwt"})
"""Accepted values of the header `typ` (RFC 9068): other kinds of tokens are not access tokens."""


class Bearer(NamedTuple):
    """The user of a verified token, and its expiry."""

    user: str
    ends_ms: int
    """Expiry in ms since 1970."""


class UnknownKey(SaslRefused):
    """The token names a key that is not known, perhaps not yet."""


def verify(token: str, keys: Keys, settings: OAuthBearerListener, now_ms: int) -> Bearer:
    """Verify `token` and return its user and expiry.

    Raises SaslRefused. The caller limits its size.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise SaslRefused(f"a token of {len(parts)} parts instead of 3")
    try:
        header, claims = parse_json(decode64url(parts[0])), parse_json(decode64url(parts[1]))
        signature = decode64url(parts[2])
    except ValueError:
        raise SaslRefused("a token that cannot be read") from None
    algorithm = _algorithm(header)
    kid = header.get("kid")
    if not isinstance(kid, str):
        raise SaslRefused("a token that names no key (kid)")
    key = keys.get((kid, algorithm))
    if key is None:
        raise UnknownKey(f"a token signed by {algorithm} with a key that is not known")
    if not verifies(key, algorithm, f"{parts[0]}.{parts[1]}".encode(), signature):
        raise SaslRefused("a token whose signature is wrong")
    return _bearer(claims, settings, now_ms)


def _algorithm(header: Mapping[str, Any]) -> str:
    algorithm, kind = header.get("alg"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise SaslRefused(f"a token that is signed by none of {', '.join(ALGORITHMS)}")
    if "crit" in header:
        raise SaslRefused("a token with critical extensions (crit)")
    plain = kind.lower().removeprefix("application/") if isinstance(kind, str) else ""
    if plain not in _TYPES:
        raise SaslRefused("a token of another type (typ) than JWT and at+jwt")
    return algorithm


def _bearer(claims: Mapping[str, Any], settings: OAuthBearerListener, now_ms: int) -> Bearer:
    now, skew = now_ms / 1000, settings.clock_skew_seconds
    if claims.get("iss") != settings.issuer:
        raise SaslRefused("a token of another issuer (iss)")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(each, str) and each in settings.audiences for each in audiences):
        raise SaslRefused("a token for another audience (aud)")
    expires = _time(claims, "exp")
    if now >= expires + skew:
        raise SaslRefused(f"a token that expired {now - expires:.0f} s ago (exp)")
    if _time(claims, "iat") > now + skew:
        raise SaslRefused("a token that is to be issued in the future (iat)")
    if "nbf" in claims and _time(claims, "nbf") > now + skew:
        raise SaslRefused("a token that is not valid yet (nbf)")
    _check_scope(claims.get(settings.scope_claim, ""), settings.scope_claim)
    user = claims.get(settings.sub_claim)
    if not isinstance(user, str) or not user.strip():
        raise SaslRefused(f"a token that does not say whose it is ({settings.sub_claim})")
    if len(user) > SUBJECT_CHARS_MAX or not user.isprintable():
        raise SaslRefused(f"a token with a name that is none ({settings.sub_claim})")
    return Bearer(user, math.floor(expires * 1000))


def _time(claims: Mapping[str, Any], name: str) -> float:
    """Return a time claim in seconds since 1970, which may have a fraction."""
    value = claims.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise SaslRefused(f"a token whose {name} is missing or no number")
    if not 0 <= value <= TIME_SECONDS_MAX:
        raise SaslRefused(f"a token whose {name} is out of range")
    return value


def _check_scope(scope: object, name: str) -> None:
    words = scope if isinstance(scope, list) else [scope]
    if not all(isinstance(word, str) for word in words):
        raise SaslRefused(f"a token whose {name} is no text and no list of texts")
