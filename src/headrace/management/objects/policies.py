"""Policies and operator policies: lists, one policy, its change and deletion."""

from collections.abc import Mapping, Sequence

from headrace.management.lists.columns import columns_of, of_object
from headrace.management.objects.listed_objects import listed_objects
from headrace.management.requests.errors import not_found
from headrace.management.requests.request import (
    ManagementReply,
    ManagementRequest,
    json_object,
    required,
)
from headrace.management.requests.visible import require_vhost, visible_vhosts
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.views import PolicyView, View, ViewPolicies
from headrace.operations.virtual_hosts import (
    ClearOperatorPolicy,
    ClearPolicy,
    SetOperatorPolicy,
    SetPolicy,
)
from headrace.queues.model.policies.policy import with_defaults


async def policies(request: ManagementRequest) -> ManagementReply:
    """Answer the policies of all virtual hosts that the user sees."""
    return await _listed(request, visible_vhosts(request), operators=False)


async def policies_of_vhost(request: ManagementRequest) -> ManagementReply:
    """Answer the policies of a virtual host."""
    return await _listed(request, [require_vhost(request)], operators=False)


async def policy(request: ManagementRequest) -> ManagementReply:
    """Answer one policy."""
    return await _one(request, operators=False)


async def put(request: ManagementRequest) -> ManagementReply:
    """Set a policy, applied once it is answered: 201 if it is new, else 204."""
    return await _put(request, SetPolicy)


async def delete(request: ManagementRequest) -> ManagementReply:
    """Delete a policy."""
    return await _delete(request, ClearPolicy)


async def operator_policies(request: ManagementRequest) -> ManagementReply:
    """Answer the operator policies of all virtual hosts that the user sees."""
    return await _listed(request, visible_vhosts(request), operators=True)


async def operator_policies_of_vhost(request: ManagementRequest) -> ManagementReply:
    """Answer the operator policies of a virtual host."""
    return await _listed(request, [require_vhost(request)], operators=True)


async def operator_policy(request: ManagementRequest) -> ManagementReply:
    """Answer one operator policy."""
    return await _one(request, operators=True)


async def put_for_operators(request: ManagementRequest) -> ManagementReply:
    """Set an operator policy, as `put`."""
    return await _put(request, SetOperatorPolicy)


async def delete_for_operators(request: ManagementRequest) -> ManagementReply:
    """Delete an operator policy."""
    return await _delete(request, ClearOperatorPolicy)


async def _listed(
    request: ManagementRequest, vhosts: Sequence[str], *, operators: bool
) -> ManagementReply:
    view = await _view(request, operators=operators)
    return await listed_objects(request, view, await view.keys(vhosts), _row)


async def _one(request: ManagementRequest, *, operators: bool) -> ManagementReply:
    vhost = require_vhost(request)
    view = await _view(request, operators=operators)
    found = view.describe((vhost, request.values["name"]))
    if found is None:
        raise not_found()
    return ManagementReply(200, of_object(_row(found), columns_of(request.query)))


async def _put(request: ManagementRequest, kind: type[SetPolicy]) -> ManagementReply:
    vhost, document = require_vhost(request), json_object(request.body)
    required(document, "pattern", "definition")
    asked = kind(vhost, request.values["name"], with_defaults(document))
    done = await request.services.operations.call(request.caller, asked)
    return ManagementReply(201 if done.created else 204)


async def _delete(request: ManagementRequest, kind: type[ClearPolicy]) -> ManagementReply:
    asked = kind(require_vhost(request), request.values["name"])
    try:
        await request.services.operations.call(request.caller, asked)
    except ApiError as error:
        if error.code is ErrorCode.RESOURCE_NOT_FOUND:
            raise not_found() from None
        raise
    return ManagementReply(204)


async def _view(
    request: ManagementRequest, *, operators: bool
) -> View[tuple[str, str], PolicyView]:
    return await request.services.operations.call(request.caller, ViewPolicies(operators))


def _row(found: PolicyView) -> Mapping[str, object]:
    return {"vhost": found.vhost, "name": found.name, **found.value}
