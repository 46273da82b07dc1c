"""Virtual hosts: lists, one virtual host, its creation, protection and deletion."""

from collections.abc import Mapping
from typing import Any

from headrace.management.lists.columns import columns_of, of_object
from headrace.management.lists.listing import Listed, listed
from headrace.management.objects.listed_objects import itself, tags_of, text_of
from headrace.management.objects.overview import node_name, node_number
from headrace.management.objects.permissions import permissions_in, topic_permissions_in
from headrace.management.requests.errors import bad_request, not_found, protected
from headrace.management.requests.request import (
    ManagementReply,
    ManagementRequest,
    boolean,
    json_object,
)
from headrace.management.requests.visible import visible_vhosts
from headrace.model.errors import ApiError, ErrorCode
from headrace.operations.tags import Tag, suffices
from headrace.operations.virtual_hosts import AlterVhost, CreateVhost, DeleteVhost
from headrace.queue_stores.queue_settings import QueueType
from headrace.queues.permissions.definitions import VhostDefinition

_TYPES = frozenset(each.value for each in QueueType)
_UNNAMED_TYPES = (None, "", "undefined")


async def vhosts(request: ManagementRequest) -> ManagementReply:
    """Answer the virtual hosts that the user may open; all to users who monitor.

    As in RabbitMQ a query for columns is ignored.
    """
    found = request.services.accounts.definitions.vhosts
    sees_all = suffices(request.caller.tags(), Tag.MONITORING)
    names = sorted(found) if sees_all else visible_vhosts(request)
    query = {name: value for name, value in request.query.items() if name != "columns"}

    def row(name: str) -> Mapping[str, object] | None:
        return _row(request, name, found[name]) if name in found else None

    return await listed(names, query, Listed(itself, itself, row))


async def vhost(request: ManagementRequest) -> ManagementReply:
    """Answer one virtual host."""
    name, found = existing_vhost(request)
    return ManagementReply(200, of_object(_row(request, name, found), columns_of(request.query)))


async def put(request: ManagementRequest) -> ManagementReply:
    """Create a virtual host in which the caller may do everything (201), or replace it (204).

    What the body leaves out gets its default, but for tracing and protection, which stay.
    """
    name, document = request.values["vhost"], json_object(request.body)
    fields: dict[str, Any] = {
        "description": text_of(document, "description", ""),
        "tags": tags_of(document.get("tags", "")),
        "default_queue_type": _queue_type(document.get("default_queue_type")),
    }
    for key, field in (("tracing", "tracing"), ("protected_from_deletion", "protected")):
        if key in document:
            fields[field] = boolean(document, key, otherwise=False)
    call = request.services.operations.call
    if name not in request.services.accounts.definitions.vhosts:
        try:
            await call(request.caller, CreateVhost(name, owner=request.user.name, **fields))
        except ApiError as error:
            if error.code is not ErrorCode.DUPLICATE_RESOURCE:
                raise
        else:
            return ManagementReply(201)
    await call(request.caller, AlterVhost(name, **fields))
    return ManagementReply(204)


async def delete(request: ManagementRequest) -> ManagementReply:
    """Delete a virtual host with its objects; 412 if it is protected."""
    name, found = existing_vhost(request)
    if found.protected:
        raise protected(name)
    try:
        await request.services.operations.call(request.caller, DeleteVhost(name))
    except ApiError as error:
        if error.code is ErrorCode.POLICY_VIOLATION:
            raise protected(name) from None
        if error.code is ErrorCode.RESOURCE_NOT_FOUND:
            raise not_found() from None
        raise
    return ManagementReply(204)


async def protect(request: ManagementRequest) -> ManagementReply:
    """Protect a virtual host from deletion (POST), or end its protection (DELETE)."""
    name, _ = existing_vhost(request)
    wanted = AlterVhost(name, protected=request.method == "POST")
    await request.services.operations.call(request.caller, wanted)
    return ManagementReply(204)


async def start(request: ManagementRequest) -> ManagementReply:
    """Answer that a virtual host runs on a node: it does so on each broker."""
    existing_vhost(request)
    if node_number(request.services.broker, request.values["node"]) is None:
        raise not_found()
    return ManagementReply(204)


async def permissions(request: ManagementRequest) -> ManagementReply:
    """Answer the permissions of all users in a virtual host."""
    name, _ = existing_vhost(request)
    return await permissions_in(request, name)


async def topic_permissions(request: ManagementRequest) -> ManagementReply:
    """Answer the topic permissions of all users in a virtual host."""
    name, _ = existing_vhost(request)
    return await topic_permissions_in(request, name)


def existing_vhost(request: ManagementRequest) -> tuple[str, VhostDefinition]:
    """Return the virtual host of the path. ManagementError 404 without one."""
    name = request.values["vhost"]
    found = request.services.accounts.definitions.vhosts.get(name)
    if found is None:
        raise not_found()
    return name, found


def _queue_type(value: object) -> str:
    """Return a default queue type, empty for none. Raises ManagementError."""
    if value in _UNNAMED_TYPES:
        return ""
    if value not in _TYPES:
        raise bad_request(f"{value} is not a valid queue type")
    return str(value)


def _row(request: ManagementRequest, name: str, found: VhostDefinition) -> dict[str, object]:
    broker = request.services.broker
    metadata: dict[str, object] = {
        "default_queue_type": found.default_queue_type or QueueType.CLASSIC.value,
        "description": found.description,
        "tags": list(found.tags),
    }
    if found.protected:
        metadata["protected_from_deletion"] = True
    return {
        "cluster_state": {node_name(broker, each): "running" for each in broker.image.brokers},
        "default_queue_type": metadata["default_queue_type"],
        "description": found.description,
        "metadata": metadata,
        "name": name,
        "protected_from_deletion": found.protected,
        "tags": metadata["tags"],
        "tracing": found.tracing,
    }
