"""Methods of the class exchange: declare, delete, bind, unbind."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.frontends.amqp.replies import reply_to
from headrace.model.errors import HeadraceError
from headrace.queues.model.declarations import ExchangeFlags
from headrace.queues.model.exchange_topic import stored_in
from headrace.queues.model.exchanges import Binding, Destination
from headrace.queues.refusals import EXCHANGE, KAFKA_TOPIC, precondition_failed
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.model_methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
)
from headrace.wire.amqp.reply_codes import AmqpError

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel.channel import QueueChannel


def declare(channel: "QueueChannel", method: ExchangeDeclare) -> None:
    """Declare an exchange, or check that it exists (passive)."""
    model = channel.host.model
    if method.passive:
        model.check_exchange(method.exchange)
    else:
        flags = ExchangeFlags(method.durable, method.auto_delete, method.internal)
        created = model.declare_exchange(
            method.exchange, method.type, flags, method.arguments, channel.client.access
        )
        stored = stored_in(method.arguments)
        if stored is not None:
            _make_topic(channel, method, stored.topic, created=created)
    channel.answer(ExchangeDeclareOk(), nowait=method.nowait)


def _make_topic(
    channel: "QueueChannel", method: ExchangeDeclare, topic: str, *, created: bool
) -> None:
    """Create the Kafka topic that an exchange stores in; the declaration is answered afterwards."""
    model = channel.host.model
    release = channel.outlet.hold()

    def made(error: HeadraceError | None) -> None:
        if error is None:
            release(b"")
            return
        if created:
            model.delete_exchange(method.exchange)
        channel.outlet.fail(no_topic(topic, error), IDS[ExchangeDeclare])

    model.kept.topics.make(topic, made)


def no_topic(topic: str, error: HeadraceError) -> AmqpError:
    """Return the error of an exchange's declaration whose Kafka topic could not be created."""
    return reply_to(precondition_failed(f"{KAFKA_TOPIC} '{topic}' could not be made: {error}"))


def delete(channel: "QueueChannel", method: ExchangeDelete) -> None:
    """Delete an exchange; raise Refused if it is in use and `if_unused` is set."""
    channel.host.model.delete_exchange(
        method.exchange, if_unused=method.if_unused, access=channel.client.access
    )
    channel.answer(ExchangeDeleteOk(), nowait=method.nowait)


def bind(channel: "QueueChannel", method: ExchangeBind) -> None:
    """Bind an exchange to another exchange."""
    channel.host.model.bind(_binding(method), channel.client.owner, channel.client.access)
    channel.answer(ExchangeBindOk(), nowait=method.nowait)


def unbind(channel: "QueueChannel", method: ExchangeUnbind) -> None:
    """Remove a binding between two exchanges."""
    channel.host.model.unbind(_binding(method), channel.client.owner, channel.client.access)
    channel.answer(ExchangeUnbindOk(), nowait=method.nowait)


def _binding(method: ExchangeBind | ExchangeUnbind) -> Binding:
    destination = Destination(EXCHANGE, method.destination)
    return Binding(method.source, destination, method.routing_key, method.arguments)


HANDLERS: dict[type, Callable[["QueueChannel", Any], None]] = {
    ExchangeDeclare: declare,
    ExchangeDelete: delete,
    ExchangeBind: bind,
    ExchangeUnbind: unbind,
}
