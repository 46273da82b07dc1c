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
    from headrace.queues.port import QueueInfo


def declare(channel: "QueueChannel", method: QueueDeclare) -> None:
    """Declare a queue, or check that it exists (passive); an empty name then stands for it."""
    client = channel.client
    if method.queue.startswith(direct_replies.QUEUE_NAME):
        _declare_replies(channel, method)
        return
    if method.passive:
        name = channel.host.model.check_queue(method.queue, client.owner).name
        answer_declared(channel, name, nowait=method.nowait)
        return
    queue = channel.host.declare_queue(
        method.queue,
        QueueFlags(method.durable, method.exclusive, method.auto_delete),
        method.arguments,
        client.owner,
        client.access,
    )
    answer_declared(channel, queue.name, nowait=method.nowait)


def answer_declared(
    channel: "QueueChannel", name: str, info: "QueueInfo | None" = None, *, nowait: bool
) -> None:
    """Answer queue.declare with the counts of a declared queue, those of `info` if they are known.

    Raises Refused if no broker can serve the queue. The answer opens no queue elsewhere that was
    never used.
    """
    host = channel.host
    if info is None and name not in host.queues and host.targets.known_counts is not None:
        info = host.targets.known_counts(name)
    queue = None if info is not None else host.queue(name, channel.client.owner, passive=True)
    channel.last_queue = name
    if nowait:
        return
    answered = channel.answer_later()

    def counted(found: "QueueInfo") -> None:
        answered(QueueDeclareOk(name, found.ready, found.consumers))

    if queue is not None:
        queue.ask_info(counted)
    elif info is not None:
        counted(info)


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
