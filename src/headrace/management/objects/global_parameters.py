"""Global parameters: named JSON values of the cluster."""

import json

from headrace.management.lists.columns import columns_of, of_object
from headrace.management.lists.listing import Listed, listed
from headrace.management.objects.listed_objects import itself
from headrace.management.requests.errors import not_found
from headrace.management.requests.request import (
    ManagementReply,
    ManagementRequest,
    json_object,
    required,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.virtual_hosts import ClearGlobalParameter, SetGlobalParameter


async def parameters(request: ManagementRequest) -> ManagementReply:
    """Answer all global parameters."""
    found = request.services.accounts.definitions.parameters

    def row(name: str) -> dict[str, object] | None:
        return {"name": name, "value": json.loads(found[name])} if name in found else None

    return await listed(sorted(found), request.query, Listed(itself, itself, row))


async def parameter(request: ManagementRequest) -> ManagementReply:
    """Answer one global parameter."""
    name = request.values["name"]
    value = request.services.accounts.definitions.parameters.get(name)
    if value is None:
        raise not_found()
    row = {"name": name, "value": json.loads(value)}
    return ManagementReply(200, of_object(row, columns_of(request.query)))


async def put(request: ManagementRequest) -> ManagementReply:
    """Set a global parameter: 201 if it is new, else 204."""
    name = request.values["name"]
    (value,) = required(json_object(request.body), "value")
    is_new = name not in request.services.accounts.definitions.parameters
    wanted = SetGlobalParameter(name, json.dumps(value, ensure_ascii=False))
    await request.services.operations.call(request.caller, wanted)
    return ManagementReply(201 if is_new else 204)


async def delete(request: ManagementRequest) -> ManagementReply:
    """Delete a global parameter."""
    try:
        wanted = ClearGlobalParameter(request.values["name"])
        await request.services.operations.call(request.caller, wanted)
    except ApiError as error:
        if error.code is ErrorCode.RESOURCE_NOT_FOUND:
            raise not_found() from None
        raise
    return ManagementReply(204)
