"""A listener on a real socket whose sessions answer with ranges of bytes, and its client."""

import asyncio
import os
import socket
import struct
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headrace.model.errors import CorruptLogError
from headrace.net.connection import Connection
from headrace.net.limits import Limits
from headrace.net.listener import Address, Listener
from headrace.net.pending import Body, Pending
from headrace.net.session import CloseConnection
from headrace.net.table import ConnectionTable
from headrace.ports.file_ranges import FileRange
from headrace.ports.network import ListenOptions
from headrace.posix.clock import RealClock
from headrace.posix.network import RealNetwork
from tests.support.net.net import framed

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
