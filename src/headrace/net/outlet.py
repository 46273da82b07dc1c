"""How answers with ranges of files leave a connection: piece by piece, as the client takes them.

A range whose bytes need no look has them sent by the system, straight from the page cache, until
the socket takes no more. Other pieces are read into one buffer that all connections share and
written to the socket at once. What the socket does not take of a piece is copied and left to the
transport, whose word that it has gone (`resume_writing`) is what the next one waits for; where the
system was told to send, a little is read and given to the transport for that word. So a client that
does not read costs the broker one piece, whatever it has asked for, and the transport's own way out
is used wherever there is no socket to write to: TLS.

What comes behind a range waits here, in order.
"""

import os
from collections import deque
from typing import TYPE_CHECKING, Protocol

from headrace.net.limits import SEND_BYTES, TURN_BYTES_MAX, WAIT_BYTES
from headrace.ports.disk import Buffer
from headrace.ports.file_ranges import FileRange, Part

if TYPE_CHECKING:
    from asyncio import Transport
    from collections.abc import Sequence

_PARTS_MAX = 500
"""Buffers of one call. Below IOV_MAX (1024 on Linux)."""


class Owner(Protocol):
    """The connection."""

    def go_on(self) -> None:
        """Call `pump` again when others have had their turn."""

    def moved(self) -> None:
        """Look again how many bytes are unsent: they may be fewer."""

    def lost(self, problem: Exception) -> None:
        """End the connection at once: what was promised cannot be sent."""


class Outlet:
    """The way out of one connection while there are ranges to be sent."""

    __slots__ = (
        "_descriptor", "_high", "_little", "_owner", "_parts", "_piece", "_transport",
        "_waits_for_disk", "_waits_for_transport", "unsent",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, transport: "Transport", piece: memoryview, write_buffer_high: int
    ) -> None:
        """`piece`: shared by all; its content is nobody's after a call."""
        self._owner = owner
        self._transport: Transport | None = transport
        self._piece = piece
        self._little = piece[:WAIT_BYTES]
        self._high = write_buffer_high
        self._parts: deque[Part] = deque()
        self.unsent = 0
        """Bytes waiting here. What the transport holds is not among them."""
        self._waits_for_disk = False
        self._waits_for_transport = False
        plain = transport.get_extra_info("sslcontext") is None
        socket = transport.get_extra_info("socket") if plain else None
        self._descriptor: int = -1 if socket is None else socket.fileno()

    @property
    def busy(self) -> bool:
        """Whether answers must queue here, and the transport's pauses are this one's affair."""
        return bool(self._parts)

    def send(self, parts: "Sequence[Part]") -> None:
        """Send `parts` behind what is there."""
        self._parts.extend(parts)
        self.unsent += sum(map(len, parts))
        self.pump()

    def drop(self) -> None:
        """Drop what is unsent: the connection is gone."""
        self._transport = None
        self._parts.clear()
        self.unsent = 0

    def drained(self) -> None:
        """Let `pump` go on, outside of this call: the transport has sent all it was given."""
        if self._waits_for_transport:
            self._waits_for_transport = False
            if self._transport is not None:
                self._transport.set_write_buffer_limits(high=self._high)

    def pump(self) -> None:
        """Send until the client has enough, or others should have their turn."""
        self._pump()
        if self._transport is not None:
            self._owner.moved()

    def _pump(self) -> None:
        transport = self._transport
        turn_ends_at = self.unsent - TURN_BYTES_MAX
        while self._parts and transport is not None and not transport.is_closing():
            if self._waits_for_disk or self._waits_for_transport:
                return
            if transport.get_write_buffer_size():
                self._wait_for(transport)
                return
            if self.unsent <= turn_ends_at:
                self._owner.go_on()
                return
            try:
                full = self._send()
                if full is False:
                    continue
                batch = self._next(self._little if full else self._piece)
            except OSError:
                transport.abort()
                return
            except Exception as problem:  # noqa: BLE001 - whatever it is, it ends one connection
                self._owner.lost(problem)
                return
            if batch:
                self._write(transport, batch)

    def _send(self) -> bool | None:
        """Have the next range send itself; whether the socket takes no more. None: it cannot."""
        part = self._parts[0]
        if not isinstance(part, FileRange) or not part.sendable or self._descriptor < 0:
            return None
        wanted = min(SEND_BYTES, part.left)
        sent = part.send(self._descriptor, wanted)
        if sent is None:
            return None
        self.unsent -= sent
        if not part.left:
            self._parts.popleft()
        return sent < wanted

    def _next(self, piece: memoryview) -> list[Buffer]:
        """Return the buffers before the next range, and its next piece; none: it needs the disk."""
        parts = self._parts
        batch: list[Buffer] = []
        while parts and len(batch) < _PARTS_MAX:
            part = parts[0]
            if not isinstance(part, FileRange):
                batch.append(part)
                parts.popleft()
                continue
            if batch and part.sendable and self._descriptor >= 0:
                break
            size = part.take(piece)
            if size:
                batch.append(piece[:size])
                if not part.left:
                    parts.popleft()
            elif not batch:
                self._waits_for_disk = True
                part.fetch(self._fetched)
            break
        self.unsent -= sum(map(len, batch))
        return batch

    def _fetched(self) -> None:
        self._waits_for_disk = False
        self.pump()

    def _write(self, transport: "Transport", batch: list[Buffer]) -> None:
        """Hand `batch` over: to the socket what it takes, the rest to the transport."""
        try:
            sent = self._to_socket(batch)
        except OSError:
            transport.abort()
            return
        for buffer in batch:
            size = len(buffer)
            if sent < size:
                rest = memoryview(buffer)[sent:]
                # The piece is everybody's; other buffers are this answer's own.
                transport.write(bytes(rest) if isinstance(buffer, memoryview) else rest)
            sent = max(sent - size, 0)

    def _to_socket(self, batch: list[Buffer]) -> int:
        if self._descriptor < 0:
            return 0
        try:
            return os.writev(self._descriptor, batch)
        except BlockingIOError:
            return 0

    def _wait_for(self, transport: "Transport") -> None:
        """Have `drained` called when the transport has nothing left."""
        self._waits_for_transport = True
        transport.set_write_buffer_limits(high=0)
