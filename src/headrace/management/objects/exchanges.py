"""Exchanges: lists, one exchange, declaration and deletion."""

from collections.abc import Mapping, Sequence

from headrace.management.lists.columns import columns_of, of_object
from headrace.management.objects.listed_objects import (
    arguments_of,
    exchange_named,
    is_asked,
    listed_objects,
    text_of,
)
from headrace.management.requests.errors import not_found
from headrace.management.requests.request import (
    ManagementReply,
    ManagementRequest,
    boolean,
    json_object,
)
from headrace.management.requests.visible import require_vhost, visible_vhosts
from headrace.operations.queues import DeclareExchange, DeleteExchange
from headrace.operations.views import ExchangeView, ViewExchanges


async def exchanges(request: ManagementRequest) -> ManagementReply:
    """Answer the exchanges of all virtual hosts that the user sees."""
    return await _listed(request, visible_vhosts(request))


async def exchanges_of_vhost(request: ManagementRequest) -> ManagementReply:
    """Answer the exchanges of a virtual host."""
    return await _listed(request, [require_vhost(request)])


async def exchange(request: ManagementRequest) -> ManagementReply:
    """Answer one exchange."""
    row = _row(await existing_exchange(request))
    return ManagementReply(200, of_object(row, columns_of(request.query)))


async def declare(request: ManagementRequest) -> ManagementReply:
    """Declare an exchange: 201 if it is new, 204 if an equal one exists.

    As in RabbitMQ it is not durable unless the body says so; its type is `direct` by default.
    """
    vhost, document = require_vhost(request), json_object(request.body)
    asked = DeclareExchange(
        vhost,
        exchange_named(request.values["name"]),
        text_of(document, "type", "direct"),
        durable=boolean(document, "durable", otherwise=False),
        auto_delete=boolean(document, "auto_delete", otherwise=False),
        internal=boolean(document, "internal", otherwise=False),
        arguments=arguments_of(document),
    )
    declared = await request.services.operations.call(request.caller, asked)
    return ManagementReply(201 if declared.created else 204)


async def delete(request: ManagementRequest) -> ManagementReply:
    """Delete an exchange, with the condition `if-unused`."""
    found = await existing_exchange(request)
    is_conditional = is_asked(request.query, "if-unused")
    asked = DeleteExchange(found.vhost, found.name, if_unused=is_conditional)
    await request.services.operations.call(request.caller, asked)
    return ManagementReply(204)


async def existing_exchange(request: ManagementRequest) -> ExchangeView:
    """Return the exchange of the path. ManagementError 404 without one."""
    vhost = require_vhost(request)
    view = await request.services.operations.call(request.caller, ViewExchanges())
    found = view.describe((vhost, exchange_named(request.values["name"])))
    if found is None:
        raise not_found()
    return found


async def _listed(request: ManagementRequest, vhosts: Sequence[str]) -> ManagementReply:
    view = await request.services.operations.call(request.caller, ViewExchanges())
    return await listed_objects(request, view, await view.keys(vhosts), _row)


def _row(found: ExchangeView) -> Mapping[str, object]:
    row = found._asdict()
    if found.policy is None:
        del row["policy"]  # as in RabbitMQ
    return row
