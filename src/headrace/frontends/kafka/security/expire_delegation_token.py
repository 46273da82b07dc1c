"""ExpireDelegationToken (key 40, v1-v2): refused, since nobody here has authenticated."""

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.security.security_disabled import NO_TIME, NO_TOKENS


def handle(context: RequestContext, request: Entity) -> Entity:
    """Refuse it."""
    return maker(context)(None, error_code=NO_TOKENS, expiry_timestamp=NO_TIME)
