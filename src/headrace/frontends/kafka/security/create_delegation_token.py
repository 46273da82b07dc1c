"""CreateDelegationToken (key 38, v1-v3): create a token for the requester or another user (KIP-48).

v2 flexible · v3 an owner other than the requester (KIP-373)
"""

from headrace.frontends.kafka.authentication.authorisation import CREATE_TOKENS, require
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
from headrace.security.identity import Principal
from headrace.security.sasl.delegation_tokens import check_principals


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Create a delegation token; answer with the token or an error, owner and requester."""
    requester, owner = context.identity.principal, _owner(context, request)
    made: dict[str, object] = {
        "error_code": ErrorCode.NONE,
        "issue_timestamp": NO_TIME,
        "expiry_timestamp": NO_TIME,
        "max_timestamp": NO_TIME,
        "token_id": "",
        "hmac": b"",
    }
    try:
        made |= await _create(context, request, owner)
    except ApiError as error:
        tell(context, error)
        made["error_code"] = error.code
    return maker(context)(
        None,
        **made,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
    )


def _owner(context: RequestContext, request: Entity) -> Principal:
    name = getattr(request, "owner_principal_name", None)
    if not name:
        return context.identity.principal
    return Principal(str(request.owner_principal_type or ""), str(name))


async def _create(context: RequestContext, request: Entity, owner: Principal) -> dict[str, object]:
    requester = context.identity.principal
    check_may_ask(context)
    if owner != requester:
        require(context, CREATE_TOKENS, str(owner))
    renewers = tuple(
        Principal(str(renewer.principal_type), str(renewer.principal_name))
        for renewer in request.renewers
    )
    check_principals(owner, renewers)
    settings = tokens_of(context)
    token = await settings.create(owner, requester, renewers, milliseconds_in(request.max_lifetime))
    tell(context, token)
    return {
        "issue_timestamp": time_of(token.issued_ms),
        "expiry_timestamp": time_of(token.expires_ms),
        "max_timestamp": time_of(token.max_ms),
        "token_id": token.token_id,
        "hmac": settings.tokens.hmac(token.token_id),
    }
