"""Common code of the delegation token APIs: permission to ask, times, audit lines."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from headrace.frontends.kafka.connection.changes import Change, tell_one
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.identity import ANONYMOUS

if TYPE_CHECKING:
    from headrace.cluster.controller_port import TokenSettingsPort
    from headrace.security.sasl.delegation_tokens import DelegationToken

_EPOCH = datetime.fromtimestamp(0, UTC)
NO_TIME = _EPOCH
"""The time in an answer without a token; Kafka has -1, which kio cannot decode."""
_MILLISECOND = timedelta(milliseconds=1)


def check_may_ask(context: RequestContext) -> None:
    """Raise ApiError for a client that is anonymous, or authenticated by a token itself."""
    identity = context.identity
    if identity.by_delegation_token or identity.principal == ANONYMOUS:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def tokens_of(context: RequestContext) -> "TokenSettingsPort":
    """Return the store of tokens; raise ApiError if tokens are disabled."""
    tokens = context.controller.settings.tokens
    if tokens is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return tokens


def tell(context: RequestContext, changed: "DelegationToken | ApiError") -> None:
    """Write an audit line for a created or changed token, or for the error.

    Not made from request and answer as others are (`changes`), which have only the token's secret.
    """
    if isinstance(changed, ApiError):
        tell_one(context, Change(changed.code, {}))
    else:
        tell_one(context, Change(0, {"token": changed.token_id, "owner": changed.owner}))


def time_of(ms: int) -> datetime:
    """Return a time in milliseconds since the epoch as a datetime."""
    return _EPOCH + timedelta(milliseconds=ms)


def milliseconds_in(period: timedelta) -> int:
    """Return a request's duration in milliseconds; it may be negative."""
    return period // _MILLISECOND
