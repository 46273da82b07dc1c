"""One client that has opened a virtual host: its channels, and what they share."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from headrace.frontends.amqp.bounds import Bounds
from headrace.frontends.amqp.channel.channel import METHODS, QueueChannel
from headrace.frontends.amqp.channel.consumer_timeouts import ConsumerTimeouts
from headrace.frontends.amqp.channel.direct_replies import DirectReplies
from headrace.frontends.amqp.channel_consumers import HeldConsumers
from headrace.frontends.amqp.connection import negotiation
from headrace.frontends.amqp.connection.partial_publishes import Unfinished
from headrace.frontends.amqp.connection.ports import Outlet, Peer
from headrace.frontends.amqp.replies import reply_to
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.permissions.access import Access, Permission
from headrace.queues.refusals import QUEUE, Refused
from headrace.security.identity import Principal
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.methods import Method, MethodId
from headrace.wire.amqp.model_methods import BasicConsume
from headrace.wire.amqp.reply_codes import ConnectionClosing

if TYPE_CHECKING:
    from headrace.queues.port import Queue


class Behind(Protocol):
    """The broker behind all clients. `queue_broker.QueueBroker`."""

    now: Callable[[], float]
    random_bytes: Callable[[], bytes]
    bounds: Bounds
    timeouts: ConsumerTimeouts
    unfinished: Unfinished
    held_consumers: HeldConsumers

    @property
    def replies(self) -> DirectReplies:
        """Who waits for direct replies."""

    def publishing(self, channel: QueueChannel) -> None:
        """Have a channel's confirms sent when the pass ends."""

    def forget(self, channel: QueueChannel) -> None:
        """Forget a channel that is closed."""

    def soon(self) -> None:
        """Have done what is due, though no pass ends."""

    def impersonates(self, user: str) -> bool:
        """Tell whether a user may publish in others' names."""

    def check_channels(self, user: str) -> None:
        """Raise ConnectionClosing NOT_ALLOWED where a user may have no more channels."""

    def gone(self, client: "Client") -> None:
        """Count a client no more."""


_NO_METHOD = MethodId(0, 0)


class Client:
    """One connection's use of a virtual host, and owner of its exclusive queues. `VirtualHost`."""

    def __init__(
        self,
        broker: Behind,
        host: QueueHost,
        principal: Principal,
        properties: FieldTable,
        access: Access,
        peer: Peer,
        close: Callable[[str], None],
    ) -> None:
        """`close` ends the connection, CONNECTION_FORCED with a text."""
        self.host = host
        self.access = access
        self.peer = peer
        self.properties = properties
        self.close = close
        self.user = principal.name
        self.replies: DirectReplies = broker.replies
        self.now: Callable[[], float] = broker.now
        self.random_bytes: Callable[[], bytes] = broker.random_bytes
        self.publishing: Callable[[QueueChannel], None] = broker.publishing
        """Has a channel's confirms sent when the pass ends."""
        self.holding: Callable[[QueueChannel], None] = broker.timeouts.watch
        """Has a channel's deliveries looked at when they are too old."""
        self.bounds = broker.bounds
        self.held_consumers = broker.held_consumers
        self.wants_cancels = negotiation.capability(properties, "consumer_cancel_notify")
        """It understands a basic.cancel from us."""
        self._broker = broker
        self._channels: dict[QueueChannel, None] = {}
        self._paused = False

    @property
    def impersonates(self) -> bool:
        """Whether its user may publish in others' names (`user-id`)."""
        return self._broker.impersonates(self.user)

    @property
    def methods(self) -> Collection[type[Method]]:
        """The kinds of methods that its channels do."""
        return METHODS

    def open_channel(self, outlet: Outlet) -> QueueChannel:
        """Return a new channel; ConnectionClosing: the user has as many as he may."""
        self._broker.check_channels(self.user)
        channel = QueueChannel(outlet, self)
        channel.unacked.paused = self._paused
        self._channels[channel] = None
        return channel

    def pause(self) -> None:
        """Deliver nothing more to any channel: the client leaves too much unread."""
        if not self._paused:
            self._paused = True
            for channel in self._channels:
                channel.unacked.pause()

    def room(self) -> None:
        """Deliver again."""
        if self._paused:
            self._paused = False
            woken: dict[Queue, None] = {}
            for channel in self._channels:
                channel.unacked.resume()
                woken |= channel.unacked.woken
                channel.unacked.woken.clear()
            self.host.touched(woken)

    def note_unfinished(self, size: int) -> None:
        """Note `size` bytes more, or fewer, of messages that are not whole. ConnectionClosing."""
        self._broker.unfinished.note(self, size)

    def fail(self, error: ConnectionClosing) -> None:
        """Close the connection. `unfinished.Beginner`."""
        for channel in list(self._channels)[:1]:
            channel.outlet.fail(error, _NO_METHOD)

    def forget(self, channel: QueueChannel) -> None:
        """Forget a channel that is closed."""
        self._channels.pop(channel, None)
        self._broker.forget(channel)

    @property
    def name(self) -> str:
        """What administrators call it: by its client's end, `127.0.0.1:40312`."""
        return f"{self.peer.host}:{self.peer.port}"

    @property
    def channels(self) -> list[QueueChannel]:
        """The channels that are open."""
        return list(self._channels)

    @property
    def channel_count(self) -> int:
        """How many those are."""
        return len(self._channels)

    def check_consumers(self) -> None:
        """Close the channels that consume what the user may not read any more."""
        for channel in self.channels:
            try:
                for consumer in channel.consumers.values():
                    self.access.check(Permission.READ, QUEUE, consumer.queue.name)
                    consumer.check_topic(self.access)
            except Refused as refused:
                channel.outlet.fail(reply_to(refused), IDS[BasicConsume])

    def closed(self) -> None:
        """Delete the connection's exclusive queues: it is gone, its channels are closed."""
        self._broker.gone(self)
        self.host.owner_gone(self)
        self._broker.soon()
