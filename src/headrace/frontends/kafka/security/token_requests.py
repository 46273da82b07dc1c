"""What the APIs of delegation tokens have in common: who may ask at all, and how times are told."""

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
"""Of a token that there is none of. -1 at Kafka, which kio could not read back."""
_MILLISECOND = timedelta(milliseconds=1)


def check_may_ask(context: RequestContext) -> None:
    """Refuse who has not authenticated, or by a token: ApiError."""
    identity = context.identity
    if identity.by_delegation_token or identity.principal == ANONYMOUS:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def tokens_of(context: RequestContext) -> "TokenSettingsPort":
    """Return the tokens; ApiError where there are none."""
    tokens = context.controller.settings.tokens
    if tokens is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return tokens


def tell(context: RequestContext, changed: "DelegationToken | ApiError") -> None:
    """Have the audit log tell of a token that was made or altered, or why it was not.

    Not told from request and answer, as others are (`changes`): those have its secret alone.
    """
    if isinstance(changed, ApiError):
        tell_one(context, Change(changed.code, {}))
    else:
        tell_one(context, Change(0, {"token": changed.token_id, "owner": changed.owner}))


def time_of(ms: int) -> datetime:
    """Return a time as entities have it."""
    return _EPOCH + timedelta(milliseconds=ms)


def milliseconds_in(period: timedelta) -> int:
    """Return a duration of a request, negative ones included."""
    return period // _MILLISECOND
