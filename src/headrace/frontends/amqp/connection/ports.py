"""What a connection asks of the broker behind it, and what it offers to a channel there."""

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from headrace.frontends.amqp.connection.deferred_output import Release
from headrace.model.secret import Secret
from headrace.security.identity import Principal
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.hot import PublishRun, Settlement
from headrace.wire.amqp.methods import Method, MethodId
from headrace.wire.amqp.reply_codes import AmqpError


class Peer(NamedTuple):
    """The other end, as its socket tells."""

    host: str
    listener: str
    certificate_name: str | None = None
    """Whom the certificate that it proved names; None: it showed none."""
    port: int = -1


class Credentials(NamedTuple):
    """What a client says of itself. `password` is None where a certificate has proved it."""

    mechanism: str
    user: str
    password: Secret | None


class LoginRefused(NamedTuple):
    """A login is refused. The reason is for our log, the client is sent to that."""

    reason: str
    seconds: float = 0.0
    """How long the client waits for the answer."""


LoginDone = Callable[[Principal | LoginRefused], None]


class Outlet(Protocol):
    """Where a channel's frames go. All is silently dropped once the channel is closed."""

    number: int
    frame_bytes_max: int

    def answer(self, method: Method) -> None:
        """Send a method."""

    def write(self, frames: bytes) -> None:
        """Send whole frames of this channel, made by `wire.amqp.hot`."""

    def hold(self) -> Release:
        """Hold back what is sent from now on: an answer that belongs before it is not known yet."""

    def takes_more(self) -> bool:
        """Tell whether there is room for deliveries; False: `VhostPort.room` says when again."""

    def fail(self, error: AmqpError, ids: MethodId) -> None:
        """Close the channel or the connection for a method that was handled later."""


class Channel(Protocol):
    """A channel's part of the model. Everything here may raise Refused or AmqpError.

    What comes behind an error is never handed over. Answers go to the Outlet, at once or later, in
    the order that the client is to see.
    """

    def method(self, method: Method) -> None:
        """Do what a method of exchange, queue, basic, confirm or tx says, and answer it."""

    def publish(self, run: PublishRun) -> None:
        """Take messages, in their order, none larger than is allowed."""

    def settle(self, settlements: list[Settlement]) -> None:
        """Take acks, nacks and rejects, in their order."""

    def closed(self) -> None:
        """Give back what was delivered and not settled, end the consumers; answer nothing more."""


class VhostPort(Protocol):
    """A virtual host, for one connection that may use it."""

    @property
    def methods(self) -> Collection[type[Method]]:
        """The kinds of methods that its channels do; publishes and settlements come by runs."""

    def open_channel(self, outlet: Outlet) -> Channel:
        """Return a new channel; ConnectionClosing where the user may have no more."""

    def note_unfinished(self, size: int) -> None:
        """Note `size` bytes more, or fewer, of messages that are not whole. ConnectionClosing."""

    def room(self) -> None:
        """Deliver again: there was no room (`Outlet.takes_more`), and there is again."""

    def closed(self) -> None:
        """Delete the connection's exclusive queues: it is gone, its channels are closed."""


class Broker(Protocol):
    """The broker behind all connections."""

    def authenticate(self, credentials: Credentials, peer: Peer, done: LoginDone) -> None:
        """Tell `done` once who it is, or why it is refused; now or later."""

    def open(
        self,
        principal: Principal,
        virtual_host: str,
        peer: Peer,
        client_properties: FieldTable,
        close: Callable[[str], None],
    ) -> VhostPort:
        """Return the virtual host; ConnectionClosing (NOT_ALLOWED) where it may not be used.

        `close` ends the connection later, CONNECTION_FORCED with a text.
        """

    def pass_done(self) -> None:
        """Confirm and deliver what a pass of one connection brought: its frames are all taken."""

    def close(self) -> None:
        """Let no timer go off any more: the broker stops."""

    def update_secret(self, principal: Principal, secret: Secret) -> None:
        """Take a new secret of a user who is connected; ConnectionClosing where it is refused."""
