"""A listener on a real socket whose sessions answer frames with themselves."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from headrace.model.errors import Malformed
from headrace.net.connection import Connection
from headrace.net.limits import Limits
from headrace.net.listener import Address, Listener
from headrace.net.pending import Body, Pending
from headrace.net.session import CloseConnection, InTurn
from headrace.net.table import ConnectionTable
from headrace.posix.clock import RealClock
from headrace.posix.network import RealNetwork
from tests.support.net.net import framed, limits_with


class Echo:
    """Answers a frame with itself.

    Commands: `wait…` (pending), `turn` (when nothing waits), `bad`, `end`, `bug`, `big`.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.frames: list[bytes] = []
        self.passes = 0
        self.pending: list[Pending] = []
        self.unwritten: Pending | None = None
        """What the next passes wait for."""
        self.gone = False

    def frame(self, frame: memoryview) -> Body | Pending:
        data = bytes(frame)
        if data == b"turn" and self.connection.waits:
            raise InTurn
        self.frames.append(data if len(data) < 100 else data[:100])
        if data.startswith(b"wait"):
            pending = Pending(alone=b"alone" in data)
            pending.head = lambda body: framed(body) if isinstance(body, bytes) else body
            self.pending.append(pending)
            return pending
        if data == b"bad":
            raise Malformed("that is no request")
        if data == b"end":
            raise CloseConnection("as asked")
        if data == b"bug":
            raise KeyError("a bug")
        if data == b"big":
            return [struct.pack(">i", 1 << 20), memoryview(bytes(1 << 20))]
        if data == b"none":
            return None
        return framed(data)

    def run(self, view: memoryview, at: int, filled: int) -> None:
        return None

    def pass_done(self) -> Pending | None:
        self.passes += 1
        return self.unwritten

    def closed(self) -> None:
        self.gone = True


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


class World:
    """A listening table and the sessions it opened."""

    def __init__(self, limits: Limits) -> None:
        self.sessions: list[Echo] = []
        self.fatal: list[Exception] = []
        self.delays: list[float] = []
        """How long the next connections wait to be let in; those after them do not."""
        clock = RealClock(asyncio.get_running_loop())
        self.table = ConnectionTable(
            clock, limits, self.open, self.fatal.append, delay=self.next_delay
        )
        self.listener = Listener.bind(
            Address("PLAINTEXT", "127.0.0.1", 0), self.table, RealNetwork()
        )

    def next_delay(self, listener: str) -> float:
        return self.delays.pop(0) if self.delays else 0.0

    def open(self, connection: Connection) -> Echo:
        self.sessions.append(Echo(connection))
        return self.sessions[-1]

    @asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        try:
            yield reader, writer
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def on_loop(test: Callable[[World], Awaitable[None]], bounds: Limits | None = None) -> None:
    async def main() -> None:
        world = World(bounds or limits_with())
        await world.listener.accept()
        try:
            await asyncio.wait_for(test(world), 30)
            for _ in range(3):  # turns in which the table learns that the test's clients have gone
                await asyncio.sleep(0)
        finally:
            world.listener.close()
            world.table.close()
            world.table.abort()
            await asyncio.sleep(0.01)
            assert len(world.table) == 0
            assert world.table.pool.bytes_out == 0

    asyncio.run(main())
