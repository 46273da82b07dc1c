"""DeleteAcls (key 31, v1-v3): delete the ACLs that each filter matches (KIP-140, KIP-290).

SECURITY_DISABLED without an authorizer.
"""

from collections.abc import Sequence

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    Make,
    error_fields,
    maker,
)
from headrace.frontends.kafka.security.acl_entities import (
    entry_fields,
    filter_spec_of,
    resource_fields,
)
from headrace.model.errors import ApiError
from headrace.operations.acls import delete_acls
from headrace.security.acl import AclBinding


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Delete ACLs; answer with those deleted from the store and no longer in force here."""
    make = maker(context)
    outcomes = await delete_acls(operating(context), [*map(filter_spec_of, request.filters)])
    return make(None, filter_results=tuple(_result(make, outcome) for outcome in outcomes))


def _result(make: Make, outcome: Sequence[AclBinding] | ApiError) -> Entity:
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
