"""Who can authenticate, as this broker knows it: by SCRAM's credentials, or by tokens."""

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
    """Every user's credentials; followed from the metadata store. On the deciding thread."""

    def __init__(self) -> None:
        self._disguise = b""
        self._credentials: dict[str, Mapping[Mechanism, Credential]] = {}
        self.verifiers: dict[str, TokenVerifier] = {}
        """Who checks the tokens of OAUTHBEARER, by listener; filled when those are opened."""
        self.delegation_tokens: DelegationTokens | None = None
        """None where there are none (delegation.token.secret.key)."""

    def disguise(self, random: "Random") -> bytes:
        """Return the key by which unknown users are shown a salt like everybody's."""
        if not self._disguise:
            self._disguise = random.uuid() + random.uuid()
        return self._disguise

    def put(self, user: str, credentials: "Mapping[Mechanism, Credential]") -> None:
        """Follow these credentials of `user` from now on; none: he has none any more."""
        if credentials:
            self._credentials[user] = credentials
        else:
            self._credentials.pop(user, None)

    def of(self, user: str) -> "Mapping[Mechanism, Credential]":
        """Return a user's credentials, by mechanism."""
        return self._credentials.get(user, _NONE)

    def names(self) -> list[str]:
        """Return all who have credentials, sorted."""
        return sorted(self._credentials)
