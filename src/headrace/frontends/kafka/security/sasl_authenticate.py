"""SaslAuthenticate (key 36, v0-v2): exchange tokens until the client is authenticated (KIP-152).

v1 session lifetime (KIP-368) · v2 flexible
"""

from datetime import timedelta

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.security.failed_authentication import or_later
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending


def handle(context: RequestContext, request: Entity) -> Entity | Pending:
    """Pass a token to the connection's SASL exchange; answer with the server's token or an error.

    ILLEGAL_SASL_STATE on a listener without SASL.
    """
    authentication = context.authentication
    error: ErrorCode = ErrorCode.ILLEGAL_SASL_STATE
    told: str | None = "SaslAuthenticate request received after successful authentication"
    token, lifetime_ms = b"", 0
    if authentication is not None:
        error, told, token, lifetime_ms = authentication.respond(bytes(request.auth_bytes))
    answer = maker(context)(
        None,
        error_code=error,
        error_message=told,
        auth_bytes=token,
        session_lifetime=timedelta(milliseconds=lifetime_ms),
    )
    return or_later(authentication, answer)
