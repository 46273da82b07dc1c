"""Answers with ranges of files, over real sockets: whole, in order, bounded, or the end."""

import asyncio
import logging
import os
import socket
import struct
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
import uvloop

from headrace.model.errors import CorruptLogError
from headrace.net.connection import Connection
from headrace.net.limits import PIECE_BYTES, TURN_BYTES_MAX, Limits
from headrace.net.listener import Address, Listener
from headrace.net.outlet import Outlet
from headrace.net.pending import Body, Pending
from headrace.net.session import CloseConnection
from headrace.net.table import ConnectionTable
from headrace.ports.file_ranges import FileRange
from headrace.ports.network import ListenOptions
from headrace.posix.clock import RealClock
from headrace.posix.network import RealNetwork
from tests.support.net import framed, limits_with, until

MEGABYTE = 1 << 20


def content(size: int) -> bytes:
    """Bytes that tell whose they are, and their place."""
    return array("I", range(size, size + size // 4 + 1)).tobytes()[:size]


class Made(FileRange):
    """A range without a file. Where `cold` says so it must be fetched first."""

    def __init__(
        self, size: int, *, cold: int = 0, bad_at: int = -1, sendable: bool = False
    ) -> None:
        """`sendable`: past the outlet, if it is not `bad_at` where it has come to."""
        self.sendable = sendable
        self.sent = 0
        self.size = self.left = size
        self.bytes = content(size)
        self.cold = cold
        self.bad_at = bad_at
        self.fetched = 0
        self.takes: list[int] = []
        self.waiting: Callable[[], None] | None = None

    def __len__(self) -> int:
        return self.size

    def send(self, socket: int, size: int) -> int | None:
        at = self.size - self.left
        if 0 <= self.bad_at <= at:
            self.sendable = False
        if not self.sendable:
            return None
        try:
            sent = os.write(socket, memoryview(self.bytes)[at : at + min(size, self.left)])
        except BlockingIOError:
            return 0
        self.left -= sent
        self.sent += sent
        return sent

    def take(self, into: memoryview) -> int:
        at = self.size - self.left
        if 0 <= self.bad_at <= at:
            raise CorruptLogError("the file at byte 7: the checksum does not match")
        if self.cold and at >= self.fetched:
            return 0
        size = min(len(into), self.left, self.fetched - at if self.cold else self.left)
        into[:size] = self.bytes[at : at + size]
        self.left -= size
        self.takes.append(size)
        return size

    def fetch(self, done: Callable[[], None]) -> None:
        def later() -> None:
            self.fetched += self.cold
            done()

        asyncio.get_running_loop().call_later(0.001, later)


class Shop:
    """Answers `range SIZE [cold|bad|sent]`, `end`, and everything else with itself."""

    def __init__(self) -> None:
        self.asked = 0
        self.ranges: list[Made] = []
        self.gone = False

    def frame(self, frame: memoryview) -> Body | Pending:
        self.asked += 1
        words = bytes(frame).split()
        if words[0] == b"end":
            raise CloseConnection("as asked")
        if words[0] != b"range":
            return framed(bytes(frame))
        size = int(words[1])
        cold = 300_000 if b"cold" in words else 0
        bad_at = size // 2 if b"bad" in words else -1
        made = Made(size, cold=cold, bad_at=bad_at, sendable=b"sent" in words)
        self.ranges.append(made)
        return [struct.pack(">i", size + 8), bytearray(b"head"), made, bytearray(b"tail")]

    def run(self, view: memoryview, at: int, filled: int) -> None:
        return None

    def pass_done(self) -> None:
        pass

    def closed(self) -> None:
        self.gone = True


class World:
    """A listening table and the sessions it opened."""

    def __init__(self, limits: Limits) -> None:
        self.shops: list[Shop] = []
        self.fatal: list[Exception] = []
        self.connections: list[Connection] = []
        clock = RealClock(asyncio.get_running_loop())
        self.table = ConnectionTable(clock, limits, self.open, self.fatal.append)
        address = Address("PLAINTEXT", "127.0.0.1", 0)
        self.listener = Listener.bind(
            address, self.table, RealNetwork(), ListenOptions(send_buffer_bytes=1 << 16)
        )

    def open(self, connection: Connection) -> Shop:
        self.connections.append(connection)
        self.shops.append(Shop())
        return self.shops[-1]

    @asynccontextmanager
    async def client(self) -> AsyncIterator["Client"]:
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        link.setblocking(False)
        await asyncio.get_running_loop().sock_connect(link, ("127.0.0.1", self.listener.port))
        try:
            yield Client(link)
        finally:
            link.close()

    def held(self) -> int:
        """Bytes that the transports hold."""
        return sum(
            one.answers.transport.get_write_buffer_size()
            for one in self.connections
            if one.answers.transport is not None
        )


class Client:
    """Reads no byte more than it is told to."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.loop = asyncio.get_running_loop()

    async def ask(self, *frames: bytes) -> None:
        await self.loop.sock_sendall(self.link, b"".join(map(framed, frames)))

    async def read(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            more = await self.loop.sock_recv(self.link, min(size - len(got), 1 << 16))
            if not more:
                raise ConnectionError(f"closed after {len(got)} of {size} bytes")
            got += more
        return bytes(got)

    async def answer(self) -> bytes:
        (size,) = struct.unpack(">i", await self.read(4))
        return await self.read(size)

    async def whole_range(self, size: int) -> None:
        assert await self.answer() == b"head" + content(size) + b"tail"


@pytest.fixture(params=["uvloop", "asyncio", "transport only"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Over both event loops, and as it goes where there is no socket to write to."""
    if request.param == "transport only":
        begin = Outlet.__init__

        def no_socket(outlet: Outlet, *arguments: Any) -> None:
            begin(outlet, *arguments)
            outlet._descriptor = -1

        monkeypatch.setattr(Outlet, "__init__", no_socket)
    return str(request.param)


@pytest.fixture
def on_loop(way: str) -> Callable[..., None]:
    def run(test: Callable[[World], Awaitable[None]], bounds: Limits | None = None) -> None:
        async def main() -> None:
            world = World(bounds or limits_with())
            await world.listener.accept()
            try:
                await asyncio.wait_for(test(world), 60)
            finally:
                world.listener.close()
                world.table.close()
                world.table.abort()
                await asyncio.sleep(0.01)
                assert len(world.table) == 0
            assert world.fatal == []

        if way == "asyncio":
            asyncio.run(main())
        else:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main())

    return run


@pytest.mark.parametrize("how", [b"", b" cold", b" sent"])
def test_ranges_arrive_whole_and_in_order_with_what_is_around_them(
    on_loop: Callable[..., None], how: bytes, way: str
) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            sizes = [1, 61, PIECE_BYTES, PIECE_BYTES + 1, 3 * MEGABYTE + 7]
            for size in sizes:
                await client.ask(b"before", b"range %d" % size + how, b"between", b"range 5")
            for size in sizes:
                assert await client.answer() == b"before"
                await client.whole_range(size)
                assert await client.answer() == b"between"
                await client.whole_range(5)
            past = sum(one.sent for one in world.shops[0].ranges)
            assert bool(past) == (how == b" sent" and way != "transport only")
            assert world.shops[0].ranges[0].sent == bool(past), "the socket had room for it"
            outlet = world.connections[0].answers._outlet
            assert outlet is not None
            assert outlet.unsent == 0

    on_loop(test)


@pytest.mark.parametrize("how", [b"", b" sent"])
def test_a_client_that_does_not_read_costs_one_piece_and_holds_up_nobody(
    on_loop: Callable[..., None], how: bytes
) -> None:
    async def test(world: World) -> None:
        async with world.client() as slow, world.client() as other:
            await slow.ask(b"range %d" % (8 * MEGABYTE) + how)
            await until(lambda: world.held() > 0)
            await slow.ask(b"after")
            for number in range(20):
                await other.ask(b"%d" % number)
                assert await other.answer() == b"%d" % number
            assert world.held() <= PIECE_BYTES + 100
            await slow.whole_range(8 * MEGABYTE)
            assert await slow.answer() == b"after"

    on_loop(test)


@pytest.mark.parametrize("how", [b"", b" sent"])
def test_slow_clients_share_a_buffer_and_no_bytes(on_loop: Callable[..., None], how: bytes) -> None:
    async def test(world: World) -> None:
        sizes = [4 * MEGABYTE + number for number in range(3)]
        async with world.client() as one, world.client() as two, world.client() as three:
            clients = (one, two, three)
            for client, size in zip(clients, sizes, strict=True):
                await client.ask(b"range %d" % size + how)
            await until(lambda: all(transport_holds(each) for each in world.connections))
            reading = zip(clients, sizes, strict=True)
            await asyncio.gather(*(client.whole_range(size) for client, size in reading))

    on_loop(test)


def transport_holds(connection: Connection) -> bool:
    transport = connection.answers.transport
    return transport is not None and transport.get_write_buffer_size() > 0


def test_more_requests_are_handled_once_the_client_has_read(on_loop: Callable[..., None]) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            for _ in range(15):
                await client.ask(b"range %d" % MEGABYTE)
            await until(lambda: world.held() > 0)
            await asyncio.sleep(0.05)
            assert world.shops[0].asked < 10
            for _ in range(15):
                await client.whole_range(MEGABYTE)
            assert world.shops[0].asked == 15

    on_loop(test, limits_with(connection_answer_bytes_max=2 * MEGABYTE))


def test_a_client_that_leaves_too_much_unread_is_dropped_at_the_deadline(
    on_loop: Callable[..., None],
) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            await client.ask(b"range %d" % (8 * MEGABYTE))
            await until(lambda: bool(world.shops and world.shops[0].gone))
            assert world.table.dropped == 1
            with pytest.raises(ConnectionError):
                await client.whole_range(8 * MEGABYTE)

    on_loop(test, limits_with(connection_answer_bytes_max=MEGABYTE, connection_slow_reader_ms=300))


@pytest.mark.parametrize("how", [b"", b" sent"])
def test_what_turns_out_bad_is_never_completed_and_ends_that_connection_only(
    on_loop: Callable[..., None], caplog: pytest.LogCaptureFixture, how: bytes
) -> None:
    async def test(world: World) -> None:
        async with world.client() as client, world.client() as other:
            await client.ask(b"range %d bad" % (4 * MEGABYTE) + how, b"after")
            with pytest.raises(ConnectionError):
                await client.answer()
            await other.ask(b"range %d" % MEGABYTE)
            await other.whole_range(MEGABYTE)

    with caplog.at_level(logging.WARNING):
        on_loop(test)
    assert len([line for line in caplog.messages if "checksum" in line]) == 1


@pytest.mark.parametrize("how", [b"", b" cold", b" sent"])
def test_a_client_that_leaves_in_the_middle_is_forgotten(
    on_loop: Callable[..., None], how: bytes
) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            await client.ask(b"range %d" % (8 * MEGABYTE) + how)
            await client.read(MEGABYTE)
        await until(lambda: world.shops[0].gone)
        left = world.shops[0].ranges[0].left
        await asyncio.sleep(0.02)
        assert world.shops[0].ranges[0].left == left
        async with world.client() as other:
            await other.ask(b"range 100000")
            await other.whole_range(100_000)

    on_loop(test)


@pytest.mark.parametrize("how", [b"", b" sent"])
@pytest.mark.parametrize("last", [b"end", b"stop"])
def test_what_was_promised_leaves_before_the_connection_ends(
    on_loop: Callable[..., None], last: bytes, how: bytes
) -> None:
    async def test(world: World) -> None:
        async with world.client() as client:
            await client.ask(b"first", b"range %d" % (6 * MEGABYTE) + how)
            if last == b"end":
                await client.ask(b"end")
            assert await client.answer() == b"first"
            if last == b"stop":
                await until(lambda: world.held() > 0)
                world.table.close()
            await client.whole_range(6 * MEGABYTE)
            with suppress(ConnectionResetError):
                assert await client.loop.sock_recv(client.link, 1) == b""

    on_loop(test)


class Greedy:
    """A transport whose client takes everything at once."""

    def __init__(self) -> None:
        self.sent = bytearray()

    def get_extra_info(self, name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.sent += data


class Turns:
    """An outlet's owner, who counts."""

    def __init__(self) -> None:
        self.turns = 0

    def go_on(self) -> None:
        self.turns += 1

    def moved(self) -> None:
        pass

    def lost(self, problem: Exception) -> None:
        raise problem


def test_a_client_that_takes_everything_leaves_the_others_their_turn() -> None:
    transport, owner = Greedy(), Turns()
    piece = memoryview(bytearray(PIECE_BYTES))
    outlet = Outlet(owner, cast("asyncio.Transport", transport), piece, MEGABYTE)
    size = 3 * TURN_BYTES_MAX
    outlet.send([b"head", Made(size), b"tail"])
    for turn in range(1, 4):
        assert owner.turns == turn
        assert outlet.busy
        assert len(transport.sent) <= turn * (TURN_BYTES_MAX + PIECE_BYTES)
        outlet.pump()
    assert not outlet.busy
    assert transport.sent == b"head" + content(size) + b"tail"
