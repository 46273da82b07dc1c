"""SaslHandshake (key 17, v0-v1): negotiate a mechanism on SASL listeners.

v0 tokens follow as bare frames · v1 in SaslAuthenticate (KIP-152)
"""

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.security.failed_authentication import or_later
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending


def handle(context: RequestContext, request: Entity) -> Entity | Pending:
    """Choose the SASL mechanism, or refuse it; ILLEGAL_SASL_STATE on a listener without SASL."""
    authentication = context.authentication
    error: ErrorCode = ErrorCode.ILLEGAL_SASL_STATE
    mechanisms: tuple[str, ...] = ()
    if authentication is not None:
        error, mechanisms = authentication.handshake(
            str(request.mechanism), raw=context.version == 0
        )
    answer = maker(context)(None, error_code=error, mechanisms=mechanisms)
    return or_later(authentication, answer)
