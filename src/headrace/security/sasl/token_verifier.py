"""Verification of tokens for one listener: its settings and the issuer's current keys."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.config.authentication.oauthbearer import OAuthBearerListener
from headrace.security.sasl.jwt import Bearer, UnknownKey, verify

if TYPE_CHECKING:
    from headrace.security.sasl.jwk import Keys


class TokenVerifier:
    """Verifies the tokens of one listener's clients. Called on the deciding thread."""

    def __init__(self, settings: OAuthBearerListener, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self.keys: Keys = {}
        """The issuer's keys, replaced as a whole; empty: no token can be verified yet."""
        self.key_missed: Callable[[], None] = _wait
        """Called when a token names an unknown key, as the issuer may have newer keys."""

    def check(self, token: str) -> Bearer:
        """Verify `token` and return its user. Raises SaslRefused."""
        try:
            return verify(token, self.keys, self._settings, self._now_ms())
        except UnknownKey:
            self.key_missed()
            raise


def _wait() -> None:
    """Do nothing, as the keys are not refreshed."""
