"""A client that has opened a vhost: its channels and their common state."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from headrace.frontends.amqp.bounds import Bounds
from headrace.frontends.amqp.channel.channel import METHODS, QueueChannel
from headrace.frontends.amqp.channel.consumer_timeouts import ConsumerTimeouts
from headrace.frontends.amqp.channel.direct_replies import DirectReplies
from headrace.frontends.amqp.channel_consumers import HeldConsumers
from headrace.frontends.amqp.connection import negotiation
from headrace.frontends.amqp.connection.partial_publishes import Unfinished
from headrace.frontends.amqp.connection.ports import Outlet
from headrace.frontends.amqp.replies import reply_to
from headrace.net.answering import ConnectionTraffic
from headrace.queues.engine.queue_host import QueueHost
from headrace.queues.model.declarations import ConnectionOwner, Owner
from headrace.queues.permissions.access import Access, Permission
from headrace.queues.refusals import QUEUE, Refused
from headrace.security.identity import Identity, Principal
from headrace.vhosts.users.logins import Peer
from headrace.wire.amqp.field_kinds import IDS
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.methods import Method, MethodId
from headrace.wire.amqp.model_methods import BasicConsume
from headrace.wire.amqp.reply_codes import ConnectionClosing

if TYPE_CHECKING:
    from headrace.queues.port import Queue
    from headrace.vhosts.declarations.cluster_declarations import ClusterDeclarations


class Behind(Protocol):
    """The broker behind all clients. Implemented by `queue_broker.QueueBroker`."""

    now: Callable[[], float]
    random_bytes: Callable[[], bytes]
    bounds: Bounds
    timeouts: ConsumerTimeouts
    unfinished: Unfinished
    held_consumers: HeldConsumers

    declarations: "ClusterDeclarations | None"

    @property
    def replies(self) -> DirectReplies:
        """The channels that consume direct replies."""

    def publishing(self, channel: QueueChannel) -> None:
        """Have a channel's confirms sent when the pass ends."""

    def forget(self, channel: QueueChannel) -> None:
        """Forget a closed AMQP channel."""

    def soon(self) -> None:
        """Have due deliveries made soon, outside of a pass."""

    def impersonates(self, user: str) -> bool:
        """Tell whether a user may publish with another user's name in `user-id`."""

    def check_channels(self, user: str) -> None:
        """Raise ConnectionClosing NOT_ALLOWED if a user has reached the limit of channels."""

    def gone(self, client: "Client") -> None:
        """Remove a closed client from the broker's counts."""


_NO_METHOD = MethodId(0, 0)


class Client:
    """A connection's use of a vhost; owns its exclusive queues. Implements `ports.VhostPort`."""

    def __init__(
        self,
        broker: Behind,
        host: QueueHost,
        principal: Principal,
        properties: FieldTable,
        access: Access,
        peer: Peer,
        close: Callable[[str], None],
        identity: Identity | None = None,
        traffic: ConnectionTraffic | None = None,
    ) -> None:
        """Create a connection's client of a vhost.

        `close` closes the connection with CONNECTION_FORCED and a text. `identity`: whose
        permissions its commands need; None: an administrator's, who needs none. `traffic`: the
        counters of the connection's bytes; None: it has none.
        """
        self.host = host
        self.access = access
        self.peer = peer
        self.properties = properties
        self.close = close
        self.traffic = traffic or ConnectionTraffic()
        self.user = principal.name
        self.replies: DirectReplies = broker.replies
        self.now: Callable[[], float] = broker.now
        self.random_bytes: Callable[[], bytes] = broker.random_bytes
        self.publishing: Callable[[QueueChannel], None] = broker.publishing
        """Has a channel's confirms sent when the pass ends."""
        self.holding: Callable[[QueueChannel], None] = broker.timeouts.watch
        """Has a channel's deliveries checked for consumer timeouts."""
        self.bounds = broker.bounds
        self.held_consumers = broker.held_consumers
        self.wants_cancels = negotiation.capability(properties, "consumer_cancel_notify")
        """Whether the client supports a basic.cancel from the broker."""
        self.identity = identity
        self.declarations = broker.declarations
        self.owner: Owner = self
        if self.declarations is not None and identity is not None:
            self.owner = self.declarations.new_owner()
        self.commands = 0
        """Number of commands to coordinators that are not answered."""
        self._is_closed = False
        self._deleted: Callable[[], None] = lambda: None
        """Called once the exclusive queues of the closed connection are deleted."""
        self._broker = broker
        self._channels: dict[QueueChannel, None] = {}
        self._paused = False

    @property
    def impersonates(self) -> bool:
        """Whether the user may publish with another user's name in the `user-id` property."""
        return self._broker.impersonates(self.user)

    @property
    def methods(self) -> Collection[type[Method]]:
        """The AMQP methods that the client's channels handle."""
        return METHODS

    def open_channel(self, outlet: Outlet) -> QueueChannel:
        """Return a new channel; raise ConnectionClosing at the user's limit of channels."""
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
        """Deliver to all channels again: the client has read enough."""
        if self._paused:
            self._paused = False
            woken: dict[Queue, None] = {}
            for channel in self._channels:
                channel.unacked.resume()
                woken |= channel.unacked.woken
                channel.unacked.woken.clear()
            self.host.touched(woken)

    def note_unfinished(self, size: int) -> None:
        """Count `size` more bytes of incomplete messages (negative: fewer).

        Raises ConnectionClosing over the limit.
        """
        self._broker.unfinished.note(self, size)

    def fail(self, error: ConnectionClosing) -> None:
        """Close the connection with an error. Implements `partial_publishes.Beginner`."""
        for channel in list(self._channels)[:1]:
            channel.outlet.fail(error, _NO_METHOD)

    def forget(self, channel: QueueChannel) -> None:
        """Forget a closed AMQP channel."""
        self._channels.pop(channel, None)
        self._broker.forget(channel)

    @property
    def name(self) -> str:
        """The client's address and port, `127.0.0.1:40312`: its name for administrators."""
        return f"{self.peer.host}:{self.peer.port}"

    @property
    def channels(self) -> list[QueueChannel]:
        """The client's open AMQP channels."""
        return list(self._channels)

    @property
    def channel_count(self) -> int:
        """The number of the client's open AMQP channels."""
        return len(self._channels)

    def check_consumers(self) -> None:
        """Close channels with consumers on a queue or topic that the user may no longer read."""
        for channel in self.channels:
            try:
                for consumer in channel.consumers.values():
                    self.access.check(Permission.READ, QUEUE, consumer.queue.name)
                    consumer.check_topic(self.access)
            except Refused as refused:
                channel.outlet.fail(reply_to(refused), IDS[BasicConsume])

    def closed(self, done: Callable[[], None] = lambda: None) -> None:
        """Remove the closed connection, and delete its exclusive queues; then call `done`."""
        self._broker.gone(self)
        self._is_closed = True
        self._deleted = done
        if self.declarations is None:
            self.host.owner_gone(self)
            done()
        else:
            self.commands_answered()
        self._broker.soon()

    def commands_answered(self) -> None:
        """Have the exclusive queues deleted if the connection is closed and awaits no answer."""
        owner, declarations = self.owner, self.declarations
        if declarations is None or not self._is_closed or self.commands:
            return
        if isinstance(owner, ConnectionOwner) and self.host.model.table.owned_by(owner):
            declarations.connection_closed(self.host.name, owner, self._deleted)
        else:
            self._deleted()
