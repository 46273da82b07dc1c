"""Connections by a clock and a transport that the test holds."""

import asyncio
from typing import TYPE_CHECKING, Any

from headrace.config.connection_limits import ConnectionLimits
from headrace.config.value_types import Value
from headrace.net.connection import Connection
from headrace.net.pending import Body, Pending
from headrace.net.session import CloseConnection, Run, Session
from headrace.net.stream import StreamSession
from headrace.net.table import ConnectionTable
from tests.support.coordination.groups_kit import HandClock
from tests.support.net.net import framed, limits_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.ports.file_ranges import FileRange


class HandTransport(asyncio.Transport):
    """Keeps what is written to it; its peer is at the address it was made with."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address
        self.written = b""
        self.write_calls = 0
        self.reads = True
        self.ended = ""
        self.high = -1
        """The mark of its buffer that it was told last."""
        self.buffered = 0
        """What it says that it holds."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Answer `name` as a plain connection would."""
        return (self.address, 4711) if name == "peername" else default

    def pause_reading(self) -> None:
        """Note that nothing is to be received."""
        self.reads = False

    def resume_reading(self) -> None:
        """Note that more may be received."""
        self.reads = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Note the mark."""
        self.high = -1 if high is None else high

    def get_write_buffer_size(self) -> int:
        """Say what the test says."""
        return self.buffered

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take all of it."""
        self.write_calls += 1
        self.written += bytes(data)

    def close(self) -> None:
        """Note the end after all that was written."""
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        """Note the end at once."""
        self.ended = self.ended or "aborted"

    def is_closing(self) -> bool:
        """Whether it has been ended."""
        return bool(self.ended)


class Echo:
    """Answers with the frame itself; `wait` and `alone` only when the test resolves it.

    `range` and `bare` are answered with `ranges`' next one; `big` with 100 bytes.
    """

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.pending: list[Pending] = []
        self.ranges: list[FileRange] = []
        self.refuses_pass = False
        self.unwritten: Pending | None = None
        """What the next pass waits for."""
        self.in_frame: Callable[[], None] = lambda: None
        """Called while a request is handled."""
        self.gone = False

    def frame(self, frame: memoryview) -> Body | Pending:
        """Answer one request."""
        data = bytes(frame)
        self.frames.append(data[:20])
        self.in_frame()
        if data.startswith((b"wait", b"alone")):
            self.pending.append(Pending(alone=data.startswith(b"alone")))
            return self.pending[-1]
        if data == b"range":
            return [b"head", self.ranges.pop(0), b"tail"]
        if data == b"bare":
            return [self.ranges.pop(0)]
        if data == b"big":
            return bytes(100)
        return framed(data[:20])

    def run(self, view: memoryview, at: int, filled: int) -> Run | None:
        """Answer no run."""
        return None

    def pass_done(self) -> Pending | None:
        """End the connection where that is wanted."""
        if self.refuses_pass:
            raise CloseConnection("nothing of this holds")
        unwritten, self.unwritten = self.unwritten, None
        return unwritten

    def closed(self) -> None:
        """Note it."""
        self.gone = True


class Client:
    """One connection as its client sees it."""

    def __init__(self, table: ConnectionTable, address: str, listener: str = "PLAINTEXT") -> None:
        self.transport = HandTransport(address)
        self.connection = Connection(table, listener)
        self.connection.connection_made(self.transport)
        self.answers = self.connection.answers

    def sends(self, data: bytes) -> None:
        """Have the connection receive `data`, in as many reads as it takes."""
        while data:
            space = self.connection.get_buffer(-1)
            size = min(len(space), len(data))
            space[:size] = data[:size]
            data = data[size:]
            self.connection.buffer_updated(size)

    def leaves(self) -> None:
        """Lose the connection."""
        self.connection.connection_lost(None)


class Room:
    """A table of connections on a clock that the test moves."""

    def __init__(
        self,
        delays: tuple[float, ...] = (),
        too_soon: tuple[float, ...] = (),
        single: ConnectionLimits | None = None,
        **settings: Value,
    ) -> None:
        """`delays`: how long the first connections wait to be let in; `too_soon`: how long the
        first ones that are let in are left unread, and ended.
        """
        self.clock = HandClock()
        self.sessions: list[Echo] = []
        self.fatal: list[Exception] = []
        self._delays, self._too_soon = list(delays), list(too_soon)
        self.table = ConnectionTable(
            self.clock,
            limits_with(single, **settings),
            self._open,
            self.fatal.append,
            too_many=lambda _: self._too_soon.pop(0) if self._too_soon else 0.0,
            delay=self._delay,
        )

    def _delay(self, listener: str) -> float:
        return self._delays.pop(0) if self._delays else 0.0

    def _open(self, connection: Connection) -> Session | StreamSession:
        self.sessions.append(Echo())
        connection.authenticated = connection.listener not in self.table.limits.begin_unknown
        return self.sessions[-1]

    def client(self, address: str = "10.0.0.1", listener: str = "PLAINTEXT") -> Client:
        """Make a connection from `address`, by a listener."""
        return Client(self.table, address, listener)
