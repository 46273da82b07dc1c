"""DescribeAcls (key 29, v1-v3): refused, SECURITY_DISABLED: there is no authorizer."""

from headrace.frontends.kafka.connection.authorisation import DESCRIBE_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.frontends.kafka.security.security_disabled import NO_AUTHORIZER


def handle(context: RequestContext, request: Entity) -> Entity:
    """Refuse the whole request."""
    return maker(context)(
        None, **error_fields(refusal(context, DESCRIBE_CLUSTER) or NO_AUTHORIZER), resources=()
    )
