"""SaslHandshake (key 17, v0-v1): refused, ILLEGAL_SASL_STATE: no listener authenticates."""

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ErrorCode


def handle(context: RequestContext, request: Entity) -> Entity:
    """Refuse it, offering no mechanism."""
    return maker(context)(None, error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
