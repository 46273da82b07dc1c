"""One channel of a client: its consumers, what it holds, and the modes it is in."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from headrace.frontends.amqp.bounds import Bounds
from headrace.frontends.amqp.channel.unacked import ChannelUnacked, Unsent
from headrace.frontends.amqp.channel_consumers import ChannelConsumers, HeldConsumers
from headrace.frontends.amqp.connection.ports import Outlet
from headrace.frontends.amqp.replies import reply_to
from headrace.queues.engine.dead_messages import WEIGHT_AT, as_delivered
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.permissions.access import NEEDED, Access, Permission
from headrace.queues.port import Consumer, Queue
from headrace.queues.refusals import KAFKA_TOPIC, QUEUE, Refused, not_found
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.hot import DeliverEncoder
from headrace.wire.amqp.methods import Method
from headrace.wire.amqp.model_methods import BasicCancel, BasicConsume

if TYPE_CHECKING:
    from headrace.frontends.amqp.channel.confirms import Confirms
    from headrace.frontends.amqp.channel.open_transaction import Transaction
    from headrace.ports.deadlines import Deadline


class Replies(Protocol):
    """Who waits for direct replies. `direct_replies.DirectReplies`."""

    def begin(self, channel: "QueueChannel") -> None:
        """Let a channel be answered."""

    def end(self, channel: "QueueChannel") -> None:
        """Let it be answered no more."""

    def channel_of(self, name: str) -> "QueueChannel | None":
        """Return who is answered by a name."""

    def deliver(self, message: Message) -> bool:
        """Send a reply to who waits for it; False: nobody does."""


class Connected(Protocol):
    """The connection of a channel. `client.Client`."""

    host: QueueHost
    access: Access
    user: str
    replies: Replies
    now: Callable[[], float]
    random_bytes: Callable[[], bytes]
    publishing: Callable[["QueueChannel"], None]
    holding: Callable[["QueueChannel"], None]
    wants_cancels: bool
    bounds: Bounds
    held_consumers: HeldConsumers
    """Counts the consumers of all clients."""

    @property
    def impersonates(self) -> bool:
        """Whether its user may publish in others' names (`user-id`)."""

    def __hash__(self) -> int:
        """Tell it from others: it owns exclusive queues."""

    def pause(self) -> None:
        """Deliver nothing more to any channel."""

    def note_unfinished(self, size: int) -> None:
        """Note `size` bytes more, or fewer, that are not committed. ConnectionClosing."""

    def forget(self, channel: "QueueChannel") -> None:
        """Forget a channel that is closed."""


class ChannelConsumer(Consumer):
    """A consumer with the channel that it is on."""

    __slots__ = ("encode", "on")

    def __init__(
        self,
        on: "QueueChannel",
        queue: Queue,
        tag: str,
        **settings: Any,  # noqa: ANN401 - those of `Consumer`
    ) -> None:
        super().__init__(queue, on.unacked, tag, **settings)
        self.on = on
        outlet = on.outlet
        self.encode = DeliverEncoder(outlet.number, tag, outlet.frame_bytes_max).encode
        if queue.settings.topic is not None:
            self.encode = partial(self._encode_allowed, self.encode)

    def check_topic(self, access: Access) -> None:
        """Check that the topic that a stream reads may be read, still. Refused."""
        read = self.queue.settings.topic
        if read is not None:
            access.check(Permission.READ, KAFKA_TOPIC, read.topic)

    def _encode_allowed(
        self, encode: Callable[[int, bool, Message], bytes], tag: int, again: bool, message: Message
    ) -> bytes:
        """Ask with each delivery, as each fetch is asked of; close the channel who may not read."""
        try:
            self.check_topic(self.on.client.access)
        except Refused as refused:
            self.on.outlet.fail(reply_to(refused), IDS[BasicConsume])
            return b""
        return encode(tag, again, message)


class QueueChannel:
    """One channel. `channel_methods` has what its methods do."""

    def __init__(self, outlet: Outlet, client: "Connected") -> None:
        self.outlet = outlet
        self.client = client
        self.host = client.host
        self.unacked = ChannelUnacked(
            outlet.number, client.bounds.channel_unacked_max, self._deliver, self._cancelled
        )
        self.look_at_acks: Deadline | None = None
        """When `consumer_timeouts` looks at it; None: it was given nothing so far."""
        self.consumers: ChannelConsumers[ChannelConsumer] = ChannelConsumers(client.held_consumers)
        self.last_queue = ""
        """The name of the queue declared last: what an empty name means."""
        self.prefetch = 0
        """Of each consumer to come (basic.qos without global); 0: any number."""
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.reply_tag: str | None = None
        """The tag of its consumer of direct replies; None: it has none."""
        self.reply_token = ""

    def queue_named(self, name: str) -> str:
        """Return the queue that a name means: the one declared last where it is empty."""
        if name:
            return name
        if not self.last_queue:
            raise not_found(QUEUE, "previously declared queue")
        return self.last_queue

    def readable_queue(self, name: str, method_name: str) -> Queue:
        """Return a queue whose messages are to be taken. Refused."""
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

    # What queues tell

    def _deliver(self, unsent: list[Unsent]) -> None:
        """Send deliveries to the client, in one write."""
        frames: list[bytes] = []
        for consumer, tag, (_, messages, _, redelivered, returns) in unsent:
            encode = cast("ChannelConsumer", consumer).encode
            for at, message in enumerate(messages):
                count = 0 if returns is None else returns[at]
                if count or message.header[WEIGHT_AT]:
                    message = as_delivered(message, count)
                frames.append(encode(tag + at, redelivered, message))
        if self.unacked.closed:
            return  # one of its consumers may not read any more
        outlet = self.outlet
        outlet.write(b"".join(frames))
        self.client.holding(self)
        if not outlet.takes_more():
            self.client.pause()

    def _cancelled(self, consumer: Consumer) -> None:
        """Tell the client that a consumer's queue was deleted, if it understands that."""
        if self.consumers.take(consumer.tag) is not None and self.client.wants_cancels:
            self.answer(BasicCancel(consumer.tag, True))
