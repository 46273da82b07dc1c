"""Delegation tokens: create, describe, renew, expire (KIP-48)."""

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from headrace.client.calls.call import ColdCall, Maker, check
from headrace.client.client import Client
from headrace.model.secret import Secret
from headrace.wire.kafka.api import ApiKey

AT_ONCE_MS = -1
"""The expiry period that makes a token expire immediately."""
_OWNER_VERSION = 3
"""The first CreateDelegationToken version that can name an owner (KIP-373)."""


class Token(NamedTuple):
    """A delegation token. Times are in milliseconds since 1970."""

    token_id: str
    owner: str
    """The owner's principal, as `User:NAME`."""
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: Secret
    """The token's HMAC in base64: the SCRAM password that belongs to its id."""


async def create_token(
    client: Client, owner: str | None, renewers: Sequence[str], lifetime_ms: int
) -> Token:
    """Create a delegation token for user `owner` (None: the caller). Raises ApiError.

    `lifetime_ms` -1: the longest that the broker allows.
    """

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        return maker.request(
            owner_principal_type=None if owner is None else "User",
            owner_principal_name=owner,
            renewers=tuple(
                maker.part("CreatableRenewers", principal_type="User", principal_name=name)
                for name in renewers
            ),
            max_lifetime=timedelta(milliseconds=lifetime_ms),
        )

    def parse(response: Any) -> Token:  # noqa: ANN401 - kio's entity
        check(response.error_code)
        return Token(
            str(response.token_id),
            f"{response.principal_type}:{response.principal_name}",
            tuple(f"User:{name}" for name in renewers),
            _ms(response.issue_timestamp),
            _ms(response.expiry_timestamp),
            _ms(response.max_timestamp),
            _secret(response.hmac),
        )

    versions = None if owner is None else (_OWNER_VERSION, _OWNER_VERSION)
    call = ColdCall(ApiKey.CREATE_DELEGATION_TOKEN, build, parse, versions=versions)
    return await client.ask_any(call)


async def describe_tokens(client: Client, owner: str | None = None) -> list[Token]:
    """Return the tokens that the caller may see, of one owner or of all. Raises ApiError."""

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        owners = None
        if owner is not None:
            part = "DescribeDelegationTokenOwner"
            owners = (maker.part(part, principal_type="User", principal_name=owner),)
        return maker.request(owners=owners)

    def parse(response: Any) -> list[Token]:  # noqa: ANN401 - kio's entity
        check(response.error_code)
        return [
            Token(
                str(token.token_id),
                f"{token.principal_type}:{token.principal_name}",
                tuple(
                    f"{renewer.principal_type}:{renewer.principal_name}"
                    for renewer in token.renewers
                ),
                int(token.issue_timestamp),
                int(token.expiry_timestamp),
                int(token.max_timestamp),
                _secret(token.hmac),
            )
            for token in response.tokens
        ]

    return await client.ask_any(ColdCall(ApiKey.DESCRIBE_DELEGATION_TOKEN, build, parse))


async def renew_token(client: Client, token: Token, period_ms: int) -> int:
    """Renew a token for `period_ms` from now (-1: the broker's default); return its new expiry in
    ms since 1970. Raises ApiError."""
    return await client.ask_any(
        _change(ApiKey.RENEW_DELEGATION_TOKEN, token, "renew_period", period_ms)
    )


async def expire_token(client: Client, token: Token, period_ms: int = AT_ONCE_MS) -> int:
    """Set a token to expire in `period_ms`; return its expiry in ms since 1970. Raises ApiError."""
    return await client.ask_any(
        _change(ApiKey.EXPIRE_DELEGATION_TOKEN, token, "expiry_time_period", period_ms)
    )


def _change(key: ApiKey, token: Token, field: str, period_ms: int) -> ColdCall[int]:
    hmac = base64.b64decode(token.hmac.reveal())

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        return maker.request(hmac=hmac, **{field: timedelta(milliseconds=period_ms)})

    def parse(response: Any) -> int:  # noqa: ANN401 - kio's entity
        check(response.error_code)
        return _ms(response.expiry_timestamp)

    return ColdCall(key, build, parse)


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def _secret(hmac: bytes) -> Secret:
    return Secret(base64.b64encode(hmac).decode())
