"""`TokenSettings`: delegation tokens, created, renewed, expired, and followed in the store."""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.cluster.settings.entity_settings import store_failed
from headrace.cluster.settings.noticed_changes import NoticedChanges
from headrace.cluster.store import token_store
from headrace.cluster.store.notices import Notices
from headrace.cluster.store.reaction import Reaction
from headrace.cluster.store.token_store import TokenStore
from headrace.cluster.store.znodes import BadPayload
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.secret import Secret
from headrace.ports.store import Store, StoreError
from headrace.posix.awaiting import carried_on
from headrace.security.identity import Principal
from headrace.security.sasl.delegation_tokens import (
    DelegationToken,
    DelegationTokens,
    Lifetimes,
    check_principals,
    ended,
    new_token,
    renewed,
)

if TYPE_CHECKING:
    from headrace.ports.clock import Random, Timer

_logger = logging.getLogger(__name__)


def new_token_id(random: "Random") -> str:
    """Return the id of a new token: Base64 of 16 random bytes, without "-" in front.

    Commands would take such an id for an option (Kafka's Uuid.randomUuid avoids it, too).
    """
    while (found := base64.urlsafe_b64encode(random.uuid()).rstrip(b"=").decode())[0] == "-":
        pass
    return found


class TokenSettings:
    """The delegation tokens in the store, which every broker may change, one change at a time."""

    def __init__(self, broker: Broker, store: Store, change: asyncio.Lock, secret: Secret) -> None:
        """Create the token settings without tokens. `change`: lock held during a change."""
        self._broker = broker
        self._store = TokenStore(store)
        self._change = change
        self._timer: Timer | None = None
        self._removal = Reaction(
            self._remove_expired, "expired delegation tokens could not be removed, retrying later"
        )
        self.tokens = DelegationTokens(secret, broker.random.uuid())
        broker.users.delegation_tokens = self.tokens

    async def load(self) -> None:
        """Replace all tokens by those of the store, and begin to remove expired ones."""
        await self._store.prepare()
        found = await self._store.all()
        self.tokens.replace(token for token in found.values() if token is not None)
        if self._timer is None:
            self._remove_later()

    def stop(self) -> None:
        """Stop removing expired tokens."""
        if self._timer is not None:
            self._timer.cancel()
        self._removal.cancel()

    async def read(self, token_ids: Iterable[str]) -> None:
        """Replace some tokens by those of the store."""
        for token_id, token in (await self._store.of(token_ids)).items():
            self._take(token_id, token)

    async def create(
        self,
        owner: Principal,
        requester: Principal,
        renewers: tuple[Principal, ...],
        lifetime_ms: int,
    ) -> DelegationToken:
        """Create a token, valid here on return. Raises ApiError."""
        check_principals(owner, renewers)
        token_id = new_token_id(self._broker.random)
        now_ms = self._broker.clock.wall_ms()
        token = new_token(
            token_id, owner, requester, renewers, lifetime_ms, now_ms, self._lifetimes()
        )

        def made(before: DelegationToken | None) -> DelegationToken:
            self._check_number(owner)
            return token if before is None else before

        await self._changed(token_id, made)
        return token

    async def renew(self, by: Principal, hmac: bytes, period_ms: int) -> DelegationToken:
        """Renew a token for `period_ms`. Raises ApiError."""
        now_ms = self._broker.clock.wall_ms()

        def change(token: DelegationToken) -> DelegationToken:
            return renewed(token, by, period_ms, now_ms, self._lifetimes())

        found = await self._existing(hmac, change)
        if found is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return found

    async def expire(self, by: Principal, hmac: bytes, period_ms: int) -> int:
        """Expire a token in `period_ms` (negative: now); return when. Raises ApiError."""
        now_ms = self._broker.clock.wall_ms()
        found = await self._existing(hmac, lambda token: ended(token, by, period_ms, now_ms))
        return now_ms if found is None else found.expires_ms

    async def _existing(
        self, hmac: bytes, change: Callable[[DelegationToken], DelegationToken | None]
    ) -> DelegationToken | None:
        token_id = self.tokens.of_hmac(hmac).token_id

        def changed(before: DelegationToken | None) -> DelegationToken | None:
            if before is None:  # another broker removed it, and its notice is on the way
                raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            return change(before)

        return await self._changed(token_id, changed)

    async def _changed(self, token_id: str, change: token_store.Change) -> DelegationToken | None:
        """Change a token; the change is completed even if the caller is cancelled."""
        return await carried_on(self._change_now(token_id, change))

    async def _change_now(
        self, token_id: str, change: token_store.Change
    ) -> DelegationToken | None:
        async with self._change:
            try:
                token = await self._store.change(token_id, change)
            except StoreError as error:
                raise store_failed(error) from error
            except BadPayload as error:
                raise ApiError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"metadata store: delete {error}"
                ) from None
            self._take(token_id, token)
            return token

    def _take(self, token_id: str, token: DelegationToken | None) -> None:
        if token is None:
            self.tokens.remove(token_id)
        else:
            self.tokens.put(token)

    def _lifetimes(self) -> Lifetimes:
        config = self._broker.config
        return Lifetimes(
            config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms
        )

    def _check_number(self, owner: Principal) -> None:
        config = self._broker.config
        if len(self.tokens) >= config.delegation_token_max_count:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                "too many delegation tokens (delegation.token.max.count)",
            )
        if self.tokens.owned_by(owner) >= config.delegation_token_max_count_per_owner:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"{owner} has too many delegation tokens (delegation.token.max.count.per.owner)",
            )

    # what holds no more

    def _remove_later(self) -> None:
        period_ms = self._broker.config.delegation_token_expiry_check_interval_ms
        self._timer = self._broker.clock.call_later(period_ms / 1000, self._look)

    def _look(self) -> None:
        self._remove_later()
        self._removal.ask()

    async def _remove_expired(self) -> None:
        """Remove expired tokens, except those that another broker has renewed."""
        now_ms = self._broker.clock.wall_ms()
        for token in [token for token in self.tokens if token.expired(now_ms)]:
            left = await self._changed(
                token.token_id,
                lambda before: None if before is None or before.expired(now_ms) else before,
            )
            if left is None:
                _logger.info("delegation token %s of %s expired", token.token_id, token.owner)


def noticed_changes(
    broker: Broker, store: Store, tokens: TokenSettings, change: asyncio.Lock
) -> NoticedChanges[str]:
    """Return the watch for tokens that other brokers change."""
    notices = Notices(store, token_store.CHANGES, token_store.decode_notice, broker.clock)
    failing = (
        "delegation tokens changed elsewhere are not applied until the next change or a restart"
    )
    return NoticedChanges(store, (notices,), tokens.read, change, failing)
