"""RenewDelegationToken (key 39, v1-v2): extend a token, up to its maximum lifetime (KIP-48).

v2 flexible
"""

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.security.token_requests import (
    NO_TIME,
    check_may_ask,
    milliseconds_in,
    tell,
    time_of,
    tokens_of,
)
from headrace.model.errors import ApiError, ErrorCode


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Renew a delegation token; answer with its new end, or an error."""
    make, by = maker(context), context.identity.principal
    try:
        check_may_ask(context)
        period_ms = milliseconds_in(request.renew_period)
        token = await tokens_of(context).renew(by, bytes(request.hmac), period_ms)
    except ApiError as error:
        tell(context, error)
        return make(None, error_code=error.code, expiry_timestamp=NO_TIME)
    tell(context, token)
    return make(None, error_code=ErrorCode.NONE, expiry_timestamp=time_of(token.expires_ms))
