"""Interfaces between a connection and the broker behind it.

Broker       authenticate, open a vhost, end of a pass
VhostPort    open a channel, room, closed        (one for each connection)
Channel      methods, publishes, settlements     (one for each channel)
Outlet       frames from a channel's model to its client
"""

from collections.abc import Callable, Collection
from typing import Protocol

from headrace.frontends.amqp.connection.deferred_output import Release
from headrace.model.secret import Secret
from headrace.net.answering import ConnectionTraffic
from headrace.security.identity import Principal
from headrace.vhosts.users.logins import Credentials, LoginDone, Peer
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.hot import PublishRun, Settlement
from headrace.wire.amqp.methods import Method, MethodId
from headrace.wire.amqp.reply_codes import AmqpError


class Outlet(Protocol):
    """The output of a channel; ignored once the channel is closed."""

    number: int
    frame_bytes_max: int

    def answer(self, method: Method) -> None:
        """Send a method to the client on this channel."""

    def write(self, frames: bytes) -> None:
        """Send whole frames of this channel, made by `wire.amqp.hot`."""

    def hold(self) -> Release:
        """Hold back later output until the returned function is called with an earlier answer."""

    def hold_input(self) -> Callable[[], None]:
        """Handle no frames of the connection until the returned function is called, once."""

    def takes_more(self) -> bool:
        """Tell whether there is room for deliveries; if not, `VhostPort.room` is called later."""

    def fail(self, error: AmqpError, ids: MethodId) -> None:
        """Close the channel or the connection for a method whose handling failed later."""


class Channel(Protocol):
    """A channel's model; each call may raise Refused or AmqpError.

    After an error no further call is made but `closed`. Answers go to the Outlet, at once or later,
    in the order in which the client is to receive them.
    """

    def method(self, method: Method) -> None:
        """Execute and answer a method of the class exchange, queue, basic, confirm or tx."""

    def publish(self, run: PublishRun) -> None:
        """Publish messages in their order; all are within the size limit."""

    def settle(self, settlements: list[Settlement]) -> None:
        """Execute acks, nacks and rejects in their order."""

    def closed(self, done: Callable[[], None]) -> None:
        """Cancel the consumers and requeue unacknowledged deliveries; send nothing more.

        `done` is called once the auto-delete queues are deleted whose last consumer was one of
        these; the connection's input is held until then.
        """


class VhostPort(Protocol):
    """A virtual host, for one connection that may use it."""

    @property
    def methods(self) -> Collection[type[Method]]:
        """The methods that its channels handle; publishes and settlements come in runs."""

    def open_channel(self, outlet: Outlet) -> Channel:
        """Return a new channel; raise ConnectionClosing at the user's limit of channels."""

    def note_unfinished(self, size: int) -> None:
        """Count `size` more bytes of incomplete messages (negative: fewer).

        Raises ConnectionClosing over the limit.
        """

    def room(self) -> None:
        """Deliver again: the client has read enough since `Outlet.takes_more` returned False."""

    def closed(self, done: Callable[[], None]) -> None:
        """Delete the connection's exclusive queues: it is closed, and so are its channels.

        `done` is called once they are deleted, on all brokers of a cluster, or after a while.
        """


class Broker(Protocol):
    """The broker behind all AMQP connections."""

    def authenticate(self, credentials: Credentials, peer: Peer, done: LoginDone) -> None:
        """Call `done` with the principal or the refusal, now or later."""

    def open(
        self,
        principal: Principal,
        virtual_host: str,
        peer: Peer,
        client_properties: FieldTable,
        close: Callable[[str], None],
        traffic: ConnectionTraffic | None = None,
    ) -> VhostPort:
        """Return a vhost; raise ConnectionClosing (NOT_ALLOWED) if the user may not open it.

        `close` closes the connection later with CONNECTION_FORCED and a text. `traffic`: the
        counters of its socket's bytes; None: it has no socket.
        """

    def pass_done(self) -> None:
        """Send confirms and deliveries of a connection's pass: all its frames are handled."""

    def close(self) -> None:
        """End all timers of AMQP queues: the broker stops."""

    def update_secret(self, principal: Principal, secret: Secret) -> None:
        """Accept a connected user's new secret; raise ConnectionClosing if it is refused."""
