"""CreateDelegationToken (key 38, v1-v3): refused, since nobody here has authenticated.

v2 flexible · v3 the owner may be another than who asks (KIP-373)
"""

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.security.security_disabled import NO_TIME, NO_TOKENS


def handle(context: RequestContext, request: Entity) -> Entity:
    """Refuse it, and tell for whom the token would have been."""
    kind, name = context.identity.principal
    owner = getattr(request, "owner_principal_name", None)
    return maker(context)(
        None,
        error_code=NO_TOKENS,
        principal_type=(owner and request.owner_principal_type) or kind,
        principal_name=owner or name,
        token_requester_principal_type=kind,
        token_requester_principal_name=name,
        issue_timestamp=NO_TIME,
        expiry_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        token_id="",
        hmac=b"",
    )
