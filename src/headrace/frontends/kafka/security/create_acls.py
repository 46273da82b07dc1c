"""CreateAcls (key 30, v1-v3): create ACLs, each with its own result (KIP-140, KIP-290).

SECURITY_DISABLED without an authorizer.
"""

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.frontends.kafka.security.acl_entities import spec_of
from headrace.operations.acls import create_acls


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Create ACLs; answer once they are stored, and in force on this broker."""
    make = maker(context)
    outcomes = await create_acls(operating(context), [*map(spec_of, request.creations)])
    results = (make("AclCreationResult", **error_fields(outcome)) for outcome in outcomes)
    return make(None, results=tuple(results))
