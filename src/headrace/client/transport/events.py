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
"""Responses up to this size are received into one shared buffer; larger ones into their own."""
KEPT_BYTES_MAX = 16 << 20
"""The largest response buffer, in bytes, that a connection reuses for later responses."""
_HELD_BY_NOBODY = 2
"""The result of `sys.getrefcount` for an object that only one attribute references.

The call's own argument is the second reference. A higher count means that a memoryview of the last
response is still held, so that its buffer must not be overwritten.
"""


class EventReply:
    """A response that the event loop delivers."""

    __slots__ = ("_future", "_link")

    def __init__(self, link: "EventLink") -> None:
        self._link = link
        self._future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()

    def arrived(self, frame: memoryview) -> None:
        """Deliver the response frame."""
        if not self._future.done():
            self._future.set_result(frame)

    def lost(self, error: ClientError) -> None:
        """Fail the awaited response with `error`."""
        if not self._future.done():
            self._future.set_exception(error)
            # No caller may be waiting; retrieving the exception avoids asyncio's warning.
            self._future.exception()

    async def wait(self, seconds: float) -> memoryview:
        """Return the response frame, without its length prefix.

        Raises TimedOut or ConnectionLost.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._future
        except TimeoutError:
            self._link.close()
            raise TimedOut(f"{self._link.address}: no answer in time") from None


class EventLink(asyncio.BufferedProtocol):
    """A connection to a broker on the event loop.

    A follower receives gigabytes in large responses and uses up each before the next arrives. So a
    large response's buffer is reused once no memoryview of it is held.
    """

    def __init__(self, address: Address) -> None:
        self.versions: dict[int, tuple[int, int]] = {}
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[EventReply] = deque()
        self._correlation_id = 0
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._space = self._scratch
        """The buffer for the next bytes: the shared scratch buffer or a large response's own."""
        self._filled = 0
        self._large = bytearray()
        self._retiring = False
        self._ended: asyncio.Future[None] | None = None
        """Done at the end of the connection; None: nothing waits for it."""

    @property
    def address(self) -> Address:
        """The broker's address."""
        return self._address

    @property
    def closed(self) -> bool:
        """Whether the connection is closed, so no request can be sent."""
        return self._transport is None

    def next_correlation_id(self) -> int:
        """Return the correlation id of the next request."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the asyncio transport (called by asyncio)."""
        # uvloop's transport is no subclass of asyncio.Transport.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all outstanding responses (called by asyncio)."""
        self._end(connection_lost(self._address, exc))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes (called by asyncio)."""
        return self._space[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Deliver the responses that are complete (called by asyncio)."""
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
        """Deliver the complete responses in the scratch buffer; keep the start of the next one."""
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
        """Send a whole request frame.

        Raises ConnectionLost. `answered` False: no response will come.
        """
        if self._transport is None:
            raise ConnectionLost(f"{self._address}: connection lost")
        reply = EventReply(self)
        # The unsent bytes are bounded by the requests of the callers, who await each answer, not by
        # the transport's limit. So it does not matter that asyncio's `writelines` skips
        # `pause_writing` before 3.12.9 and 3.13.2, as it does for `net.answering`.
        self._transport.writelines(frame)
        if answered:
            self._waiting.append(reply)
        return reply

    def close(self) -> None:
        """Close the connection; outstanding responses are lost."""
        self._give_up("connection closed")

    def retire(self) -> None:
        """Close the connection once no response is outstanding."""
        self._retiring = True
        if not self._waiting:
            self.close()

    async def wait_ended(self) -> None:
        """Return once the connection has ended, by either side."""
        if not self.closed:
            self._ended = self._ended or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._ended)

    def _give_up(self, why: str) -> None:
        self._end(ConnectionLost(f"{self._address}: {why}"))

    def _end(self, error: ClientError) -> None:
        transport, self._transport = self._transport, None
        self._large = bytearray()
        if transport is not None:
            transport.abort()
        while self._waiting:
            self._waiting.popleft().lost(error)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


Connect = Callable[[Callable[[], EventLink], str, int], Awaitable[EventLink]]
"""Connects the protocol that its first argument makes to a host and port; OSError."""


async def connect_by_loop(made: Callable[[], EventLink], host: str, port: int) -> EventLink:
    """Connect over the running loop and return the connection."""
    _, link = await asyncio.get_running_loop().create_connection(made, host, port)
    return link


class EventTransport:
    """Opens connections on the running event loop."""

    def __init__(self, connect: Connect = connect_by_loop) -> None:
        """Create a transport; `connect` opens its connections, for example a
        `ports.network.Network`'s."""
        self._connect = connect

    async def connect(self, address: Address, seconds: float) -> EventLink:
        """Open a connection. Raises CannotConnect."""
        try:
            async with asyncio.timeout(seconds):
                return await self._connect(lambda: EventLink(address), *address)
        except TimeoutError:
            raise Unanswered(f"cannot connect to {address}: no answer") from None
        except OSError as error:
            raise cannot_connect(address, error) from None

    async def sleep(self, seconds: float) -> None:
        """Suspend the coroutine for `seconds`."""
        await asyncio.sleep(seconds)

    def now(self) -> float:
        """Return the event loop's time in seconds, which never goes back."""
        return asyncio.get_running_loop().time()
