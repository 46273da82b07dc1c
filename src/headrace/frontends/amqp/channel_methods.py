"""What the methods of a channel do. Those of each class are in a file of their own."""

from collections.abc import Callable
from typing import Any

from headrace.frontends.amqp import (
    basic_consume,
    basic_publish,
    basic_settle,
    exchange_methods,
    queue_methods,
    transactions,
)
from headrace.frontends.amqp.channel import QueueChannel
from headrace.wire.amqp.hot import PublishRun, Settlement
from headrace.wire.amqp.methods import Method

_HANDLERS: dict[type, Callable[[QueueChannel, Any], None]] = {
    **exchange_methods.HANDLERS,
    **queue_methods.HANDLERS,
    **basic_consume.HANDLERS,
    **basic_settle.HANDLERS,
    **transactions.HANDLERS,
}

METHODS = frozenset(_HANDLERS)
"""What a channel does by `PlayedChannel.method`."""


class PlayedChannel(QueueChannel):
    """One channel. `ports.Channel`."""

    def method(self, method: Method) -> None:
        """Do what a method says, and answer it. ChannelClosing, ConnectionClosing."""
        _HANDLERS[type(method)](self, method)

    def publish(self, run: PublishRun) -> None:
        """Take messages, in their order. ChannelClosing, ConnectionClosing."""
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
        consumers = list(self.consumers.values())
        self.consumers.clear()
        basic_consume.forget_replies(self)
        # What it holds is put back before its last consumer takes an auto-delete queue along.
        for consumer in consumers:
            consumer.hosted.cancel(consumer, self.client.now())
        self.unacked.close()
        self.wake()
        for consumer in consumers:
            self.host.cancel(consumer.hosted, consumer)
        self.client.forget(self)
