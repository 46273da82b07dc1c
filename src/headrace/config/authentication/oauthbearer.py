"""OAUTHBEARER settings of one listener: its own keys override the general ones."""

from typing import NamedTuple

from headrace.config.keys.oauthbearer import ALLOWED_URLS, OF_LISTENERS
from headrace.config.listener_keys import ListenerValues
from headrace.config.value_types import Value

HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
"""Kafka's class names for signature checks, accepted as names; no class is loaded."""
_PREFIX = "sasl.oauthbearer."
_URL, _ISSUER = f"{_PREFIX}jwks.endpoint.url", f"{_PREFIX}expected.issuer"
_AUDIENCE = f"{_PREFIX}expected.audience"

Problem = tuple[str, str, str]
"""A problem of a setting: the key, its value, the reason."""


class OAuthBearerListener(NamedTuple):
    """The checks of OAUTHBEARER tokens on one listener, and the source of their keys."""

    jwks_url: str
    audiences: tuple[str, ...]
    issuer: str
    sub_claim: str
    scope_claim: str
    clock_skew_seconds: int
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int

    @property
    def jwks_file(self) -> str | None:
        """Path of the JWKS file; None: the keys are fetched from `jwks_url`."""
        from urllib.parse import unquote, urlsplit  # not where nobody brings tokens

        parts = urlsplit(self.jwks_url)
        return unquote(parts.path) if parts.scheme == "file" else None


def oauthbearer_listener(
    listener: str, values: ListenerValues
) -> tuple[OAuthBearerListener, list[Problem]]:
    """Return the OAUTHBEARER settings of `listener`, and the problems found."""
    wrong: list[Problem] = []
    found = {name: values.of(listener, name) for name in OF_LISTENERS}
    url = _text(found[_URL])
    problem = _url_problem(url, values.words(listener, ALLOWED_URLS))
    if problem:
        # The query of an https URL may be secret.
        wrong.append((_URL, url.partition("?")[0], f"listener {listener}: {problem}"))
    audiences = found[_AUDIENCE]
    given = tuple(filter(None, audiences)) if isinstance(audiences, tuple) else ()
    for name, value in ((_AUDIENCE, given), (_ISSUER, _text(found[_ISSUER]))):
        if not value:
            reason = (
                f"required, as listener {listener} enables OAUTHBEARER: without it tokens issued"
                " for another service would be accepted"
            )
            wrong.append((name, "", reason))
    settings = OAuthBearerListener(
        url,
        given,
        _text(found[_ISSUER]),
        _text(found[f"{_PREFIX}sub.claim.name"]),
        _text(found[f"{_PREFIX}scope.claim.name"]),
        _int(found[f"{_PREFIX}clock.skew.seconds"]),
        _int(found[f"{_PREFIX}jwks.endpoint.refresh.ms"]),
        _int(found[f"{_PREFIX}jwks.endpoint.retry.backoff.ms"]),
        _int(found[f"{_PREFIX}jwks.endpoint.retry.backoff.max.ms"]),
    )
    return settings, wrong


def _url_problem(url: str, allowed: tuple[str, ...]) -> str | None:
    """Return why keys cannot be loaded from `url`, or None."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is no URL"
    if parts.scheme == "file":
        plain = parts.netloc in {"", "localhost"} and not (parts.query or parts.fragment)
        return None if plain and parts.path.startswith("/") else "must be file:/PATH"
    if parts.scheme != "https":
        return "needs the URL of the keys (JWKS) that tokens are signed with: file:/PATH or https:"
    if not parts.hostname or parts.username is not None or parts.fragment or port == 0:
        return "must be https://HOST/PATH, without a user and without a fragment"
    if url not in allowed:
        return f"is not among the URLs that {ALLOWED_URLS} allows"
    return None


def _text(value: Value) -> str:
    return value if isinstance(value, str) else ""


def _int(value: Value) -> int:
    return value if isinstance(value, int) else 0
