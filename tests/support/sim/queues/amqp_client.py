"""A client's AMQP connection on a simulated machine: one channel, frames over the network."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from headrace.testing.sim.cluster import SimCluster
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import (
    ChannelClose,
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUnblocked,
)
from headrace.wire.amqp.frames import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD_BYTES,
    HEARTBEAT,
    PROTOCOL_HEADER,
    Frame,
    walk_frames,
)
from headrace.wire.amqp.methods import Method, decode_method, encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicReturn,
)
from headrace.wire.amqp.properties import body_size_of
from tests.support.amqp.messages import publish_frames
from tests.support.sim.amqp import PORT

if TYPE_CHECKING:
    from collections.abc import Callable

CHANNEL = 1
FRAME_BYTES_MAX = 131_072
HEARTBEAT_SECONDS = 2
"""Seconds that the client proposes; a connection without bytes for twice as long has ended."""
OPEN_SECONDS_MAX = 5.0
"""Seconds after which a connection that is not open yet is given up."""
_WITH_CONTENT = (BasicDeliver, BasicGetOk, BasicReturn)
_EVENTS = (BasicAck, BasicNack, BasicCancel, ConnectionBlocked, ConnectionUnblocked)
"""Methods that answer nothing: confirms, cancelled consumers, alarms."""


class Closed(ConnectionError):
    """The connection has ended; its text is the broker's, or the client's reason."""


class Content(NamedTuple):
    """A method with its content."""

    method: Any
    header: bytes
    body: bytes


class AmqpClient(asyncio.Protocol):
    """A connection with channel 1 open. Not ended by its own heartbeats' lack: `watch` does."""

    def __init__(self) -> None:
        self.events: Callable[[Method | Content], None] = lambda _: None
        """Called with each delivery, return, confirm and cancelled consumer."""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The reason for which the connection has ended."""
        self._left = b""
        self._asked: deque[asyncio.Future[Method | Content]] = deque()
        self._transport: asyncio.Transport | None = None
        self._method: Any = None
        self._header = b""
        self._body = b""
        self._heard_at = 0.0

    @classmethod
    async def connect(cls, cluster: SimCluster, name: str, number: int) -> Self:
        """Return an open connection from a machine to broker `number`. Closed: it is not opened.

        `name`: an address of the loopback network, as the user guest logs in from these only.
        """
        machine = cluster.network.machine(name)
        opening = asyncio.get_running_loop().create_task(cls._opened(machine, number))
        try:
            return await asyncio.wait_for(opening, OPEN_SECONDS_MAX)
        except (OSError, TimeoutError) as error:
            raise Closed(f"broker {number} is not reached: {error!r}") from error

    @classmethod
    async def _opened(cls, machine: Any, number: int) -> Self:
        client: Self = await machine.connect(cls, f"broker-{number}", PORT)
        try:
            client.send(PROTOCOL_HEADER)
            await client._answer()
            start = ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "C")
            await client.ask(start, channel=0)
            tune = ConnectionTuneOk(2047, FRAME_BYTES_MAX, HEARTBEAT_SECONDS)
            client.send(encode_method(0, tune))
            await client.ask(ConnectionOpen("/"), channel=0)
            await client.ask(ChannelOpen())
        except BaseException:
            client.end("the connection is not opened")
            raise
        return client

    # --- sending

    def send(self, data: bytes) -> None:
        """Send bytes; nothing once the connection has ended."""
        if self._transport is not None and not self.ended.done():
            self._transport.write(data)

    def say(self, method: Method) -> None:
        """Send a method that is not answered."""
        self.send(encode_method(CHANNEL, method))

    async def ask(self, method: Method, channel: int = CHANNEL) -> Any:
        """Send a method and return its answer. Closed: none comes any more."""
        self.send(encode_method(channel, method))
        return await self._answer()

    async def _answer(self) -> Method | Content:
        if self.ended.done():
            raise Closed(self.ended.result())
        answer: asyncio.Future[Method | Content] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        return await answer

    def publish(self, message: Message) -> None:
        """Publish a message, to its exchange and routing key."""
        self.send(publish_frames(CHANNEL, message))

    def end(self, reason: str) -> None:
        """Close the socket: what was sent still arrives."""
        if self._transport is not None:
            self._transport.close()
        self._end(reason)

    async def watch(self) -> None:
        """Send heartbeats; return once the connection has ended, or end it if it is silent."""
        loop = asyncio.get_running_loop()
        while not self.ended.done():
            await asyncio.wait([self.ended], timeout=HEARTBEAT_SECONDS / 2)
            self.send(HEARTBEAT)
            if loop.time() - self._heard_at > 2 * HEARTBEAT_SECONDS:
                self.end("no heartbeat is received")

    # --- receiving: `asyncio.Protocol`

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._heard_at = asyncio.get_running_loop().time()

    def connection_lost(self, error: Exception | None) -> None:
        """End the connection."""
        self._end(f"connection lost: {error!r}")

    def _end(self, reason: str) -> None:
        if self.ended.done():
            return
        self.ended.set_result(reason)
        asked, self._asked = self._asked, deque()
        for answer in asked:
            if not answer.done():
                answer.set_exception(Closed(reason))
                answer.exception()  # a task that was cancelled waits for none

    def data_received(self, data: bytes) -> None:
        """Handle the whole frames."""
        self._heard_at = asyncio.get_running_loop().time()
        self._left += data
        taken = 0
        for frame in walk_frames(self._left, FRAME_BYTES_MAX):
            taken += len(frame.payload) + FRAME_OVERHEAD_BYTES
            if self.ended.done():
                return
            self._frame(frame)
        self._left = self._left[taken:]

    def _frame(self, frame: Frame) -> None:
        if frame.kind == FRAME_METHOD:
            method = decode_method(frame.payload)
            if isinstance(method, _WITH_CONTENT):
                self._method = method
            else:
                self._received(method)
        elif frame.kind == FRAME_HEADER:
            self._header, self._body = frame.payload, b""
            self._content()
        elif frame.kind == FRAME_BODY:
            self._body += frame.payload
            self._content()
        else:
            assert frame.kind == FRAME_HEARTBEAT

    def _content(self) -> None:
        if len(self._body) == body_size_of(self._header):
            content = Content(self._method, self._header, self._body)
            if isinstance(self._method, BasicGetOk):
                self._answered(content)
            else:
                self.events(content)

    def _received(self, method: Any) -> None:
        if isinstance(method, ConnectionClose | ChannelClose):
            if isinstance(method, ConnectionClose):
                self.send(encode_method(0, ConnectionCloseOk()))
            reason = f"{method.reply_code} {method.reply_text}"
            self.end(reason)
        elif isinstance(method, _EVENTS):
            self.events(method)
        else:
            self._answered(method)

    def _answered(self, answer: Method | Content) -> None:
        asked = self._asked.popleft()
        if not asked.done():
            asked.set_result(answer)
