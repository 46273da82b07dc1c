"""DeleteAcls (key 31, v1-v3): delete the ACLs that each filter matches (KIP-140, KIP-290).

Without an authorizer SECURITY_DISABLED.
"""

from collections.abc import Sequence

from headrace.frontends.kafka.authentication.authorisation import ALTER_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    Make,
    error_fields,
    maker,
)
from headrace.frontends.kafka.security.acl_entities import entry_fields, filter_of, resource_fields
from headrace.frontends.kafka.security.security_disabled import NO_AUTHORIZER
from headrace.model.errors import ApiError
from headrace.security.acl import AclBinding, AclFilter

_Outcome = Sequence[AclBinding] | ApiError


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with what is gone from the store, and holds here no more."""
    make = maker(context)
    acls = context.controller.settings.acls
    error = refusal(context, ALTER_CLUSTER) or (None if acls.enabled else NO_AUTHORIZER)
    outcomes: list[_Outcome]
    if error is not None:
        outcomes = [error] * len(request.filters)
    else:
        outcomes = await _delete(context, request)
    return make(None, filter_results=tuple(_result(make, outcome) for outcome in outcomes))


async def _delete(context: RequestContext, request: Entity) -> list[_Outcome]:
    outcomes: list[_Outcome] = []
    wanted: dict[int, AclFilter] = {}
    for at, asked in enumerate(request.filters):
        try:
            wanted[at] = filter_of(asked)
            outcomes.append(())
        except ApiError as error:
            outcomes.append(error)
    found = await context.controller.settings.acls.remove(list(wanted.values()))
    for at, outcome in zip(wanted, found, strict=True):
        outcomes[at] = outcome
    return outcomes


def _result(make: Make, outcome: _Outcome) -> Entity:
    if isinstance(outcome, ApiError):
        return make("DeleteAclsFilterResult", **error_fields(outcome), matching_acls=())
    matching = tuple(
        make(
            "DeleteAclsMatchingAcl",
            **error_fields(None),
            **resource_fields(resource),
            **entry_fields(entry),
        )
        for resource, entry in outcome
    )
    return make("DeleteAclsFilterResult", **error_fields(None), matching_acls=matching)
