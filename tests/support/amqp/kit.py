"""A connection of AMQP without a socket, the client's side of it, and a model that notes all."""

from collections.abc import Callable
from typing import Any

from headrace.frontends.amqp.channel.channel import METHODS
from headrace.frontends.amqp.connection.connection import AmqpConnection
from headrace.frontends.amqp.connection.negotiation import Settings
from headrace.frontends.amqp.connection.ports import Outlet
from headrace.model.secret import Secret
from headrace.net.answering import ConnectionTraffic
from headrace.security.identity import USER, Principal
from headrace.vhosts.users.logins import Credentials, LoginDone, LoginRefused, Peer
from headrace.wire.amqp.control_methods import (
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.frames import FRAME_METHOD, PROTOCOL_HEADER, walk_frames
from headrace.wire.amqp.hot import PublishRun, Settlement
from headrace.wire.amqp.methods import Method, decode_method, encode_method
from headrace.wire.amqp.reply_codes import AmqpError, ConnectionClosing, ReplyCode

ALL_CAPABILITIES: FieldTable = {
    "capabilities": {"authentication_failure_close": True, "connection.blocked": True}
}


class NotedChannel:
    """A channel of the model that notes what it is asked; `raises` is raised by the next."""

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.methods: list[Method] = []
        self.runs: list[PublishRun] = []
        self.settled: list[Settlement] = []
        self.gone = False
        self.raises: AmqpError | None = None

    def _raise(self) -> None:
        error, self.raises = self.raises, None
        if error is not None:
            raise error

    def method(self, method: Method) -> None:
        """Note it."""
        self._raise()
        self.methods.append(method)

    def publish(self, run: PublishRun) -> None:
        """Note it."""
        self._raise()
        self.runs.append(run)

    def settle(self, settlements: list[Settlement]) -> None:
        """Note it."""
        self._raise()
        self.settled += settlements

    def closed(self, done: Callable[[], None]) -> None:
        """Note it."""
        self.gone = True
        done()


class NotedBroker:
    """A broker, and its one virtual host `/`, where `guest` has the password `secret`."""

    methods = METHODS

    def __init__(self) -> None:
        self.channels: list[NotedChannel] = []
        self.host_gone = False
        self.unfinished = 0
        self.late: LoginDone | None = None
        self.answers_late = False
        self.secrets: list[str] = []
        self.credentials: list[Credentials] = []
        self.close_client: Callable[[str], None] = lambda text: None
        """Ends the connection that opened it last."""

    def authenticate(self, credentials: Credentials, peer: Peer, done: LoginDone) -> None:
        """Compare the password; a certificate needs none."""
        self.credentials.append(credentials)
        if self.answers_late:
            self.late = done
            return
        password = credentials.password
        if password is None or (credentials.user, password.reveal()) == ("guest", "secret"):
            done(Principal(USER, credentials.user))
        else:
            done(LoginRefused("wrong password"))

    def open(
        self,
        principal: Principal,
        virtual_host: str,
        peer: Peer,
        client_properties: FieldTable,
        close: Callable[[str], None],
        traffic: ConnectionTraffic | None = None,
    ) -> "NotedBroker":
        """Open the one there is."""
        self.close_client = close
        if virtual_host != "/":
            raise ConnectionClosing(ReplyCode.NOT_ALLOWED, f"vhost {virtual_host} not found")
        return self

    def open_channel(self, outlet: Outlet) -> NotedChannel:
        """Make a channel."""
        self.channels.append(NotedChannel(outlet))
        return self.channels[-1]

    def note_unfinished(self, size: int) -> None:
        """Note what is begun."""
        self.unfinished += size

    def room(self) -> None:
        """Deliver nothing: there is nothing."""

    def pass_done(self) -> None:
        """Confirm nothing."""

    def close(self) -> None:
        """Stop nothing."""

    def closed(self, done: Callable[[], None]) -> None:
        """Note it."""
        self.host_gone = True
        done()

    def update_secret(self, principal: Principal, secret: Secret) -> None:
        """Take any but `wrong`."""
        if secret.reveal() == "wrong":
            raise ConnectionClosing(
                ReplyCode.NOT_ALLOWED, "New secret was refused by one of the backends"
            )
        self.secrets.append(secret.reveal())


class Client:
    """The client's side of one connection, by a clock that the test moves."""

    def __init__(
        self,
        *,
        certificate_name: str | None = None,
        changed: Callable[[], None] = lambda: None,
        **settings: Any,
    ) -> None:
        self.broker = NotedBroker()
        self._changed = changed
        self.now = 1000.0
        self.sent = b""
        self._left = b""
        self.connection = AmqpConnection(
            Settings(**settings),
            Peer("127.0.0.1", "AMQP", certificate_name),
            self.broker,
            self._sent,
            self.now,
            woken=self._woken,
        )

    def _woken(self) -> float:
        self._changed()
        return self.now

    def _sent(self, data: bytes) -> None:
        self.sent += data

    def raw(self, data: bytes) -> None:
        """Send bytes."""
        self._left += data
        taken = self.connection.take(self._left, self.now)
        self._left = self._left[taken:]

    def say(self, *methods: Method, channel: int = 0) -> list[Method]:
        """Send methods; returns what was answered."""
        self.raw(b"".join(encode_method(channel, method) for method in methods))
        return self.heard()

    def heard(self) -> list[Method]:
        """Return the methods that came since the last look."""
        return [method for _, method in self.heard_on()]

    def heard_on(self) -> list[tuple[int, Method]]:
        """Return the methods that came since the last look, with their channels."""
        sent, self.sent = self.sent, b""
        frames = walk_frames(sent, 1 << 20)
        return [(f.channel, decode_method(f.payload)) for f in frames if f.kind == FRAME_METHOD]

    def wait(self, seconds: float) -> None:
        """Let time pass, stopping where the connection wants to be called."""
        until = self.now + seconds
        while (deadline := self.connection.deadline) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.connection.tick(self.now)
        self.now = until

    def over(self) -> bool:
        """Tell whether the connection has ended."""
        return self.connection.ended

    def held(self) -> bool:
        """Tell whether no more is to be read of it."""
        return self.connection.holds_publishes

    def begin(self) -> list[Method]:
        """Send the protocol's header."""
        self.raw(PROTOCOL_HEADER)
        return self.heard()

    def log_in(
        self, password: str = "secret", properties: FieldTable | None = None
    ) -> list[Method]:
        """Come as far as the broker's proposal."""
        self.begin()
        known = ALL_CAPABILITIES if properties is None else properties
        response = f"\0guest\0{password}".encode()
        return self.say(ConnectionStartOk(known, "PLAIN", response, "en_US"))

    def tune(
        self, channel_max: int = 2047, frame_max: int = 131_072, heartbeat: int = 60
    ) -> list[Method]:
        """Agree."""
        return self.say(ConnectionTuneOk(channel_max, frame_max, heartbeat))

    def open(self, **tuned: int) -> list[Method]:
        """Come as far as an open connection."""
        self.log_in()
        self.tune(**tuned)
        return self.say(ConnectionOpen("/"))

    def channel(self, number: int = 1) -> NotedChannel:
        """Open a channel."""
        self.say(ChannelOpen(), channel=number)
        return self.broker.channels[-1]


def opened(**tuned: int) -> Client:
    """Return a client whose connection is open."""
    client = Client()
    client.open(**tuned)
    return client
