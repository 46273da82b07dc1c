"""What the methods of a channel do. Those of each class are in a file of their own."""

from collections.abc import Callable
from typing import Any

from headrace.frontends.amqp.channel import (
    basic_consume,
    basic_publish,
    basic_settle,
    exchange_methods,
    queue_methods,
    transactions,
)
from headrace.frontends.amqp.channel.channel import QueueChannel
from headrace.model.errors import HeadraceError
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.hot import PublishRun, Settlement
from headrace.wire.amqp.methods import Method
from headrace.wire.amqp.model_methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from headrace.wire.amqp.reply_codes import ConnectionClosing, ReplyCode

_HANDLERS: dict[type, Callable[[QueueChannel, Any], None]] = {
    **exchange_methods.HANDLERS,
    **queue_methods.HANDLERS,
    **basic_consume.HANDLERS,
    **basic_settle.HANDLERS,
    **transactions.HANDLERS,
}
_DECLARING = frozenset(
    (
        ExchangeBind,
        ExchangeDeclare,
        ExchangeDelete,
        ExchangeUnbind,
        QueueBind,
        QueueDeclare,
        QueueDelete,
        QueueUnbind,
    )
)
"""What may change declarations that are kept."""

METHODS = frozenset(_HANDLERS)
"""What a channel does by `PlayedChannel.method`."""


class PlayedChannel(QueueChannel):
    """One channel. `ports.Channel`."""

    def method(self, method: Method) -> None:
        """Do what a method says, and answer it. Refused, AmqpError."""
        handler = _HANDLERS[type(method)]
        if type(method) not in _DECLARING:
            handler(self, method)
            return
        # It is answered once what it changes is kept for good.
        release = self.outlet.hold()
        try:
            handler(self, method)
        except HeadraceError:
            release(b"")
            raise
        declared = self.host.queues.get(self.last_queue) if type(method) is QueueDeclare else None
        if declared is not None:
            declared.begin_answer()

        def kept(error: HeadraceError | None) -> None:
            if declared is not None:
                declared.end_answer()
            if error is None:
                release(b"")
                return
            problem = f"what was declared could not be stored: {error}"
            self.outlet.fail(
                ConnectionClosing(ReplyCode.INTERNAL_ERROR, problem), IDS[type(method)]
            )

        self.host.model.kept.when_kept(kept)

    def publish(self, run: PublishRun) -> None:
        """Take messages, in their order. Refused, AmqpError."""
        basic_publish.publish(self, run)

    def settle(self, settlements: list[Settlement]) -> None:
        """Take acks, nacks and rejects, in their order. ChannelClosing."""
        basic_settle.settle(self, settlements)

    def closed(self) -> None:
        """Give back what was delivered and not settled, end the consumers; answer nothing more."""
        if self.transaction is not None:
            self.transaction.roll_back(self.unacked)
        if self.look_at_acks is not None:
            self.look_at_acks.end()
        consumers = self.consumers.take_all()
        basic_consume.forget_replies(self)
        # What it holds is put back before its last consumer takes an auto-delete queue along.
        for consumer in consumers:
            consumer.queue.cancel(consumer, self.client.now())
        self.unacked.close()
        self.wake()
        for consumer in consumers:
            self.host.cancel(consumer)
        self.client.forget(self)
