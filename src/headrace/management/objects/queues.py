"""Queues: lists, one queue, declaration and deletion."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from headrace.management.lists.columns import columns_of, of_object
from headrace.management.objects.listed_objects import arguments_of, is_asked, listed_objects
from headrace.management.objects.overview import node_name, node_number
from headrace.management.requests.errors import bad_request, not_found
from headrace.management.requests.request import (
    ManagementReply,
    ManagementRequest,
    boolean,
    json_object,
    required,
)
from headrace.management.requests.visible import require_vhost, visible_vhosts
from headrace.operations.queues import DeclareQueue, DeleteQueue
from headrace.operations.views import QueueView, ViewQueues

_QUORUM, _CLASSIC = "quorum", "classic"
_Row = dict[str, object]


async def queues(request: ManagementRequest) -> ManagementReply:
    """Answer the queues of all virtual hosts that the user sees."""
    return await _listed(request, visible_vhosts(request))


async def queues_of_vhost(request: ManagementRequest) -> ManagementReply:
    """Answer the queues of a virtual host."""
    return await _listed(request, [require_vhost(request)])


async def queue(request: ManagementRequest) -> ManagementReply:
    """Answer one queue."""
    row = _row_maker(request)(await existing_queue(request))
    return ManagementReply(200, of_object(row, columns_of(request.query)))


async def declare(request: ManagementRequest) -> ManagementReply:
    """Declare a queue: 201 if it is new, 204 if an equal one exists.

    As in RabbitMQ a queue is not durable unless the body says so, and `exclusive` is ignored.
    """
    vhost, document = require_vhost(request), json_object(request.body)
    if "node" in document and node_number(request.services.broker, document["node"]) is None:
        raise bad_request(f"Node {document['node']} is not a cluster member")
    asked = DeclareQueue(
        vhost,
        request.values["name"],
        durable=boolean(document, "durable", otherwise=False),
        auto_delete=boolean(document, "auto_delete", otherwise=False),
        arguments=arguments_of(document),
    )
    declared = await request.services.operations.call(request.caller, asked)
    return ManagementReply(201 if declared.created else 204)


async def delete(request: ManagementRequest) -> ManagementReply:
    """Delete a queue, with the conditions `if-empty` and `if-unused`."""
    found = await existing_queue(request)
    asked = DeleteQueue(
        found.vhost,
        found.name,
        if_unused=is_asked(request.query, "if-unused"),
        if_empty=is_asked(request.query, "if-empty"),
    )
    await request.services.operations.call(request.caller, asked)
    return ManagementReply(204)


async def act(request: ManagementRequest) -> ManagementReply:
    """Refuse an action, as RabbitMQ 4 has none: those of mirrored queues were removed."""
    await existing_queue(request)
    (action,) = required(json_object(request.body), "action")
    raise bad_request(["unknown", str(action)])


async def existing_queue(request: ManagementRequest) -> QueueView:
    """Return the queue of the path. ManagementError 404 without one."""
    vhost = require_vhost(request)
    view = await request.services.operations.call(request.caller, ViewQueues())
    found = view.describe((vhost, request.values["name"]))
    if found is None:
        raise not_found()
    return found


async def _listed(request: ManagementRequest, vhosts: Sequence[str]) -> ManagementReply:
    view = await request.services.operations.call(request.caller, ViewQueues())
    keys = await view.keys(vhosts)
    return await listed_objects(request, view, keys, _row_maker(request))


def _row_maker(request: ManagementRequest) -> Callable[[QueueView], _Row]:
    """Return a function that makes the row of a queue, with the fields that a query asks for.

    `disable_stats` leaves out all counts, but `enable_queue_totals` those of messages.
    """
    names = cache(partial(node_name, request.services.broker))
    has_stats = not is_asked(request.query, "disable_stats")
    has_totals = has_stats or is_asked(request.query, "enable_queue_totals")

    def row(found: QueueView) -> _Row:
        made = _declaration(found, names)
        if has_totals:
            made |= _totals(found)
        if has_stats:
            made |= _statistics(found)
        return made

    return row


def _declaration(found: QueueView, names: Callable[[int], str]) -> _Row:
    row: _Row = {
        "arguments": found.arguments,
        "auto_delete": found.auto_delete,
        "durable": found.durable,
        "effective_policy_definition": found.applied.definition,
        "exclusive": found.exclusive,
        "internal": False,
        "internal_owner": False,
        "name": found.name,
        "operator_policy": found.applied.operator_policy,
        "policy": found.applied.policy,
        "state": found.state,
        "type": found.type,
        "vhost": found.vhost,
    }
    leader = found.leader if found.leader is not None else next(iter(found.members), None)
    if leader is not None:
        row["node"] = names(leader)
    if found.type != _CLASSIC or len(found.members) > 1:
        row["leader"] = None if found.leader is None else names(found.leader)
        row["members"] = [names(each) for each in found.members]
        row["online"] = [names(each) for each in found.online]
    if found.type == _QUORUM:
        row["delivery_limit"] = (
            "unlimited" if found.delivery_limit is None else found.delivery_limit
        )
    if found.owner is not None:
        row["owner_pid_details"] = found.owner._asdict()
    return row


def _totals(found: QueueView) -> _Row:
    counts = found.counts
    if counts is None:
        return {}
    return {
        "messages": counts.ready + counts.unacknowledged,
        "messages_ready": counts.ready,
        "messages_unacknowledged": counts.unacknowledged,
    }


def _statistics(found: QueueView) -> _Row:
    counts = found.counts
    row: dict[str, Any] = {} if counts is None else {"consumers": counts.consumers}
    if counts is not None and found.type != "stream":
        row["message_bytes_ready"] = counts.ready_bytes
    if found.type == _QUORUM:
        row |= {"delayed_retry": "disabled", "messages_delayed": 0}
    return row
