"""The SCRAM exchange of four messages, server and client (RFC 5802)."""

import hashlib
import hmac
from collections.abc import Callable
from typing import NamedTuple

from headrace.model.secret import Secret
from headrace.security.sasl.sasl import Mechanism, SaslRefused, SaslServer
from headrace.security.sasl.scram import (
    DELEGATED,
    HASHES,
    ITERATIONS_MIN,
    ClientFirst,
    Credential,
    encode64,
    escape,
    parse_client_final,
    parse_client_first,
    parse_server_final,
    parse_server_first,
    salted,
    xored,
)

CLIENT_ITERATIONS_MAX = 1_000_000
"""Maximum iterations that a client accepts from a server: more would take seconds."""


class DelegatedCredential(NamedTuple):
    """A delegation token's credential for one mechanism, with owner and expiry."""

    owner: str
    ends_ms: int
    """Expiry in ms since 1970."""
    credential: Credential


FindDelegated = Callable[[str], DelegatedCredential | None]
"""Returns the credential of the delegation token with this id; None if it is unknown or expired."""


class ScramServer(SaslServer):
    """The server's side of SCRAM; a `sasl.SaslServer`."""

    def __init__(
        self,
        mechanism: Mechanism,
        find: Callable[[str], Credential | None],
        nonce: str,
        disguise: bytes,
        find_delegated: FindDelegated | None = None,
    ) -> None:
        """Begin the exchange of one client.

        `find` returns a user's credential. `nonce`: unguessable, printable, without comma.
        `disguise`: a key that only this broker knows. Unknown users get a salt derived from it, the
        same each time, and fail only at the end, after the same work as for a wrong password.
        Without `find_delegated`, delegation tokens are not supported.
        """
        self.user = ""
        self.done = False
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._disguise = disguise
        self._find_delegated = find_delegated
        self._delegated: DelegatedCredential | None = None
        self._first: ClientFirst | None = None
        self._server_first = ""
        self._credential: Credential | None = None
        self._known = False

    def respond(self, token: bytes) -> bytes:
        """Answer the client's first or final message. Raises SaslRefused."""
        if self.done:
            raise SaslRefused("a message behind the last one")
        if self._first is None:
            return self._begin(token)
        first, self._first = self._first, None
        return self._end(first, token)

    def _begin(self, token: bytes) -> bytes:
        first = parse_client_first(token)
        if first.authzid and first.authzid != first.user:
            raise SaslRefused(
                f"{first.user[:100]!r} wants to be taken for another user",
                "Authentication failed: Client requested an authorization id that is different"
                " from username",
            )
        credential = self._found(first)
        self._known = credential is not None
        self._credential = credential or self._made_up(first.user)
        self._first = first
        self._nonce = first.nonce + self._nonce
        self._server_first = (
            f"r={self._nonce},s={encode64(self._credential.salt)},i={self._credential.iterations}"
        )
        return self._server_first.encode()

    def _found(self, first: ClientFirst) -> Credential | None:
        if not first.delegated:
            return self._find(first.user)
        if self._find_delegated is None:
            raise SaslRefused("there are no delegation tokens here (delegation.token.secret.key)")
        self._delegated = self._find_delegated(first.user)
        return None if self._delegated is None else self._delegated.credential

    def _end(self, first: ClientFirst, token: bytes) -> bytes:
        final = parse_client_final(token)
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            raise SaslRefused("the nonce is not the one of this exchange")
        if not hmac.compare_digest(final.binding, first.gs2_header.encode()):
            raise SaslRefused("the channel binding is not that of the first message")
        name, credential = HASHES[self._mechanism], self._credential
        if credential is None or len(final.proof) != len(credential.stored_key):
            raise SaslRefused("a proof of another length")
        signed = f"{first.bare},{self._server_first},{final.bare}".encode()
        signature = hmac.digest(credential.stored_key, signed, name)
        client_key = xored(final.proof, signature)
        proved = hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)
        if not (proved and self._known):
            reason = "wrong password" if self._known else "unknown user"
            if first.delegated:
                reason = "wrong HMAC" if self._known else "unknown or expired delegation token"
            raise SaslRefused(f"{reason}: {first.user[:100]!r}")
        self.user, self.done = first.user, True
        if self._delegated is not None:
            self.user, self.ends_ms = self._delegated.owner, self._delegated.ends_ms
            self.by_delegation_token = True
        return f"v={encode64(hmac.digest(credential.server_key, signed, name))}".encode()

    def _made_up(self, user: str) -> Credential:
        name = HASHES[self._mechanism]
        about = f"{self._mechanism}:{user}".encode()
        made = hmac.digest(self._disguise, about, "sha512")
        salt, key = made[:24], hmac.digest(self._disguise, made, name)
        return Credential(salt, key, key, ITERATIONS_MIN)


class ScramClient:
    """The client's side of SCRAM; a `sasl.SaslClient`. Also verifies the server."""

    def __init__(
        self,
        mechanism: Mechanism,
        user: str,
        password: Secret,
        nonce: str,
        *,
        delegated: bool = False,
    ) -> None:
        """`nonce`: unguessable, printable, without comma. `delegated`: authenticate with a
        delegation token."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={escape(user)},r={nonce}{DELEGATED if delegated else ''}"
        self._expected: bytes | None = None

    def first(self) -> bytes:
        """Return the client's first message."""
        return f"n,,{self._bare}".encode()

    def respond(self, token: bytes) -> bytes | None:
        """Answer the server's first message, or verify its final one; SaslRefused if its proof is
        wrong."""
        if self._expected is None:
            return self._prove(token)
        if not hmac.compare_digest(parse_server_final(token), self._expected):
            raise SaslRefused("the broker does not know the password itself")
        return None

    def _prove(self, token: bytes) -> bytes:
        server = parse_server_first(token)
        if not server.nonce.startswith(self._nonce) or server.nonce == self._nonce:
            raise SaslRefused("the broker's nonce does not begin with ours")
        if not ITERATIONS_MIN <= server.iterations <= CLIENT_ITERATIONS_MAX:
            raise SaslRefused(
                f"the broker wants {server.iterations} rounds, not {ITERATIONS_MIN} to"
                f" {CLIENT_ITERATIONS_MAX}"
            )
        name = HASHES[self._mechanism]
        salted_password = salted(self._mechanism, self._password, server.salt, server.iterations)
        client_key = hmac.digest(salted_password, b"Client Key", name)
        bare = f"c={encode64(b'n,,')},r={server.nonce}"
        signed = f"{self._bare},{bytes(token).decode()},{bare}".encode()
        stored_key = hashlib.new(name, client_key).digest()
        proof = xored(client_key, hmac.digest(stored_key, signed, name))
        server_key = hmac.digest(salted_password, b"Server Key", name)
        self._expected = hmac.digest(server_key, signed, name)
        return f"{bare},p={encode64(proof)}".encode()
