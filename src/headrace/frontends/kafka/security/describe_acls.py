"""DescribeAcls (key 29, v1-v3): return the ACLs that a filter matches (KIP-140, KIP-290).

SECURITY_DISABLED without an authorizer.
"""

from itertools import groupby

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.frontends.kafka.security.acl_entities import (
    entry_fields,
    filter_spec_of,
    resource_fields,
)
from headrace.model.errors import ApiError
from headrace.operations.acls import describe_acls


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer DescribeAcls with the matching ACLs known to this broker, or an error."""
    make = maker(context)
    try:
        bindings = describe_acls(operating(context), filter_spec_of(request))
    except ApiError as error:
        return make(None, **error_fields(error), resources=())
    resources = tuple(
        make(
            "DescribeAclsResource",
            **resource_fields(resource),
            acls=tuple(make("AclDescription", **entry_fields(found.entry)) for found in of_it),
        )
        for resource, of_it in groupby(bindings, key=lambda binding: binding.resource)
    )
    return make(None, **error_fields(None), resources=resources)
