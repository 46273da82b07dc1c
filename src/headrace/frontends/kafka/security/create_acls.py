"""CreateAcls (key 30, v1-v3): refused, SECURITY_DISABLED: there is no authorizer."""

from headrace.frontends.kafka.connection.authorisation import ALTER_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.frontends.kafka.security.security_disabled import NO_AUTHORIZER


def handle(context: RequestContext, request: Entity) -> Entity:
    """Refuse each one of the request's creations."""
    make = maker(context)
    error = refusal(context, ALTER_CLUSTER) or NO_AUTHORIZER
    refused = make("AclCreationResult", **error_fields(error))
    return make(None, results=(refused,) * len(request.creations))
