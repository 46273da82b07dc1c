"""Declaring methods of clients whose broker belongs to a cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.frontends.amqp.admin_methods import do_method
from headrace.frontends.amqp.connection.connection import AmqpConnection
from headrace.frontends.amqp.connection.negotiation import Settings
from headrace.frontends.amqp.queue_broker import QueueBroker
from headrace.remote_queues.home.leader_link import unreachable
from headrace.remote_queues.leader.led_queue import LedQueue
from headrace.security.identity import USER, Principal
from headrace.testing.sim.cluster import SimCluster
from headrace.vhosts.users.logins import Credentials, LoginDone, Peer
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import (
    ChannelClose,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from headrace.wire.amqp.frames import FRAME_METHOD, PROTOCOL_HEADER, walk_frames
from headrace.wire.amqp.methods import Method, decode_method, encode_method
from headrace.wire.amqp.model_methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.messages import publish_frames
from tests.support.cluster.peer_kit import play, started
from tests.support.sim.amqp import frontend_of, queue_cluster_of, serve_amqp
from tests.support.sim.cluster import until


class _Logins:
    """Lets everybody in. `queue_broker.Logins`."""

    def authenticate(self, credentials: Credentials, peer: Peer, done: LoginDone) -> None:
        done(Principal(USER, credentials.user))


class Home:
    """The AMQP part of a broker of a cluster."""

    def __init__(self, cluster: SimCluster, number: int) -> None:
        server = cluster.brokers[number]
        self.declarations = queue_cluster_of(server).declarations
        queues = frontend_of(server).broker
        assert isinstance(queues, QueueBroker)
        self.queues = queues
        queues._logins = _Logins()

    @property
    def host(self) -> Any:
        return self.queues.virtual_hosts.hosts["/"]


class Client:
    """A connection with a channel, whose frames are handled as far as its input is not held."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.left = b""
        self.sent = b""
        self.connection = AmqpConnection(
            Settings(), Peer("127.0.0.1", "AMQP"), home.queues, self._send, home.queues.now(),
            woken=self._woken,
        )  # fmt: skip
        self.raw(PROTOCOL_HEADER)
        self.say(ConnectionStartOk({}, "PLAIN", b"\0guest\0x", "en_US"), channel=0)
        self.say(ConnectionTuneOk(2047, 131_072, 0), ConnectionOpen("/"), channel=0)
        self.say(ChannelOpen())
        self.heard()

    def _send(self, data: bytes) -> None:
        self.sent += data

    def _woken(self) -> float:
        asyncio.get_running_loop().call_soon(lambda: self.raw(b""))
        return self.home.queues.now()

    def raw(self, data: bytes) -> None:
        """Send bytes; those that are left are handled when the input is released."""
        self.left += data
        taken = self.connection.take(self.left, self.home.queues.now())
        self.left = self.left[taken:]
        self.home.queues.pass_done()

    def say(self, *methods: Method, channel: int = 1) -> None:
        """Send methods, as one pass."""
        self.raw(b"".join(encode_method(channel, method) for method in methods))

    def heard(self) -> list[Method]:
        """Return the methods that came since the last call."""
        sent, self.sent = self.sent, b""
        frames = walk_frames(sent, 1 << 20)
        return [decode_method(frame.payload) for frame in frames if frame.kind == FRAME_METHOD]

    async def ask(self, method: Method) -> Method:
        """Send a method; return the one that comes back."""
        self.say(method)
        await until(lambda: self.sent)
        (heard,) = self.heard()
        return heard


def played(story: Callable[[Home, Home], Awaitable[None]]) -> None:
    async def whole(cluster: SimCluster) -> None:
        serve_amqp(cluster)
        await started(cluster, 0, 1)
        await story(Home(cluster, 0), Home(cluster, 1))

    play(whole, super_users="User:guest")


@pytest.mark.parametrize("number", [0, 1])
def test_publish_behind_declarations_waits_until_its_broker_routes_by_them(number: int) -> None:
    async def story(*homes: Home) -> None:
        home = homes[number]
        client = Client(home)
        message = Message("e", "k", make_header(4, Properties()), b"body")
        methods = (
            QueueDeclare(queue="q", auto_delete=True),
            ExchangeDeclare(exchange="e", type="topic"),
            QueueBind(exchange="e", routing_key="#"),
        )
        frames = b"".join(encode_method(1, method) for method in methods)
        client.raw(frames + publish_frames(1, message))
        assert client.left
        await until(lambda: not client.left)
        answers = [QueueDeclareOk("q", 0, 0), ExchangeDeclareOk(), QueueBindOk()]
        assert client.heard() == answers
        assert home.host.queues["q"].ready == 1
        assert "q" in homes[1 - number].host.model.queues
        assert await client.ask(QueueDeclare()) == QueueDeclareOk(
            next(name for name in home.host.model.queues if name != "q"), 0, 0
        )
        assert await client.ask(QueueDelete(queue="q")) == QueueDeleteOk(1)
        assert "q" not in home.host.queues

    played(story)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("durable", [False, True])
def test_consumer_is_cancelled_once_its_auto_delete_queue_is_deleted(
    number: int, durable: bool
) -> None:
    async def story(*homes: Home) -> None:
        at, other = Client(homes[0]), Client(homes[number])
        declare = QueueDeclare(queue="q", durable=durable, auto_delete=True)
        assert await at.ask(declare) == QueueDeclareOk("q", 0, 0)
        for client in (at, other):
            assert await client.ask(BasicConsume(queue="q", consumer_tag="c")) == BasicConsumeOk(
                "c"
            )
        assert await at.ask(BasicCancel("c")) == BasicCancelOk("c")
        assert all("q" in home.host.model.queues for home in homes)
        assert await other.ask(BasicCancel("c")) == BasicCancelOk("c")
        assert "q" not in homes[number].host.model.queues

    played(story)


def test_queue_whose_leader_does_not_answer_is_not_deleted_as_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LedQueue, "info", lambda *_: None)

    async def story(*homes: Home) -> None:
        for number, name in ((0, "a"), (1, "b")):
            at, other = Client(homes[number]), Client(homes[1 - number])
            assert await at.ask(QueueDeclare(queue=name)) == QueueDeclareOk(name, 0, 0)
            closed = await other.ask(QueueDelete(queue=name, if_empty=True))
            text = f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty"
            assert closed == ChannelClose(406, text, 50, 40)
            assert name in homes[1 - number].host.model.queues
            empty = QueueDelete(queue=name, if_empty=True)
            assert await at.ask(empty) == QueueDeleteOk(0)

    played(story)


def test_refusal_of_the_coordinator_closes_the_channel() -> None:
    async def story(*homes: Home) -> None:
        for home in homes:
            closed = await Client(home).ask(QueueBind(queue="q", exchange="none"))
            assert isinstance(closed, ChannelClose)
            text = "NOT_FOUND - no exchange 'none' in vhost '/'"
            assert closed == ChannelClose(404, text, 50, 20)

    played(story)


@pytest.mark.parametrize("number", [0, 1])
def test_declaration_opens_no_queue_elsewhere(number: int) -> None:
    async def story(*homes: Home) -> None:
        client = Client(homes[number])
        for passive in (False, False, True):
            declared = QueueDeclare(queue="q", durable=True, passive=passive)
            assert await client.ask(declared) == QueueDeclareOk("q", 0, 0)
        assert not any(home.host.targets.elsewhere for home in homes)

    played(story)


def test_declaration_of_a_queue_whose_broker_is_down_is_refused() -> None:
    async def story(*homes: Home) -> None:
        declared = QueueDeclare(queue="q", durable=True)
        assert await Client(homes[0]).ask(declared) == QueueDeclareOk("q", 0, 0)

        def known(name: str) -> None:
            raise unreachable(f"queue '{name}' in vhost '/'")

        homes[0].host.targets.known_counts = known
        text = "NOT_FOUND - failed to perform operation on queue 'q' in vhost '/' due to timeout"
        for method in (declared, declared._replace(passive=True)):
            closed = await Client(homes[0]).ask(method)
            assert closed == ChannelClose(404, text, 50, 10)

    played(story)


def test_exclusive_queue_is_its_connections_and_ends_with_it() -> None:
    async def story(*homes: Home) -> None:
        first, second = Client(homes[0]), Client(homes[1])
        exclusive = QueueDeclare(queue="mine", exclusive=True)
        assert await first.ask(exclusive) == QueueDeclareOk("mine", 0, 0)
        assert await first.ask(exclusive) == QueueDeclareOk("mine", 0, 0)
        passive = QueueDeclare(queue="mine", passive=True)
        assert await first.ask(passive) == QueueDeclareOk("mine", 0, 0)
        locked = await second.ask(passive)
        assert isinstance(locked, ChannelClose)
        assert locked[0] == 405
        first.connection.lost()
        await until(lambda: not any("mine" in home.host.model.queues for home in homes))
        first = Client(homes[0])
        first.say(exclusive)
        first.connection.lost()  # before the coordinator answers
        await asyncio.sleep(5)
        assert not any("mine" in home.host.model.queues for home in homes)

    played(story)


def test_administrators_methods_are_commands_too() -> None:
    async def story(*homes: Home) -> None:
        declared = QueueDeclare(queue="q", durable=True)
        answer = await do_method(homes[1].queues, homes[1].host, declared)
        assert answer == QueueDeclareOk("q", 0, 0)
        assert all("q" in home.host.model.queues for home in homes)

    played(story)
