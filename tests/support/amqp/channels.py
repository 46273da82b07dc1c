"""Clients of AMQP on real queues without a socket, by a clock that the test moves."""

from collections.abc import Callable
from typing import Any, NamedTuple

from headrace.frontends.amqp.bounds import Bounds
from headrace.frontends.amqp.connection.connection import AmqpConnection
from headrace.frontends.amqp.connection.negotiation import Settings
from headrace.frontends.amqp.queue_broker import AdmissionPort, QueueBroker
from headrace.queue_stores.memory.memory_messages import MemoryMessages, Owner
from headrace.queue_stores.memory.memory_use import MemoryUse
from headrace.queue_stores.message_store import MessageStore
from headrace.queues.engine.hosted_queue import MakeStore
from headrace.queues.model.declarations import DeclaredQueue
from headrace.queues.permissions.access import FULL_ACCESS, Access
from headrace.queues.permissions.definitions import Definitions
from headrace.security.identity import USER, Identity, Principal
from headrace.vhosts.users.logins import Credentials, LoginDone, Peer
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import (
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.frames import FRAME_BODY, FRAME_METHOD, PROTOCOL_HEADER, walk_frames
from headrace.wire.amqp.methods import Method, decode_method, encode_method
from headrace.wire.amqp.model_methods import BasicConsume, QueueDeclare
from headrace.wire.amqp.properties import Properties, make_header, read_properties
from tests.support.amqp.messages import publish_frames
from tests.support.coordination.groups_kit import CountingRandom, HandClock

CAPABILITIES: FieldTable = {"capabilities": {"consumer_cancel_notify": True}}


class Heard(NamedTuple):
    """A method that came, with its message where it has one."""

    channel: int
    method: Any
    body: bytes
    properties: Properties


class _Everybody:
    """Lets everybody in. `queue_broker.Logins`."""

    def authenticate(self, credentials: Credentials, peer: Peer, done: LoginDone) -> None:
        done(Principal(USER, credentials.user))


class Everybody:
    """Lets everybody do everything, in `/` and what a test adds. `queue_broker.AdmissionPort`."""

    def __init__(self) -> None:
        self.definitions = Definitions()

    def may_open(self, identity: Identity, vhost: str) -> bool:
        """Let him."""
        return True

    def access(self, identity: Identity, vhost: str) -> Access:
        """Let him do all."""
        return FULL_ACCESS


class LateMessages(MemoryMessages):
    """A store that keeps messages for good when the test says so."""

    def __init__(self) -> None:
        super().__init__(MemoryUse())
        self.waiting: list[Callable[[bool], None]] = []
        self.owner: Owner | None = None

    def attach(self, owner: Owner) -> "LateMessages":
        """Note whose messages they are."""
        self.owner = owner
        return self

    def is_loading(self) -> bool:
        """Return False: there is no log."""
        return False

    def want_log(self) -> None:
        """It is there."""

    def close(self, done: Callable[[], None]) -> None:
        """There is nothing to write down."""
        done()

    def drop(self) -> None:
        """There is nothing to drop."""

    def abandon(self) -> None:
        """There is nothing to stop."""

    def hold(self) -> None:
        """Messages wait for the test anyway."""

    def release(self) -> None:
        """Messages wait for the test anyway."""

    def resign(self) -> None:
        """There is nothing to release."""

    def when_stored(self, done: Callable[[bool], None]) -> None:
        """Note who waits."""
        self.waiting.append(done)

    def keep(self, kept: bool = True) -> None:
        """Say what became of all that was appended."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(kept)


class QueueRoom:
    """A broker with its vhost `/`."""

    def __init__(
        self,
        *,
        late: bool = False,
        make: MakeStore | None = None,
        admission: AdmissionPort | None = None,
        **bounds: int,
    ) -> None:
        """`late`: all stores keep messages when the test says so."""
        self.clock = HandClock()
        self.stores: dict[str, LateMessages] = {}
        self.broker = QueueBroker(
            self.clock,
            CountingRandom(),
            _Everybody(),
            admission or Everybody(),
            self._make_late if late else make,
            Bounds(**bounds),
        )

    def _make_late(self, queue: DeclaredQueue, _: int) -> MessageStore:
        return self.stores.setdefault(queue.name, LateMessages())

    def client(
        self, properties: FieldTable = CAPABILITIES, user: str = "guest", vhost: str = "/"
    ) -> "QueueClient":
        """Return a client with one channel."""
        return QueueClient(self, properties, user, vhost)

    @property
    def queues(self) -> dict[str, Any]:
        """The queues of `/`."""
        return self.broker.virtual_hosts.hosts["/"].queues


class QueueClient:
    """One connection, which each call makes a pass of."""

    def __init__(self, room: QueueRoom, properties: FieldTable, user: str, vhost: str) -> None:
        self.room = room
        self._sent = b""
        self.has_room = True
        self.connection = AmqpConnection(
            Settings(),
            Peer("127.0.0.1", "AMQP"),
            room.broker,
            self._take,
            room.clock.now,
            lambda: self.has_room,
        )
        self.raw(PROTOCOL_HEADER)
        self.say(
            ConnectionStartOk(properties, "PLAIN", f"\0{user}\0x".encode(), "en_US"), channel=0
        )
        self.all = self.say(ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen(vhost), channel=0)
        """What came when it opened its vhost."""
        self.opened = names(self.all) == ["ConnectionOpenOk"]
        if self.opened:
            self.say(ChannelOpen())

    def _take(self, data: bytes) -> None:
        self._sent += data

    def raw(self, data: bytes) -> list[Heard]:
        """Send bytes, as one pass; returns what came back."""
        taken = self.connection.take(data, self.room.clock.now)
        assert taken == len(data)
        self.room.broker.pass_done()
        return self.heard()

    def say(self, *methods: Method, channel: int = 1) -> list[Heard]:
        """Send methods, as one pass; returns what came back."""
        return self.raw(b"".join(encode_method(channel, method) for method in methods))

    def ask(self, method: Method, channel: int = 1) -> Any:
        """Send a method; returns the one that came back."""
        (heard,) = self.say(method, channel=channel)
        return heard.method

    def publish(
        self,
        *bodies: bytes,
        key: str = "q",
        exchange: str = "",
        flags: int = 0,
        channel: int = 1,
        **properties: Any,
    ) -> list[Heard]:
        """Publish, as one pass; returns what came back."""
        header = Properties(**properties)
        return self.raw(
            b"".join(
                publish_frames(
                    channel,
                    Message(exchange, key, make_header(len(body), header), body),
                    flags,
                )
                for body in bodies
            )
        )

    def declare(self, name: str = "q", **fields: Any) -> Any:
        """Declare a queue."""
        return self.ask(QueueDeclare(queue=name, **fields))

    def consume(
        self, name: str = "q", tag: str = "c", channel: int = 1, **fields: Any
    ) -> list[Heard]:
        """Begin to consume; returns what came behind the answer."""
        heard = self.say(BasicConsume(queue=name, consumer_tag=tag, **fields), channel=channel)
        assert names(heard[:1]) == ["BasicConsumeOk"]
        return heard[1:]

    def heard(self) -> list[Heard]:
        """Return what came since the last look."""
        sent, self._sent = self._sent, b""
        heard: list[Heard] = []
        for frame in walk_frames(sent, 1 << 20):
            if frame.kind == FRAME_METHOD:
                method = decode_method(frame.payload)
                heard.append(Heard(frame.channel, method, b"", Properties()))
            elif frame.kind == FRAME_BODY:
                heard[-1] = heard[-1]._replace(body=heard[-1].body + frame.payload)
            else:
                heard[-1] = heard[-1]._replace(properties=read_properties(frame.payload))
        return heard


def bodies(heard: list[Heard]) -> list[bytes]:
    """Return the bodies of what came."""
    return [each.body for each in heard]


def names(heard: list[Heard]) -> list[str]:
    """Return the names of the methods that came."""
    return [type(each.method).__name__ for each in heard]
