"""Bindings: lists, one binding by its properties key, creation and deletion.

The properties key names a binding among those between two ends: its quoted routing key, `~` for an
empty one, and `~` with a hash of its arguments, if it has any.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote_plus

from headrace.management.lists.columns import columns_of, of_object
from headrace.management.objects.exchanges import existing_exchange
from headrace.management.objects.listed_objects import (
    arguments_of,
    exchange_named,
    listed_objects,
    text_of,
)
from headrace.management.objects.queues import existing_queue
from headrace.management.requests.errors import not_found
from headrace.management.requests.request import ManagementReply, ManagementRequest, json_object
from headrace.management.requests.visible import require_vhost, visible_vhosts
from headrace.operations.queues import CreateBinding, DeleteBinding
from headrace.operations.views import (
    BindingKey,
    BindingsView,
    BindingView,
    ViewBindings,
    arguments_hash,
)

_QUEUE, _EXCHANGE = "queue", "exchange"
_ORDER = itemgetter(slice(6))
"""The key of a binding without its arguments, which have no order."""


async def bindings(request: ManagementRequest) -> ManagementReply:
    """Answer the bindings of all virtual hosts that the user sees."""
    view = await request.services.operations.call(request.caller, ViewBindings())
    return await _listed(request, view, await view.keys(visible_vhosts(request)))


async def bindings_of_vhost(request: ManagementRequest) -> ManagementReply:
    """Answer the bindings of a virtual host."""
    vhost = require_vhost(request)
    view = await request.services.operations.call(request.caller, ViewBindings())
    return await _listed(request, view, await view.keys([vhost]))


async def of_queue(request: ManagementRequest) -> ManagementReply:
    """Answer the bindings to a queue."""
    found = await existing_queue(request)
    return await _listed_of(request, found.vhost, destination=(_QUEUE, found.name))


async def from_exchange(request: ManagementRequest) -> ManagementReply:
    """Answer the bindings from an exchange."""
    found = await existing_exchange(request)
    return await _listed_of(request, found.vhost, source=found.name)


async def to_exchange(request: ManagementRequest) -> ManagementReply:
    """Answer the bindings to an exchange."""
    found = await existing_exchange(request)
    return await _listed_of(request, found.vhost, destination=(_EXCHANGE, found.name))


class _Ends(NamedTuple):
    """The ends of bindings that a path names."""

    vhost: str
    source: str
    kind: str
    destination: str


def _ends(kind: str, request: ManagementRequest) -> _Ends:
    """Return the ends in the path. Raises ManagementError for an unseen virtual host."""
    source, destination = map(exchange_named, (request.values["source"], request.values["name"]))
    if kind == _QUEUE:
        destination = request.values["name"]
    return _Ends(require_vhost(request), source, kind, destination)


async def _between(kind: str, request: ManagementRequest) -> ManagementReply:
    vhost, source, _, destination = _ends(kind, request)
    return await _listed_of(request, vhost, source=source, destination=(kind, destination))


async def _create(kind: str, request: ManagementRequest) -> ManagementReply:
    """Create a binding; the answer is 201, also if it exists, and names its properties key."""
    vhost, source, _, destination = _ends(kind, request)
    document = json_object(request.body)
    arguments = arguments_of(document)
    routing_key = text_of(document, "routing_key", "")
    asked = CreateBinding(vhost, source, kind, destination, routing_key, arguments)
    await request.services.operations.call(request.caller, asked)
    key = properties_key(routing_key, arguments_hash(arguments))
    location = f"{quote(destination, safe='')}/{quote(key, safe='')}"
    return ManagementReply(201, headers=(("Location", location),))


async def _one(kind: str, request: ManagementRequest) -> ManagementReply:
    found = await _named(request, _ends(kind, request))
    return ManagementReply(200, of_object(_row(found), columns_of(request.query)))


async def _delete(kind: str, request: ManagementRequest) -> ManagementReply:
    vhost, source, _, destination = ends = _ends(kind, request)
    found = await _named(request, ends)
    asked = DeleteBinding(vhost, source, kind, destination, found.key.routing_key, found.arguments)
    await request.services.operations.call(request.caller, asked)
    return ManagementReply(204)


between_exchange_and_queue = partial(_between, _QUEUE)
between_exchanges = partial(_between, _EXCHANGE)
create_to_queue, create_to_exchange = partial(_create, _QUEUE), partial(_create, _EXCHANGE)
one_to_queue, one_to_exchange = partial(_one, _QUEUE), partial(_one, _EXCHANGE)
delete_to_queue, delete_to_exchange = partial(_delete, _QUEUE), partial(_delete, _EXCHANGE)


def properties_key(routing_key: str, hashed: str) -> str:
    """Return the key that names a binding among those of equal ends."""
    quoted = quote_plus(routing_key).replace("~", "%7E")
    if hashed:
        return f"{quoted}~{hashed}"
    return quoted or "~"


async def _named(request: ManagementRequest, ends: _Ends) -> BindingView:
    """Return the binding that the path names. ManagementError 404 without one."""
    quoted, _, hashed = request.values["properties"].partition("~")
    wanted = unquote_plus(quoted), hashed
    view = await request.services.operations.call(request.caller, ViewBindings())
    destination = (ends.kind, ends.destination)
    for key in await view.keys_of(ends.vhost, source=ends.source, destination=destination):
        if (key.routing_key, key.arguments_hash) == wanted:
            found = view.describe(key)
            if found is not None:
                return found
    raise not_found()


async def _listed_of(
    request: ManagementRequest,
    vhost: str,
    *,
    source: str | None = None,
    destination: tuple[str, str] | None = None,
) -> ManagementReply:
    view = await request.services.operations.call(request.caller, ViewBindings())
    keys = await view.keys_of(vhost, source=source, destination=destination)
    return await _listed(request, view, keys)


async def _listed(
    request: ManagementRequest, view: BindingsView, keys: Sequence[BindingKey]
) -> ManagementReply:
    return await listed_objects(request, view, keys, _row, order=_ORDER)


def _row(found: BindingView) -> Mapping[str, object]:
    key = found.key
    return {
        "arguments": found.arguments,
        "destination": key.destination,
        "destination_type": key.destination_type,
        "properties_key": properties_key(key.routing_key, key.arguments_hash),
        "routing_key": key.routing_key,
        "source": key.source,
        "vhost": key.vhost,
    }
