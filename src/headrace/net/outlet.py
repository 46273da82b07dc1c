"""`Outlet`: send answers that contain ranges of files, piece by piece, as the client reads.

Verified, cached bytes of a range are sent by sendfile until the socket is full. Other pieces are
read into one buffer shared by all connections and written to the socket at once. What the socket
does not accept of a piece is copied and left to the transport; its `resume_writing` lets the next
piece follow. After a sendfile that filled the socket, a small piece goes to the transport for that
notification. So a client that does not read costs one piece of memory, whatever it requested. With
TLS, without a plain socket, everything goes through the transport.

Parts behind a range wait here, in order.
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
"""Most buffers of one writev call. Below IOV_MAX (1024 on Linux)."""


class Owner(Protocol):
    """The connection that owns an outlet."""

    def go_on(self) -> None:
        """Call `pump` again in the next turn of the loop."""

    def moved(self) -> None:
        """Check the number of unsent bytes, which may have decreased."""

    def lost(self, problem: Exception) -> None:
        """Close the connection at once, as the rest of an answer cannot be sent."""


class Outlet:
    """The sender of one connection while ranges of files are unsent."""

    __slots__ = (
        "_descriptor", "_high", "_little", "_owner", "_parts", "_piece", "_transport",
        "_waits_for_disk", "_waits_for_transport", "unsent",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, transport: "Transport", piece: memoryview, write_buffer_high: int
    ) -> None:
        """Make an outlet; `piece` is the buffer shared by all, invalid after each call."""
        self._owner = owner
        self._transport: Transport | None = transport
        self._piece = piece
        self._little = piece[:WAIT_BYTES]
        self._high = write_buffer_high
        self._parts: deque[Part] = deque()
        self.unsent = 0
        """Bytes waiting here, without those in the transport's buffer."""
        self._waits_for_disk = False
        self._waits_for_transport = False
        plain = transport.get_extra_info("sslcontext") is None
        socket = transport.get_extra_info("socket") if plain else None
        self._descriptor: int = -1 if socket is None else socket.fileno()

    @property
    def busy(self) -> bool:
        """Whether answers must queue here and the transport's flow control concerns this outlet."""
        return bool(self._parts)

    def send(self, parts: "Sequence[Part]") -> None:
        """Send `parts` behind everything queued here."""
        self._parts.extend(parts)
        self.unsent += sum(map(len, parts))
        self.pump()

    def drop(self) -> None:
        """Drop everything unsent, as the connection is closed."""
        self._transport = None
        self._parts.clear()
        self.unsent = 0

    def drained(self) -> None:
        """Let the next `pump` continue, as the transport has sent everything."""
        if self._waits_for_transport:
            self._waits_for_transport = False
            if self._transport is not None:
                self._transport.set_write_buffer_limits(high=self._high)

    def pump(self) -> None:
        """Send until the client's socket is full or its turn is over."""
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
        """Send part of the next range by sendfile; return whether the socket is full.

        None if sendfile is not possible.
        """
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
        """Return the next buffers to write, up to a piece of a file range read into `piece`.

        [] if that piece must be read from the disk, which is begun.
        """
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
        """Write `batch` to the socket; leave what it does not accept to the transport."""
        try:
            sent = self._to_socket(batch)
        except OSError:
            transport.abort()
            return
        for buffer in batch:
            size = len(buffer)
            if sent < size:
                rest = memoryview(buffer)[sent:]
                # The piece buffer is shared; other buffers belong to this answer.
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
        """Let `drained` be called once the transport's buffer is empty."""
        self._waits_for_transport = True
        transport.set_write_buffer_limits(high=0)
