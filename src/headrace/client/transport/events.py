"""The transport on an asyncio loop."""

import asyncio
import struct
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from headrace.client.transport.port import (
    RESPONSE_BYTES_MAX,
    Address,
    Buffer,
    ClientError,
    ConnectionLost,
    TimedOut,
    Unanswered,
    cannot_connect,
    connection_lost,
    unreadable_answer,
)

_LENGTH = struct.Struct(">i")
_LENGTH_BYTES = 4
SCRATCH_BYTES = 32 << 10
"""Answers up to this size are received together; larger ones each in a memory of their own."""
KEPT_BYTES_MAX = 16 << 20
"""The largest answer's memory that a connection keeps for the next one."""
_HELD_BY_NOBODY = 2
"""References to what only an attribute refers to, as `sys.getrefcount` counts: its own too."""


class EventReply:
    """An answer whose frame arrives by the loop."""

    __slots__ = ("_future", "_link")

    def __init__(self, link: "EventLink") -> None:
        self._link = link
        self._future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()

    def arrived(self, frame: memoryview) -> None:
        """Take the answer from the link."""
        if not self._future.done():
            self._future.set_result(frame)

    def lost(self, error: ClientError) -> None:
        """Take from the link that no answer will come."""
        if not self._future.done():
            self._future.set_exception(error)
            # Nobody may wait for it any more; that is no fault worth a warning.
            self._future.exception()

    async def wait(self, seconds: float) -> memoryview:
        """Wait for the response frame, without its length; TimedOut, ConnectionLost."""
        try:
            async with asyncio.timeout(seconds):
                return await self._future
        except TimeoutError:
            self._link.close()
            raise TimedOut(f"{self._link.address}: no answer in time") from None


class EventLink(asyncio.BufferedProtocol):
    """One connection on the loop.

    A follower receives gigabytes in large answers, each used up before the next one comes: their
    memory is used again when nobody holds the answer any more.
    """

    def __init__(self, address: Address) -> None:
        self.versions: dict[int, tuple[int, int]] = {}
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[EventReply] = deque()
        self._correlation_id = 0
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._space = self._scratch
        """Where the next bytes go: into the scratch, or into a large answer."""
        self._filled = 0
        self._large = bytearray()
        self._retiring = False

    @property
    def address(self) -> Address:
        """The other end."""
        return self._address

    @property
    def closed(self) -> bool:
        """Whether nothing more can be sent."""
        return self._transport is None

    def next_correlation_id(self) -> int:
        """Return the number of the next request."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport (called by asyncio)."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what waits (called by asyncio)."""
        self._end(connection_lost(self._address, exc))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next bytes (called by asyncio)."""
        return self._space[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Hand over the answers that are whole (called by asyncio)."""
        self._filled += nbytes
        if self._space is self._scratch:
            self._split()
        elif self._filled == len(self._space):
            frame, self._space = self._space, self._scratch
            self._filled = 0
            self._waiting.popleft().arrived(frame)
        if self._retiring:
            self.retire()

    def _split(self) -> None:
        """Hand over what the scratch holds, and keep the beginning of the next answer."""
        scratch, at = self._scratch, 0
        while self._filled - at >= _LENGTH_BYTES:
            (size,) = _LENGTH.unpack_from(scratch, at)
            if not _LENGTH_BYTES <= size <= RESPONSE_BYTES_MAX or not self._waiting:
                first = bytes(scratch[at : at + _LENGTH_BYTES])
                self._end(unreadable_answer(self._address, first))
                return
            begin, end = at + _LENGTH_BYTES, at + _LENGTH_BYTES + size
            if end > self._filled:
                if size > SCRATCH_BYTES - _LENGTH_BYTES:
                    self._begin_large(size, scratch[begin : self._filled])
                    return
                break
            self._waiting.popleft().arrived(memoryview(bytes(scratch[begin:end])))
            at = end
        self._filled -= at
        scratch[: self._filled] = scratch[at : at + self._filled]

    def _begin_large(self, size: int, begun: memoryview) -> None:
        large = self._large if sys.getrefcount(self._large) == _HELD_BY_NOBODY else bytearray()
        if len(large) < size:
            large = bytearray(size)
            if size <= KEPT_BYTES_MAX:
                self._large = large
        self._space = memoryview(large)[:size]
        self._filled = len(begun)
        self._space[: self._filled] = begun

    def send(self, frame: Sequence[Buffer], *, answered: bool = True) -> EventReply:
        """Send a whole request; ConnectionLost."""
        if self._transport is None:
            raise ConnectionLost(f"{self._address}: connection lost")
        reply = EventReply(self)
        self._transport.writelines(frame)
        if answered:
            self._waiting.append(reply)
        return reply

    def close(self) -> None:
        """End the connection; answers still awaited are lost."""
        self._give_up("connection closed")

    def retire(self) -> None:
        """End the connection once no answer is awaited any more."""
        self._retiring = True
        if not self._waiting:
            self.close()

    def _give_up(self, why: str) -> None:
        self._end(ConnectionLost(f"{self._address}: {why}"))

    def _end(self, error: ClientError) -> None:
        transport, self._transport = self._transport, None
        self._large = bytearray()
        if transport is not None:
            transport.abort()
        while self._waiting:
            self._waiting.popleft().lost(error)


Connect = Callable[[Callable[[], EventLink], str, int], Awaitable[EventLink]]
"""Connects the protocol it is handed the maker of to a host's port; OSError."""


async def connect_by_loop(made: Callable[[], EventLink], host: str, port: int) -> EventLink:
    """Connect as the running loop does; returns the connection."""
    _, link = await asyncio.get_running_loop().create_connection(made, host, port)
    return link


class EventTransport:
    """Opens connections on the running loop."""

    def __init__(self, connect: Connect = connect_by_loop) -> None:
        """`connect` opens them; a `ports.network.Network` has one."""
        self._connect = connect

    async def connect(self, address: Address, seconds: float) -> EventLink:
        """Open a connection; CannotConnect."""
        try:
            async with asyncio.timeout(seconds):
                return await self._connect(lambda: EventLink(address), *address)
        except TimeoutError:
            raise Unanswered(f"cannot connect to {address}: no answer") from None
        except OSError as error:
            raise cannot_connect(address, error) from None

    async def sleep(self, seconds: float) -> None:
        """Let others run for a while."""
        await asyncio.sleep(seconds)

    def now(self) -> float:
        """Return the seconds of a clock that never goes back."""
        return asyncio.get_running_loop().time()
