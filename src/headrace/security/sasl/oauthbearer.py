"""SASL OAUTHBEARER (RFC 7628, KIP-255), server and client: authenticate by a signed token.

A refused token is answered with RFC 7628's JSON; the client's next message, whatever it contains,
ends the exchange. Extensions (KIP-342) are checked for syntax and otherwise ignored, as by Kafka's
own validator.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headrace.model.secret import Secret
from headrace.security.sasl.sasl import TOKEN_BYTES_MAX, SaslRefused, SaslServer
from headrace.security.sasl.scram import unescape

if TYPE_CHECKING:
    from headrace.security.sasl.jwt import Bearer

INVALID_TOKEN = '{"status":"invalid_token"}'  # noqa: S105 - what is told of one
"""The response to a client whose token is refused."""
_SEPARATOR = "\x01"
_NAME = r"(?:[^\x00\x01=,]|=2C|=3D)+"
_INITIAL = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH = re.compile(r"bearer +(?P<token>[A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)

Check = Callable[[str], "Bearer"]
"""Verifies a token and returns its user; SaslRefused."""


class OAuthBearerServer(SaslServer):
    """The server's side of OAUTHBEARER; a `sasl.SaslServer`."""

    def __init__(self, check: Check) -> None:
        self.user = ""
        self.done = False
        self._check = check

    def respond(self, token: bytes) -> bytes:
        """Verify the client's token; after a refusal, the client's next message raises
        SaslRefused."""
        if self.done:
            raise SaslRefused("a message behind the last one")
        if self.rejected:
            rejected, self.rejected = self.rejected, ""
            raise SaslRefused(rejected, INVALID_TOKEN)
        authzid, bearer_token = parse(token)
        try:
            bearer = self._check(bearer_token)
        except SaslRefused as refused:
            self.rejected = str(refused)
            return INVALID_TOKEN.encode()
        if authzid and authzid != bearer.user:
            raise SaslRefused(
                f"{bearer.user[:100]!r} wants to be taken for another user",
                "Authentication failed: Client requested an authorization id that is different"
                " from the token's principal name",
            )
        self.user, self.ends_ms, self.done = bearer.user, bearer.ends_ms, True
        return b""


class OAuthBearerClient:
    """The client's side of OAUTHBEARER; a `sasl.SaslClient`."""

    def __init__(self, token: Secret, extensions: Mapping[str, str] | None = None) -> None:
        self._token = token
        self._extensions = dict(extensions or {})

    def first(self) -> bytes:
        """Return the client's only message."""
        pairs = {"auth": f"Bearer {self._token.reveal()}", **self._extensions}
        said = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
        return f"n,,{_SEPARATOR}{said}{_SEPARATOR}".encode()

    def respond(self, token: bytes) -> bytes | None:
        """Return None for the empty final response; for a refusal, the one byte that ends the
        exchange."""
        return _SEPARATOR.encode() if token else None


def parse(token: bytes) -> tuple[str, str]:
    """Parse authorisation id and token of a client's message. Raises SaslRefused."""
    if len(token) > TOKEN_BYTES_MAX:
        raise SaslRefused(f"an OAUTHBEARER message of {len(token)} bytes")
    try:
        found = _INITIAL.fullmatch(token.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslRefused("an OAUTHBEARER message that is none")
    given: dict[str, str] = {}
    for pair in found["pairs"].split(_SEPARATOR)[:-1]:
        name, _, value = pair.partition("=")
        if name in given:
            raise SaslRefused("an OAUTHBEARER message with an extension twice")
        given[name] = value
    auth = _AUTH.fullmatch(given.get("auth", ""))
    if auth is None:
        raise SaslRefused("an OAUTHBEARER message without a bearer's token (auth)")
    return unescape(found["authzid"] or ""), auth["token"]
