"""One channel of a client: what its methods do to the virtual host, and what it is sent.

The methods of each class are in a file of their own; each function takes the channel and a method.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.coordination.queues.hosted_queue import HostedQueue
from headrace.coordination.queues.permissions import NEEDED
from headrace.coordination.queues.refusals import QUEUE, not_found
from headrace.coordination.queues.unacked import ChannelUnacked
from headrace.frontends.amqp import (
    basic_consume,
    basic_publish,
    basic_settle,
    exchange_methods,
    queue_methods,
    transactions,
)
from headrace.frontends.amqp.ports import Outlet
from headrace.wire.amqp.hot import PublishRun, Settlement
from headrace.wire.amqp.methods import Method

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel_consumer import ChannelConsumer
    from headrace.frontends.amqp.client import Client
    from headrace.frontends.amqp.confirms import Confirms
    from headrace.frontends.amqp.transactions import Transaction

_HANDLERS: dict[type, Callable[["QueueChannel", Any], None]] = {
    **exchange_methods.HANDLERS,
    **queue_methods.HANDLERS,
    **basic_consume.HANDLERS,
    **basic_settle.HANDLERS,
    **transactions.HANDLERS,
}


class QueueChannel:
    """One channel. `ports.Channel`."""

    def __init__(self, outlet: Outlet, client: "Client") -> None:
        self.outlet = outlet
        self.client = client
        self.host = client.host
        self.unacked = ChannelUnacked(outlet.number)
        self.consumers: dict[str, ChannelConsumer] = {}
        self.last_queue = ""
        """The name of the queue declared last: what an empty name means."""
        self.prefetch = 0
        """Of each consumer to come (basic.qos without global); 0: any number."""
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.reply_tag: str | None = None
        """The tag of its consumer of direct replies; None: it has none."""
        self.reply_token = ""

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
            self.transaction.roll_back(self)
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

    def queue_named(self, name: str) -> str:
        """Return the queue that a name means: the one declared last where it is empty."""
        if name:
            return name
        if not self.last_queue:
            raise not_found("previously declared queue")
        return self.last_queue

    def readable_queue(self, name: str, method_name: str) -> HostedQueue:
        """Return a queue whose messages are to be taken. ChannelClosing."""
        name = self.queue_named(name)
        self.client.access.check(NEEDED[method_name][0], QUEUE, name)
        return self.host.queue(name, self.client)

    def answer(self, method: Method, *, nowait: bool = False) -> None:
        """Answer a method, unless its client waits for no answer."""
        if not nowait:
            self.outlet.answer(method)

    def wake(self) -> None:
        """Let those queues hand out that can because of what this channel did."""
        unacked = self.unacked
        if unacked.woken:
            self.host.touched(unacked.woken)
            unacked.woken.clear()
