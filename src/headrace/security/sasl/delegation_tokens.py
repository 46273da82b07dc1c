"""Delegation tokens (KIP-48, KIP-373): storage, and rules for renewing and expiring them.

A token is an id and an HMAC of the id under a key that only brokers know. Its bearer authenticates
by SCRAM with the id as user name and the HMAC as password. Errors and their order are Kafka 4.3's.
"""

import base64
import hmac as hmacs
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.secret import Secret
from headrace.security.identity import USER, Principal

if TYPE_CHECKING:
    from headrace.security.sasl.sasl import Mechanism
    from headrace.security.sasl.scram_exchange import DelegatedCredential

RENEWERS_MAX = 100
"""Maximum renewers of a token."""
NAME_CHARS_MAX = 1024
"""Maximum length of an owner's or renewer's name, in characters."""
TIME_MS_MAX = 253_402_300_799_000
"""The end of the year 9999 in ms since 1970: the latest expiry of a token."""


class DelegationToken(NamedTuple):
    """A delegation token without its HMAC. Times in ms since 1970."""

    token_id: str
    owner: Principal
    requester: Principal
    """The principal that created the token."""
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    """When the token expires unless it is renewed."""
    max_ms: int
    """When the token expires at the latest; it cannot be renewed beyond."""

    def expired(self, now_ms: int) -> bool:
        """Return whether the token has expired; it is still valid at the very millisecond of its
        expiry."""
        return self.max_ms < now_ms or self.expires_ms < now_ms

    def is_about(self, principal: Principal) -> bool:
        """Return whether the principal may see the token: its owner, requester or a renewer."""
        return principal in (self.owner, self.requester, *self.renewers)


class Lifetimes(NamedTuple):
    """Maximum lifetime and renewal period of tokens, in ms, from the broker's settings."""

    longest_ms: int
    renewed_ms: int


def new_token(
    token_id: str,
    owner: Principal,
    requester: Principal,
    renewers: tuple[Principal, ...],
    lifetime_ms: int,
    now_ms: int,
    lifetimes: Lifetimes,
) -> DelegationToken:
    """Create a token with maximum lifetime `lifetime_ms`; 0 or less: the longest allowed."""
    longest = lifetimes.longest_ms if lifetime_ms <= 0 else min(lifetime_ms, lifetimes.longest_ms)
    max_ms = min(now_ms + longest, TIME_MS_MAX)
    expires_ms = min(max_ms, now_ms + lifetimes.renewed_ms)
    return DelegationToken(token_id, owner, requester, renewers, now_ms, expires_ms, max_ms)


def check_principals(owner: Principal, renewers: Iterable[Principal]) -> None:
    """Check owner and renewers; ApiError INVALID_PRINCIPAL_TYPE or INVALID_REQUEST.

    A token's bearer becomes `User:<owner's name>`, so owners must be of type User.
    """
    named = (owner, *renewers)
    if any(principal.kind != USER for principal in named):
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if len(named) - 1 > RENEWERS_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"more than {RENEWERS_MAX} renewers")
    if not all(0 < len(principal.name) <= NAME_CHARS_MAX for principal in named):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a name that is empty or too long")


def renewed(
    token: DelegationToken, by: Principal, period_ms: int, now_ms: int, lifetimes: Lifetimes
) -> DelegationToken:
    """Return the token renewed for `period_ms`; 0 or less: for the default period.

    Raises ApiError.
    """
    _check_may_change(token, by, now_ms)
    usual = lifetimes.renewed_ms
    period = usual if period_ms <= 0 else min(usual, period_ms)
    return token._replace(expires_ms=min(token.max_ms, now_ms + period))


def ended(
    token: DelegationToken, by: Principal, period_ms: int, now_ms: int
) -> DelegationToken | None:
    """Return the token expiring in `period_ms`, or None to delete it at once (negative period).

    Raises ApiError.
    """
    _check_may_change(token, by, now_ms)
    if period_ms < 0:
        return None
    return token._replace(expires_ms=min(token.max_ms, now_ms + period_ms))


def _check_may_change(token: DelegationToken, by: Principal, now_ms: int) -> None:
    if token.expired(now_ms):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if by != token.owner and by not in token.renewers:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


class DelegationTokens:
    """All delegation tokens, as this broker knows them. Called on the deciding thread."""

    def __init__(self, secret: Secret, salt: bytes) -> None:
        """Create an empty table of tokens.

        `salt`: salt of the tokens' SCRAM credentials, which are computed in memory only.
        """
        self._secret = secret
        self._salt = salt
        self._tokens: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}
        """Token ids by HMAC."""
        self._credentials: dict[tuple[str, Mechanism], DelegatedCredential] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[DelegationToken]:
        return iter(sorted(self._tokens.values()))

    def owned_by(self, owner: Principal) -> int:
        """Return how many tokens a principal owns."""
        return sum(token.owner == owner for token in self._tokens.values())

    def hmac(self, token_id: str) -> bytes:
        """Return the HMAC of a token id, whether or not the token exists."""
        return hmacs.digest(self._secret.reveal().encode(), token_id.encode(), "sha512")

    def put(self, token: DelegationToken) -> None:
        """Add or replace a token."""
        self._tokens[token.token_id] = token
        self._ids[self.hmac(token.token_id)] = token.token_id

    def remove(self, token_id: str) -> None:
        """Remove a token."""
        self._tokens.pop(token_id, None)
        self._ids.pop(self.hmac(token_id), None)
        for key in [key for key in self._credentials if key[0] == token_id]:
            del self._credentials[key]

    def replace(self, tokens: Iterable[DelegationToken]) -> None:
        """Replace all tokens."""
        wanted = {token.token_id: token for token in tokens}
        for token_id in self._tokens.keys() - wanted.keys():
            self.remove(token_id)
        for token in wanted.values():
            self.put(token)

    def of_hmac(self, hmac: bytes) -> DelegationToken:
        """Return the token with this HMAC. ApiError DELEGATION_TOKEN_NOT_FOUND."""
        token = self._tokens.get(self._ids.get(bytes(hmac), ""))
        if token is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    def credential(
        self, token_id: str, mechanism: "Mechanism", now_ms: int
    ) -> "DelegatedCredential | None":
        """Return a token's SCRAM credential; None if the token does not exist or has expired.

        The first call takes 1 to 2 ms for each token and mechanism.
        """
        token = self._tokens.get(token_id)
        if token is None or token.expired(now_ms):
            return None
        from headrace.security.sasl.scram import ITERATIONS_MIN, make_credential
        from headrace.security.sasl.scram_exchange import DelegatedCredential

        made = self._credentials.get((token_id, mechanism))
        if made is None:
            password = Secret(base64.b64encode(self.hmac(token_id)).decode())
            found = make_credential(mechanism, password, self._salt, ITERATIONS_MIN)
            made = DelegatedCredential(token.owner.name, token.expires_ms, found)
            self._credentials[token_id, mechanism] = made
        return made._replace(owner=token.owner.name, ends_ms=token.expires_ms)
