"""The state machine behind a real socket: bytes, time and the end."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from headrace.frontends.amqp.connection.negotiation import Settings
from headrace.frontends.amqp.connection.session import AmqpFrontend
from headrace.net.listener import Address, Listener
from headrace.net.table import ConnectionTable
from headrace.net.write_pass import WritePass
from headrace.posix.clock import RealClock
from headrace.posix.network import RealNetwork
from headrace.queue_stores.log.queue_logs import QueueLogs
from headrace.wire.amqp.control_methods import (
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUnblocked,
)
from headrace.wire.amqp.frames import FRAME_METHOD, HEARTBEAT, PROTOCOL_HEADER
from headrace.wire.amqp.methods import Method, decode_method, encode_method
from tests.support.amqp.kit import ALL_CAPABILITIES, NotedBroker
from tests.support.amqp.messages import message, publish_frames
from tests.support.net.net import limits_with


class Socket:
    """A client's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, *methods: Method, channel: int = 0) -> None:
        """Send methods."""
        for method in methods:
            self.writer.write(encode_method(channel, method))

    async def frame(self) -> tuple[int, bytes]:
        """Return the next frame's kind and payload."""
        head = await self.reader.readexactly(7)
        payload = await self.reader.readexactly(int.from_bytes(head[3:]) + 1)
        return head[0], payload[:-1]

    async def method(self) -> Method:
        """Return the next method; heartbeats are passed over."""
        while True:
            kind, payload = await self.frame()
            if kind == FRAME_METHOD:
                return decode_method(payload)

    async def open(self, heartbeat: int = 0) -> None:
        """Come as far as an open connection."""
        self.writer.write(PROTOCOL_HEADER)
        await self.method()
        self.say(ConnectionStartOk(ALL_CAPABILITIES, "PLAIN", b"\0guest\0secret", "en_US"))
        await self.method()
        self.say(ConnectionTuneOk(2047, 131_072, heartbeat), ConnectionOpen("/"))
        await self.method()


class CrowdedLogs:
    """Holds up who publishes once, for two logs. `session.DurableState`."""

    def __init__(self) -> None:
        self.crowded = False
        self.go_on: list[Callable[[], None]] = []
        self.logs: Any = self
        self.writes = WritePass(None)
        self.appended: list[object] = []

    def begin_pass(self) -> None:
        """Crowded by the pass that begins."""

    def hold_up(self, go_on: Callable[[], None]) -> int:
        self.crowded = False
        self.go_on = [go_on, go_on]
        return 2

    async def start(self) -> None:
        """Nothing is kept."""

    async def stop(self) -> None:
        """Nothing is kept."""


def with_client(
    test: Callable[[AmqpFrontend, NotedBroker, Socket], Awaitable[None]],
    kept: CrowdedLogs | None = None,
) -> None:
    """Play `test` with one client of a frontend."""

    async def main() -> None:
        clock = RealClock(asyncio.get_running_loop())
        broker = NotedBroker()
        frontend = AmqpFrontend(broker, Settings(), clock, kept)
        fatal: list[Exception] = []
        table = ConnectionTable(clock, limits_with(), frontend.open, fatal.append)
        listener = Listener.bind(Address("AMQP", "127.0.0.1", 0), table, RealNetwork())
        await listener.accept()
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        try:
            await asyncio.wait_for(test(frontend, broker, Socket(reader, writer)), 60)
        finally:
            writer.close()
            listener.close()
            table.close()
            table.abort()
            await asyncio.sleep(0.01)
            assert fatal == []
            assert len(table) == 0

    asyncio.run(main())


def test_a_client_opens_publishes_and_closes() -> None:
    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        await client.open()
        client.say(ChannelOpen(), channel=1)
        await client.method()
        large = message(bytes(300_000))
        client.writer.write(publish_frames(1, message(b"small")) + publish_frames(1, large))
        client.say(ConnectionClose(200, "bye", 0, 0))
        assert type(await client.method()) is ConnectionCloseOk
        (channel,) = broker.channels
        bodies = [sent.body for run in channel.runs for sent in run.messages]
        assert bodies == [b"small", bytes(300_000)]
        assert channel.gone

    with_client(test)


def test_a_wrong_header_is_answered_and_the_socket_closed() -> None:
    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        client.writer.write(b"AMQP\x00\x00\x08\x00")
        assert await client.reader.read() == PROTOCOL_HEADER

    with_client(test)


def test_heartbeats_come_and_a_silent_client_is_ended() -> None:
    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        await client.open(heartbeat=1)
        assert await client.frame() == (HEARTBEAT[0], b"")
        rest = await client.reader.read()
        assert rest.replace(HEARTBEAT, b"") == b""
        assert broker.host_gone

    with_client(test)


def test_who_is_held_up_is_heard_again_once_its_connection_is_closed_from_our_side() -> None:
    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        await client.open()
        client.say(ChannelOpen(), channel=1)
        await client.method()
        frontend.block("low on memory")
        client.writer.write(publish_frames(1, message(b"first")))
        assert type(await client.method()) is ConnectionBlocked
        await frontend.stop()
        assert type(await client.method()) is ConnectionClose
        client.say(ConnectionCloseOk())
        assert await asyncio.wait_for(client.reader.read(), 5) == b""

    with_client(test)


def test_a_large_frame_that_comes_slowly_is_a_sign_of_life() -> None:
    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        await client.open(heartbeat=1)
        client.say(ChannelOpen(), channel=1)
        await client.method()
        frames = publish_frames(1, message(bytes(100_000)))
        for at in range(0, len(frames), len(frames) // 8):
            client.writer.write(frames[at : at + len(frames) // 8])
            await asyncio.sleep(0.5)
        client.say(ConnectionClose(200, "bye", 0, 0))
        assert type(await client.method()) is ConnectionCloseOk
        assert [len(run.messages) for run in broker.channels[0].runs] == [1]

    with_client(test)


def test_a_client_that_is_gone_leaves_nothing() -> None:
    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        await client.open()
        client.say(ChannelOpen(), channel=1)
        await client.method()
        client.writer.close()
        for _ in range(1000):
            if broker.host_gone:
                break
            await asyncio.sleep(0.01)
        assert broker.host_gone
        assert broker.channels[0].gone

    with_client(test)


def test_a_broker_that_stops_says_so() -> None:
    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        await client.open()
        await frontend.stop()
        close = await client.method()
        assert isinstance(close, ConnectionClose)
        assert close.reply_text == (
            "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        )
        client.say(ConnectionCloseOk())
        assert await client.reader.read() == b""

    with_client(test)


def test_no_more_is_read_of_who_publishes_without_room_until_there_is() -> None:
    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        await client.open()
        client.say(ChannelOpen(), channel=1)
        await client.method()
        frontend.block("low on disk")
        client.writer.write(publish_frames(1, message(b"first")))
        assert await client.method() == ConnectionBlocked("low on disk")
        client.say(ChannelOpen(), channel=2)
        await asyncio.sleep(0.2)
        assert len(broker.channels) == 1
        frontend.block(None)
        assert type(await client.method()) is ConnectionUnblocked
        await client.method()
        assert len(broker.channels) == 2

    with_client(test)


def test_no_more_is_read_of_who_crowds_logs_until_all_are_made() -> None:
    kept = CrowdedLogs()

    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        await client.open(heartbeat=1)
        kept.crowded = True
        client.say(ChannelOpen(), channel=1)
        await client.method()
        began = asyncio.get_running_loop().time()
        client.say(ChannelOpen(), channel=2)
        while asyncio.get_running_loop().time() < began + 2.5:
            # What is sent and not read is no silence.
            client.writer.write(HEARTBEAT)
            await asyncio.sleep(0.3)
        assert len(broker.channels) == 1
        kept.go_on[0]()
        await asyncio.sleep(0.1)
        assert len(broker.channels) == 1
        kept.go_on[1]()
        await client.method()
        assert len(broker.channels) == 2

    with_client(test, kept)


def test_client_without_publishes_is_read_while_dead_letters_wait() -> None:
    kept, dead_letters = CrowdedLogs(), SimpleNamespace(is_crowded=True, held_up=[])
    unused: Any = None
    kept.logs = QueueLogs(unused, unused, unused)
    kept.logs.crowded.append(dead_letters)

    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        async with asyncio.timeout(5):
            await client.open()
        assert dead_letters.held_up == []

    with_client(test, kept)


def test_who_has_gone_while_logs_are_made_is_not_looked_for() -> None:
    kept = CrowdedLogs()

    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        await client.open()
        kept.crowded = True
        client.say(ChannelOpen(), channel=1)
        await client.method()
        client.writer.close()
        await asyncio.sleep(0.1)
        for go_on in kept.go_on:
            go_on()

    with_client(test, kept)


def test_a_drained_broker_closes_clients_and_accepts_none_until_it_is_revived() -> None:
    async def test(frontend: AmqpFrontend, broker: NotedBroker, client: Socket) -> None:
        await client.open()
        frontend.drain(True)
        closing = await client.method()
        assert isinstance(closing, ConnectionClose)
        text = "CONNECTION_FORCED - Node was put into maintenance mode"
        assert (closing.reply_code, closing.reply_text) == (320, text)
        client.say(ConnectionCloseOk())
        assert await client.reader.read() == b""
        port = client.writer.get_extra_info("peername")[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(PROTOCOL_HEADER)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        frontend.drain(False)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await Socket(reader, writer).open()
        writer.close()

    with_client(test)
