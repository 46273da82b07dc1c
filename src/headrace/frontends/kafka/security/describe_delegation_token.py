"""DescribeDelegationToken (key 41, v1-v3): refused, since nobody here has authenticated."""

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.security.security_disabled import NO_TOKENS


def handle(context: RequestContext, request: Entity) -> Entity:
    """Refuse it."""
    return maker(context)(None, error_code=NO_TOKENS, tokens=())
