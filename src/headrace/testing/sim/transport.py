"""One end of a simulated connection."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, Protocol

from headrace.testing.sim.history import History
from headrace.testing.sim.loop import SimLoop

WINDOW_BYTES = 128 << 10
"""The most bytes under way or received and unread: the sum of both systems' buffers."""
_HIGH_BYTES = 64 << 10
"""Write buffer size at which the protocol is paused."""

Bytes = bytes | bytearray | memoryview


class Place(NamedTuple):
    """A machine and a port."""

    machine: str
    port: int


class Network(Protocol):
    """The methods of `SimNetwork` that a connection's end uses."""

    loop: SimLoop
    history: History

    def carry(self, source: str, target: str, arrive: Callable[[], None]) -> None:
        """Call `arrive` after the link's delay, or after its repair."""

    def piece_size(self, size: int) -> int:
        """Return how many of `size` bytes travel in one piece."""

    def ended(self, transport: "SimTransport") -> None:
        """Forget this end of the connection."""


class SimTransport(asyncio.Transport):
    """An asyncio transport whose bytes travel through a SimNetwork.

    Bytes arrive in order, in pieces of random size with a delay each. Data that the peer does not
    read fills its window, then this end's write buffer.
    """

    other: "SimTransport"

    def __init__(self, network: Network, number: int, own: Place, peer: Place) -> None:
        super().__init__({"peername": tuple(peer), "sockname": tuple(own)})
        self.number = number
        self.own = own
        self.peer = peer
        self._network = network
        self._protocol: Any = None
        self._begun = False
        self._reading = True
        self._ending = False
        """Whether `close` or `abort` was called, or the peer has gone."""
        self._ended = False
        self._buffer: deque[bytes] = deque()
        self._buffered = 0
        self._high, self._low = _HIGH_BYTES, _HIGH_BYTES // 4
        self._paused = False
        self._outstanding = 0
        """Sent bytes that the peer has not read."""
        self._arrives_at = 0.0
        """Earliest arrival of what is under way, in loop time."""
        self._on_the_way: deque[Callable[[], None]] = deque()
        """Pieces and resets that were sent and have not arrived: the calls of the peer for them."""
        self._unread: deque[bytes | None] = deque()

    # --- begin and end

    def begin(self, made: Callable[[], Any]) -> Any:  # noqa: ANN401 - an asyncio protocol
        """Create the protocol with `made` and connect it; return it."""
        self._protocol = made()
        self._protocol.connection_made(self)
        self._begun = True
        self._read()
        return self._protocol

    def close(self) -> None:
        """Send the buffered data, then end the connection."""
        if not self._ending:
            self._ending = True
            self._unread.clear()
            self._end_if_sent()

    def _end_if_sent(self) -> None:
        if self._ending and not self._buffer and not self._ended:
            self._travel(partial(self.other.receive, None))
            self._end(None)

    def abort(self) -> None:
        """End the connection at once and reset the peer."""
        self.reset_other()
        self._end(None)

    def reset_other(self) -> None:
        """Reset the peer, after the link's delay."""
        if not self._ended:
            self._network.carry(self.own.machine, self.peer.machine, self.other.reset)

    def reset(self) -> None:
        """End at once with ConnectionResetError: the peer is gone."""
        if not self._ended:
            self._network.history.add("reset", self.number, *self.own)
            self._end(ConnectionResetError(104, "Connection reset by peer"))

    def _end(self, error: Exception | None) -> None:
        if self._ended:
            return
        self._ending = self._ended = True
        self._buffer.clear()
        self._buffered = 0
        self._unread.clear()
        self._network.ended(self)
        if self._begun:
            self._network.loop.call_soon(self._tell_lost, error)

    def strand(self, seconds: float) -> None:
        """End here only, like a timeout; data under way arrives `seconds` later.

        The peer does not notice and processes that data.
        """
        self._arrives_at = self._network.loop.time() + seconds
        self.reset()

    def vanish(self) -> None:
        """End without notifying the protocol here."""
        self._protocol = None
        self._end(None)

    def _tell_lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def is_closing(self) -> bool:
        return self._ending

    # --- sending

    def write(self, data: Bytes) -> None:
        if self._ending or not data:
            return
        self._buffer.append(bytes(data))
        self._buffered += len(data)
        self._pump()
        self._pause_if_full()

    def writelines(self, list_of_data: Iterable[Bytes]) -> None:
        self.write(b"".join(list_of_data))

    def _pump(self) -> None:
        """Send what the window allows, in pieces of random size."""
        while self._buffer and (room := WINDOW_BYTES - self._outstanding) > 0:
            whole = self._buffer.popleft()
            size = min(self._network.piece_size(len(whole)), room)
            if size < len(whole):
                self._buffer.appendleft(whole[size:])
            self._buffered -= size
            self._outstanding += size
            self._travel(partial(self.other.receive, whole[:size]))
        if self._paused and self._buffered <= self._low and self._protocol is not None:
            self._paused = False
            self._protocol.resume_writing()
        self._end_if_sent()

    def _travel(self, received: Callable[[], None]) -> None:
        self._on_the_way.append(received)
        # The events are interchangeable: each one delivers the next piece.
        self._network.carry(self.own.machine, self.peer.machine, self._arrives)

    def _arrives(self) -> None:
        loop = self._network.loop
        if loop.time() < self._arrives_at:
            loop.call_at(self._arrives_at, self._arrives)
            return
        self._on_the_way.popleft()()

    def _pause_if_full(self) -> None:
        if self._buffered > self._high and not self._paused and self._protocol is not None:
            self._paused = True
            self._protocol.pause_writing()

    def taken(self, size: int) -> None:
        """Continue sending: the peer has read `size` bytes."""
        self._outstanding -= size
        if not self._ended:
            self._pump()

    def get_write_buffer_size(self) -> int:
        return self._buffered

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _HIGH_BYTES if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low
        self._pause_if_full()

    def can_write_eof(self) -> bool:
        return False

    # --- receiving

    def receive(self, piece: bytes | None) -> None:
        """Receive the next piece; None: end of stream."""
        what: object = "end" if piece is None else piece
        self._network.history.add("net", self.number, *self.peer, "to", *self.own, what)
        if self._ending:
            if piece is not None and not self.other._ended:
                # TCP ignores a reset that overtakes data (RFC 5961).
                self._travel(self.other.reset)
            return
        self._unread.append(piece)
        self._read()

    def _read(self) -> None:
        while self._unread and self._begun and self._reading and not self._ending:
            piece = self._unread.popleft()
            if piece is None:
                if not self._protocol.eof_received():
                    self.close()
                return
            taken = self._hand_over(piece)
            if taken < len(piece):
                self._unread.appendleft(piece[taken:])
            self._network.carry(self.own.machine, self.peer.machine, self._told_taken(taken))

    def _told_taken(self, size: int) -> Callable[[], None]:
        return lambda: self.other.taken(size)

    def _hand_over(self, piece: bytes) -> int:
        """Pass data to the protocol; return the number of bytes it accepted."""
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(piece)
            return len(piece)
        room = memoryview(self._protocol.get_buffer(-1))
        size = min(len(room), len(piece))
        room[:size] = piece[:size]
        self._protocol.buffer_updated(size)
        return size

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._network.loop.call_soon(self._read)

    def is_reading(self) -> bool:
        return self._reading and not self._ending

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol
