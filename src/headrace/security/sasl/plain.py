"""SASL PLAIN (RFC 4616), server and client: user name and password in clear text.

Error messages to clients are Kafka's (PlainSaslServer).
"""

import hashlib
import hmac
from collections.abc import Mapping

from headrace.model.secret import Secret
from headrace.security.sasl.sasl import TOKEN_BYTES_MAX, SaslRefused, SaslServer

_PARTS = 3


class PlainServer(SaslServer):
    """The server's side of PLAIN; a `sasl.SaslServer`."""

    def __init__(self, passwords: Mapping[str, Secret]) -> None:
        self.user = ""
        self.done = False
        self._passwords = passwords

    def respond(self, token: bytes) -> bytes:
        """Check the client's only message, `[authzid] NUL authcid NUL passwd`.

        Raises SaslRefused.
        """
        if self.done:
            raise SaslRefused("a message behind the last one")
        authzid, user, password = parse(token)
        known = self._passwords.get(user)
        expected = _digest("" if known is None else known.reveal())
        right = hmac.compare_digest(expected, _digest(password.reveal()))
        if known is None or not right:
            reason = "unknown user" if known is None else "wrong password"
            raise SaslRefused(
                f"{reason}: {user[:100]!r}", "Authentication failed: Invalid username or password"
            )
        if authzid and authzid != user:
            raise SaslRefused(
                f"{user!r} wants to be taken for another user",
                "Authentication failed: Client requested an authorization id that is different"
                " from username",
            )
        self.user, self.done = user, True
        return b""


class PlainClient:
    """The client's side of PLAIN; a `sasl.SaslClient`."""

    def __init__(self, user: str, password: Secret) -> None:
        self._user = user
        self._password = password

    def first(self) -> bytes:
        """Return the client's only message."""
        return f"\0{self._user}\0{self._password.reveal()}".encode()

    def respond(self, token: bytes) -> None:
        """Accept the empty final response."""


def parse(token: bytes) -> tuple[str, str, Secret]:
    """Parse authorisation id, user name and password of a PLAIN message. Raises SaslRefused."""
    if len(token) > TOKEN_BYTES_MAX:
        raise SaslRefused(f"a PLAIN message of {len(token)} bytes")
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError:
        raise SaslRefused("a PLAIN message that is not UTF-8") from None
    if len(parts) != _PARTS:
        raise SaslRefused(f"a PLAIN message of {len(parts)} parts instead of {_PARTS}")
    authzid, user, password = parts
    if not user:
        raise SaslRefused("no name", "Authentication failed: username not specified")
    if not password:
        raise SaslRefused("no password", "Authentication failed: password not specified")
    return authzid, user, Secret(password)


def _digest(text: str) -> bytes:
    """Return a hash of fixed length, so that comparing does not reveal the password's length."""
    return hashlib.sha256(text.encode()).digest()
