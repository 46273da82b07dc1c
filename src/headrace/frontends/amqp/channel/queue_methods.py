"""Methods of the class queue: declare, bind, unbind, purge, delete."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.frontends.amqp.channel import direct_replies
from headrace.frontends.amqp.replies import reply_to
from headrace.queues.model.declarations import QueueFlags
from headrace.queues.model.exchanges import Binding, Destination
from headrace.queues.refusals import QUEUE, Refused, not_found, resource_text
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.model_methods import (
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel.channel import QueueChannel


def declare(channel: "QueueChannel", method: QueueDeclare) -> None:
    """Declare a queue, or check that it exists (passive); an empty name then stands for it."""
    client = channel.client
    if method.queue.startswith(direct_replies.QUEUE_NAME):
        _declare_replies(channel, method)
        return
    if method.passive:
        queue = channel.host.queue(method.queue, client.owner, passive=True)
    else:
        queue = channel.host.declare_queue(
            method.queue,
            QueueFlags(method.durable, method.exclusive, method.auto_delete),
            method.arguments,
            client.owner,
            client.access,
        )
    channel.last_queue = queue.name
    if not method.nowait:
        answered = channel.answer_later()
        queue.ask_info(
            lambda info: answered(QueueDeclareOk(queue.name, info.ready, info.consumers))
        )


def _declare_replies(channel: "QueueChannel", method: QueueDeclare) -> None:
    """Answer the declaration of a direct reply-to name like a queue's; Refused if unknown."""
    name, replies = method.queue, channel.client.replies
    missing = not_found(QUEUE, resource_text(QUEUE, name, channel.host.name))
    elsewhere = replies.of_other_broker(name)
    if elsewhere is None:
        if name != direct_replies.QUEUE_NAME and replies.channel_of(name) is None:
            raise missing
        channel.last_queue = name
        channel.answer(QueueDeclareOk(name, 0, 1), nowait=method.nowait)
        return
    answered = channel.answer_later(nowait=method.nowait)

    def found(there: bool) -> None:
        if there:
            channel.last_queue = name
            answered(QueueDeclareOk(name, 0, 1))
        else:
            channel.outlet.fail(reply_to(missing), IDS[QueueDeclare])

    elsewhere.send(direct_replies.question(name), found, asks=True)


def bind(channel: "QueueChannel", method: QueueBind) -> None:
    """Handle queue.bind: bind a queue to an exchange, and answer queue.bind-ok."""
    client = channel.client
    channel.host.model.bind(binding_of(channel, method), client.owner, client.access)
    channel.answer(QueueBindOk(), nowait=method.nowait)


def unbind(channel: "QueueChannel", method: QueueUnbind) -> None:
    """Remove a binding of a queue to an exchange."""
    client = channel.client
    channel.host.model.unbind(binding_of(channel, method), client.owner, client.access)
    channel.answer(QueueUnbindOk())


def binding_of(channel: "QueueChannel", method: QueueBind | QueueUnbind) -> Binding:
    """Return the binding of a method; without name and key, the last queue's name is the key."""
    name = channel.queue_named(method.queue)
    key = method.routing_key
    if not method.queue and not key:
        key = name
    return Binding(method.exchange, Destination(QUEUE, name), key, method.arguments)


def purge(channel: "QueueChannel", method: QueuePurge) -> None:
    """Settle all ready messages of a queue; raise Refused for a stream."""
    queue = channel.readable_queue(method.queue, "queue.purge")
    answered = channel.answer_later(nowait=method.nowait)

    def purged(count: int | Refused) -> None:
        if isinstance(count, Refused):
            channel.outlet.fail(reply_to(count), IDS[QueuePurge])
        else:
            answered(QueuePurgeOk(count))

    try:
        channel.host.purge(queue, purged)
    except Refused:
        answered(None)
        raise


def delete(channel: "QueueChannel", method: QueueDelete) -> None:
    """Delete a queue; raise Refused if `if_unused` or `if_empty` does not hold."""
    count = channel.host.delete_queue(
        channel.queue_named(method.queue),
        channel.client.owner,
        if_unused=method.if_unused,
        if_empty=method.if_empty,
        access=channel.client.access,
    )
    channel.answer(QueueDeleteOk(count), nowait=method.nowait)


HANDLERS: dict[type, Callable[["QueueChannel", Any], None]] = {
    QueueDeclare: declare,
    QueueBind: bind,
    QueueUnbind: unbind,
    QueuePurge: purge,
    QueueDelete: delete,
}
