"""ExpireDelegationToken (key 40, v1-v2): expire a token at once, or at an earlier time (KIP-48).

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
    """Expire a delegation token; answer with its new end, or an error."""
    make, by = maker(context), context.identity.principal
    try:
        check_may_ask(context)
        settings = tokens_of(context)
        hmac = bytes(request.hmac)
        token = settings.tokens.of_hmac(hmac)
        ends_ms = await settings.expire(by, hmac, milliseconds_in(request.expiry_time_period))
    except ApiError as error:
        tell(context, error)
        return make(None, error_code=error.code, expiry_timestamp=NO_TIME)
    tell(context, token)
    return make(None, error_code=ErrorCode.NONE, expiry_timestamp=time_of(ends_ms))
