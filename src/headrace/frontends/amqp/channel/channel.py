"""A client's channel: its consumers, unacknowledged deliveries, confirms and transaction."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

from headrace.frontends.amqp.bounds import Bounds
from headrace.frontends.amqp.channel import (
    basic_consume,
    basic_publish,
    basic_settle,
    cluster_methods,
    exchange_methods,
    queue_methods,
    transactions,
)
from headrace.frontends.amqp.channel.channel_traffic import ChannelCounts
from headrace.frontends.amqp.channel.unacked import ChannelUnacked, Unsent
from headrace.frontends.amqp.channel_consumers import ChannelConsumers, HeldConsumers
from headrace.frontends.amqp.connection.ports import Outlet
from headrace.frontends.amqp.replies import reply_to
from headrace.model.errors import HeadraceError
from headrace.queues.engine.dead_messages import WEIGHT_AT, as_delivered
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.model.declarations import Owner
from headrace.queues.permissions.access import NEEDED, Access
from headrace.queues.port import Consumer, Queue
from headrace.queues.refusals import QUEUE, Refused, not_found
from headrace.security.identity import Identity
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.methods import Method, encode_method
from headrace.wire.amqp.model_methods import (
    BasicCancel,
    BasicConsume,
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

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel.direct_replies import DirectReplies
    from headrace.frontends.amqp.channel.open_transaction import Transaction
    from headrace.ports.deadlines import Deadline
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations


_HANDLERS: dict[type, Callable[["QueueChannel", Any], None]] = {
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
"""Methods that may change durable declarations; answered once the change is stored."""

METHODS = frozenset(_HANDLERS)
"""The methods that `QueueChannel.method` handles."""


class Connected(Protocol):
    """The connection of a channel. Implemented by `client.Client`."""

    host: QueueHost
    access: Access
    user: str
    replies: "DirectReplies"
    now: Callable[[], float]
    random_bytes: Callable[[], bytes]
    publishing: Callable[["QueueChannel"], None]
    holding: Callable[["QueueChannel"], None]
    wants_cancels: bool
    bounds: Bounds
    owner: Owner
    """The owner of the connection's exclusive queues."""
    declarations: "ClusterDeclarations | None"
    """The declarations of the cluster; None: the broker has its own."""
    identity: Identity | None
    """Whose permissions its commands need; None: an administrator's."""
    commands: int
    """Number of its commands that are not answered."""
    held_consumers: HeldConsumers
    """Counter of the consumers of all clients."""

    @property
    def impersonates(self) -> bool:
        """Whether the user may publish with another user's name in the `user-id` property."""

    def __hash__(self) -> int:
        """Hash by identity: the connection owns exclusive queues."""

    def commands_answered(self) -> None:
        """Delete the exclusive queues of a connection that was closed in the meantime."""

    def pause(self) -> None:
        """Deliver nothing more to any channel of the connection, until there is room."""

    def note_unfinished(self, size: int) -> None:
        """Count `size` more bytes of uncommitted publishes (negative: fewer).

        Raises ConnectionClosing over the limit.
        """

    def forget(self, channel: "QueueChannel") -> None:
        """Forget a closed AMQP channel."""


class QueueChannel:
    """A channel, `ports.Channel`; each class of its methods has a file of its own."""

    def __init__(self, outlet: Outlet, client: "Connected") -> None:
        self.outlet = outlet
        self.client = client
        self.host = client.host
        self.unacked = ChannelUnacked(
            outlet.number, client.bounds.channel_unacked_max, self._deliver, self._cancelled
        )
        self.traffic = self.unacked.traffic
        self.look_at_acks: Deadline | None = None
        """Timer at which `consumer_timeouts` checks the channel; None: no delivery so far."""
        self.consumers: ChannelConsumers[basic_consume.ChannelConsumer] = ChannelConsumers(
            client.held_consumers
        )
        self.last_queue = ""
        """Name of the queue that the channel declared last, which an empty name stands for."""
        self.prefetch = 0
        """Prefetch limit of each new consumer (basic.qos without global); 0: no limit."""
        self.confirms: basic_publish.Confirms | None = None
        self.transaction: Transaction | None = None
        self.reply_tag: str | None = None
        """Tag of the channel's consumer of direct replies; None: it has none."""
        self.reply_token = ""

    def counts(self) -> ChannelCounts:
        """Return the counters of the channel as they are now."""
        return self.traffic.counts(0 if self.confirms is None else self.confirms.confirmed)

    def queue_named(self, name: str) -> str:
        """Return a queue name, for an empty one that of the last declaration; raise Refused."""
        if name:
            return name
        if not self.last_queue:
            raise not_found(QUEUE, "previously declared queue")
        return self.last_queue

    def readable_queue(self, name: str, method_name: str) -> Queue:
        """Return a queue that the client may read from, or raise Refused."""
        name = self.queue_named(name)
        self.client.access.check(NEEDED[method_name][0], QUEUE, name)
        return self.host.queue(name, self.client.owner)

    def answer(self, method: Method, *, nowait: bool = False) -> None:
        """Send the answer of a method, unless the client set `nowait`."""
        if not nowait:
            self.outlet.answer(method)

    def answer_later(self, *, nowait: bool = False) -> Callable[[Method | None], None]:
        """Hold back later output; return the function that releases it behind a method's answer.

        None releases it without an answer, as for a method that is refused.
        """
        release, number = self.outlet.hold(), self.outlet.number

        def answered(method: Method | None) -> None:
            release(b"" if nowait or method is None else encode_method(number, method))

        return answered

    def wake(self) -> None:
        """Let queues deliver to which this channel's acks, requeues or credit gave a reason."""
        unacked = self.unacked
        if unacked.woken:
            self.host.touched(unacked.woken)
            unacked.woken.clear()

    # Calls from the connection: `ports.Channel`

    def method(self, method: Method) -> None:
        """Execute a method and answer it; raise Refused or AmqpError if it is refused."""
        handler = _HANDLERS[type(method)]
        if type(method) not in _DECLARING:
            handler(self, method)
            return
        if self.client.declarations is not None and cluster_methods.is_command(method):
            cluster_methods.ask(self, method, self.client.declarations)
            return
        # Answered once the declarations that it changes are stored.
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
            problem = f"the changed declarations could not be stored: {error}"
            self.outlet.fail(
                ConnectionClosing(ReplyCode.INTERNAL_ERROR, problem), IDS[type(method)]
            )

        self.host.model.kept.when_kept(kept)

    publish = basic_publish.publish
    settle = basic_settle.settle

    def closed(self, done: Callable[[], None] = lambda: None) -> None:
        """Cancel the consumers and requeue unacknowledged deliveries; send nothing more.

        `done` as in `ports.Channel`.
        """
        if self.transaction is not None:
            self.transaction.roll_back(self.unacked)
        if self.look_at_acks is not None:
            self.look_at_acks.end()
        consumers = self.consumers.take_all()
        basic_consume.forget_replies(self)
        # Requeue first: cancelling the last consumer deletes an auto-delete queue.
        for consumer in consumers:
            consumer.queue.cancel(consumer, self.client.now())
        self.unacked.close()
        self.wake()
        for consumer in consumers:
            self.host.cancel(consumer)
        self.client.forget(self)
        cluster_methods.when_closed(self, {consumer.queue: None for consumer in consumers}, done)

    # Events from queues

    def _deliver(self, unsent: list[Unsent]) -> None:
        """Send deliveries in one write; pause all channels if the client reads too slowly."""
        frames: list[bytes] = []
        for consumer, tag, (_, messages, _, redelivered, returns) in unsent:
            encode = cast("basic_consume.ChannelConsumer", consumer).encode
            for at, message in enumerate(messages):
                count = 0 if returns is None else returns[at]
                if count or message.header[WEIGHT_AT]:
                    message = as_delivered(message, count)
                frames.append(encode(tag + at, redelivered, message))
        if self.unacked.closed:
            return  # a consumer lost its read permission, which closed the channel
        outlet = self.outlet
        outlet.write(b"".join(frames))
        self.client.holding(self)
        if not outlet.takes_more():
            self.client.pause()

    def _cancelled(self, consumer: Consumer, refused: Refused | None) -> None:
        """Send basic.cancel for a deleted queue's consumer to a client that supports it.

        With `refused` the queue was closed by an error, and so is the connection.
        """
        if refused is not None:
            self.outlet.fail(reply_to(refused), IDS[BasicConsume])
            return
        if self.consumers.take(consumer.tag) is not None and self.client.wants_cancels:
            self.answer(BasicCancel(consumer.tag, True))
