"""Whose tokens one listener believes: its settings, and the keys as they were read last."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.config.authentication.oauthbearer import OAuthBearerListener
from headrace.security.sasl.jwt import Bearer, UnknownKey, verify

if TYPE_CHECKING:
    from headrace.security.sasl.jwk import Keys


class TokenVerifier:
    """Checks the tokens of one listener's clients. On the deciding thread."""

    def __init__(self, settings: OAuthBearerListener, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self.keys: Keys = {}
        """Replaced as a whole, by good ones only; none: no token is believed yet."""
        self.key_missed: Callable[[], None] = _wait
        """Called where a token names a key that is not known: there may be newer ones."""

    def check(self, token: str) -> Bearer:
        """Return who bears `token`; SaslRefused."""
        try:
            return verify(token, self.keys, self._settings, self._now_ms())
        except UnknownKey:
            self.key_missed()
            raise


def _wait() -> None:
    """Do nothing: the keys are what they are."""
