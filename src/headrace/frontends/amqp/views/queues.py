"""The view of queues: declarations, members and counts, as far as this broker has them."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from headrace.frontends.amqp.client import Client
from headrace.frontends.amqp.listing import plain
from headrace.frontends.amqp.views.names import existing, named
from headrace.operations.views import (
    NONE_APPLIED,
    AppliedView,
    Named,
    OwnerView,
    QueueCounts,
    QueueView,
)
from headrace.queue_stores.queue_settings import (
    DELIVERIES_COUNTED_MAX,
    DELIVERY_LIMIT_DEFAULT,
    QueueSettings,
)
from headrace.queues.engine.closed_queue import ClosedQueue

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.frontends.amqp.queue_members import Members, QueueMembers
    from headrace.queues.engine.queue_host import QueueHost
    from headrace.queues.model.declarations import DeclaredQueue, Owner

CRASHED = "crashed"
"""RabbitMQ's state of a queue whose process has failed."""
_NOTHING = QueueCounts(0, 0, 0, 0)


class QueueViews:
    """The queues of a broker. Implements `operations.views.View`."""

    def __init__(self, queues: "QueueBroker", members: "QueueMembers") -> None:
        self._queues = queues
        self._members = members

    async def keys(self, vhosts: Collection[str]) -> list[Named]:
        """Return vhost and name of all queues of these vhosts. Raises ApiError."""
        return await named(self._queues, vhosts, _queues)

    def describe(self, key: Named) -> QueueView | None:
        """Return a queue with its counts; those of a queue that another broker leads are None.

        Raises ApiError if there may be one that is not loaded yet.
        """
        vhost, name = key
        found = existing(self._queues, vhost, _queues, name)
        if found is None:
            return None
        host, queue = found
        members = self._members.of(vhost, queue)
        state, counts = _running(host, queue, members)
        return QueueView(
            vhost=vhost,
            name=name,
            type=queue.settings.queue_type.value,
            durable=queue.durable,
            auto_delete=queue.auto_delete,
            exclusive=queue.owner is not None,
            owner=_owner(queue.owner),
            arguments=plain(queue.arguments),
            delivery_limit=_delivery_limit(queue.settings),
            leader=members.leader,
            members=members.members,
            online=members.online,
            state=state,
            counts=counts,
            applied=_applied(host, queue),
        )


def _queues(host: "QueueHost") -> "Mapping[str, DeclaredQueue]":
    return host.model.queues


def _applied(host: "QueueHost", queue: "DeclaredQueue") -> AppliedView:
    present = host.model.table.present
    if present is None:
        return NONE_APPLIED
    applied = present.of_queue(queue)
    policy, operator_policy = (each and each.name for each in applied)
    return AppliedView(policy, operator_policy, applied.definition)


def _running(
    host: "QueueHost", queue: "DeclaredQueue", members: "Members"
) -> tuple[str, QueueCounts | None]:
    """Return a queue's state and counts."""
    hosted = host.queues.get(queue.name)
    if hosted is None:
        is_unused = queue.durable and members.topic is None
        return members.state, _NOTHING if is_unused else None
    if isinstance(hosted, ClosedQueue):
        return (members.state, None) if hosted.led_elsewhere else (CRASHED, _NOTHING)
    counts = QueueCounts(hosted.ready, hosted.ready_bytes, hosted.unacked, len(hosted.consumers))
    return members.state, counts


def _owner(owner: "Owner | None") -> OwnerView | None:
    if not isinstance(owner, Client):
        return None
    return OwnerView(owner.name, owner.peer.host, owner.peer.port)


def _delivery_limit(settings: QueueSettings) -> int | None:
    limit = settings.delivery_limit
    if limit is None:
        return DELIVERY_LIMIT_DEFAULT
    return None if limit >= DELIVERIES_COUNTED_MAX else limit
