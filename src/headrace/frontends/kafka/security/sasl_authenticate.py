"""SaslAuthenticate (key 36, v0-v2): refused, ILLEGAL_SASL_STATE: no listener authenticates."""

from datetime import timedelta

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ErrorCode


def handle(context: RequestContext, request: Entity) -> Entity:
    """Refuse it."""
    return maker(context)(
        None,
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
        session_lifetime=timedelta(0),
    )
