"""Credentials of all users, as this broker knows them: SCRAM credentials and tokens."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.ports.clock import Random
    from headrace.security.sasl.delegation_tokens import DelegationTokens
    from headrace.security.sasl.sasl import Mechanism
    from headrace.security.sasl.scram import Credential
    from headrace.security.sasl.token_verifier import TokenVerifier

_NONE: "Mapping[Mechanism, Credential]" = {}


class Users:
    """The credentials of all users, kept current from the metadata store. Called on the deciding
    thread."""

    def __init__(self) -> None:
        self._disguise = b""
        self._credentials: dict[str, Mapping[Mechanism, Credential]] = {}
        self.verifiers: dict[str, TokenVerifier] = {}
        """Verifiers of OAUTHBEARER tokens by listener; filled when the listeners open."""
        self.delegation_tokens: DelegationTokens | None = None
        """Delegation tokens; None if they are disabled (no delegation.token.secret.key)."""

    def disguise(self, random: "Random") -> bytes:
        """Return the secret key from which unknown users' salts are derived, so that they look like
        known users."""
        if not self._disguise:
            self._disguise = random.uuid() + random.uuid()
        return self._disguise

    def put(self, user: str, credentials: "Mapping[Mechanism, Credential]") -> None:
        """Set the SCRAM credentials of `user`; an empty mapping removes the user."""
        if credentials:
            self._credentials[user] = credentials
        else:
            self._credentials.pop(user, None)

    def of(self, user: str) -> "Mapping[Mechanism, Credential]":
        """Return a user's SCRAM credentials by mechanism; empty if there are none."""
        return self._credentials.get(user, _NONE)

    def names(self) -> list[str]:
        """Return the names of all users with SCRAM credentials, sorted."""
        return sorted(self._credentials)
