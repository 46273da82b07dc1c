"""CreateAcls (key 30, v1-v3): create ACLs, each with its own result (KIP-140, KIP-290).

Without an authorizer SECURITY_DISABLED.
"""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.authentication.authorisation import ALTER_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.frontends.kafka.security.acl_entities import binding_of
from headrace.frontends.kafka.security.security_disabled import NO_AUTHORIZER
from headrace.model.errors import ApiError

if TYPE_CHECKING:
    from headrace.security.acl import AclBinding


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer once they are in the store, and hold here."""
    make = maker(context)
    acls = context.controller.settings.acls
    error = refusal(context, ALTER_CLUSTER) or (None if acls.enabled else NO_AUTHORIZER)
    outcomes: list[ApiError | None]
    if error is not None:
        outcomes = [error] * len(request.creations)
    else:
        outcomes = await _create(context, request)
    results = (make("AclCreationResult", **error_fields(outcome)) for outcome in outcomes)
    return make(None, results=tuple(results))


async def _create(context: RequestContext, request: Entity) -> list[ApiError | None]:
    outcomes: list[ApiError | None] = []
    wanted: dict[int, AclBinding] = {}
    for at, creation in enumerate(request.creations):
        try:
            wanted[at] = binding_of(creation)
            outcomes.append(None)
        except ApiError as error:
            outcomes.append(error)
    found = await context.controller.settings.acls.add(list(wanted.values()))
    for at, outcome in zip(wanted, found, strict=True):
        outcomes[at] = outcome
    return outcomes
