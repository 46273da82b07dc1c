"""DescribeAcls (key 29, v1-v3): return the ACLs that a filter matches (KIP-140, KIP-290).

Without an authorizer SECURITY_DISABLED.
"""

from itertools import groupby

from headrace.frontends.kafka.authentication.authorisation import DESCRIBE_CLUSTER, require
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.frontends.kafka.security.acl_entities import entry_fields, filter_of, resource_fields
from headrace.frontends.kafka.security.security_disabled import NO_AUTHORIZER
from headrace.model.errors import ApiError
from headrace.security.acl import AclBinding


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with what is known here, or one error for all."""
    make = maker(context)
    try:
        bindings = _matching(context, request)
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


def _matching(context: RequestContext, request: Entity) -> list[AclBinding]:
    """Return the bindings asked for, those of one resource beside each other. ApiError."""
    require(context, DESCRIBE_CLUSTER)
    acls = context.controller.settings.acls
    if not acls.enabled:
        raise NO_AUTHORIZER
    return acls.matching(filter_of(request))
