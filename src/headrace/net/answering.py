"""A connection's answers: out in the requests' order and bounded, and how a connection ends."""

import logging
from asyncio import BufferedProtocol, Transport
from collections import deque
from typing import TYPE_CHECKING, cast

from headrace.model.errors import HeadraceError, Malformed
from headrace.model.invariant import InvariantError
from headrace.net.limits import JOIN_BYTES_MAX
from headrace.net.outlet import Outlet
from headrace.net.pending import Body, Pending
from headrace.net.session import CloseConnection
from headrace.ports.file_ranges import FileRange, Part

if TYPE_CHECKING:
    from headrace.net.table import ConnectionTable
    from headrace.ports.disk import Buffer

log = logging.getLogger(__name__)


class Answering(BufferedProtocol):
    """The half of a connection that sends. The other one, `Connection`, receives and builds on it.

    `pending.Waiter` and `outlet.Owner`.
    """

    def __init__(self, table: "ConnectionTable", listener: str) -> None:
        self.listener = listener
        self.address = ""
        """The peer's address as text, without port."""
        self.last_moved = table.now()
        self.write_blocked_since: float | None = None
        """Since when the client has left too many answers unread."""
        self._table = table
        self._transport: Transport | None = None
        self._waiting: deque[Body | Pending] = deque()
        """The first answer that is not there yet, and all behind it."""
        self._out: list[Part] = []
        self._ranged = False
        """Whether `_out` holds a range of a file."""
        self._outlet: Outlet | None = None
        self._held = 0
        """Bytes of answers given since nothing was left to send."""
        self._unwritten: Pending | None = None
        """What the last pass's answers wait for."""
        self._in_pass = False
        self._dirty = False
        self._blocked = False
        """Whether requests are held back: too many wait, or too much is unsent."""
        self._closing = False

    def _unblock(self) -> None:
        """Go on with the requests held back, if nothing stands in their way any more."""
        raise NotImplementedError

    @property
    def waits(self) -> bool:
        """Whether an answer is still waited for, of those to the requests handed over."""
        return bool(self._waiting)

    def _queue(self, answer: bytes | list[Part] | Pending) -> None:
        if isinstance(answer, Pending):
            if not answer.done:
                answer.wait_in(self)
            self._waiting.append(answer)
            return
        self._held += len(answer) if isinstance(answer, bytes) else sum(map(len, answer))
        if self._waiting:
            self._waiting.append(answer)
        elif isinstance(answer, list):
            self._add(answer)
        else:
            self._out.append(answer)

    def _add(self, answer: list[Part]) -> None:
        self._out += answer
        for part in answer:
            if isinstance(part, FileRange):
                self._ranged = True

    def answered(self) -> None:
        """A pending answer is there: send what may go, together with others of this turn."""
        if not self._in_pass:
            self._make_dirty()

    def failed(self, problem: Exception) -> None:
        """A pending answer cannot be given."""
        if self._unwritten is not None and self._unwritten.done:
            self._out.clear()
        if isinstance(problem, InvariantError):
            self._table.fatal(problem)
        else:
            self._refuse(problem)

    def _make_dirty(self) -> None:
        if not self._dirty and self._transport is not None:
            self._dirty = True
            self._table.send_soon(self)

    def send_ready(self) -> None:
        """Send the answers that are there and next in order; go on with requests held back."""
        self._dirty = False
        if self._transport is None:
            return
        if self._unwritten is not None and self._unwritten.done:
            self._unwritten = None
        if self._outlet is not None and self._outlet.busy:
            self._outlet.pump()
        self._collect_answered()
        self._send()
        if self._blocked:
            self._unblock()

    def _collect_answered(self) -> None:
        waiting, out = self._waiting, self._out
        while waiting:
            answer = waiting[0]
            if isinstance(answer, Pending):
                if not answer.done:
                    return
                answer = answer.parts()
            waiting.popleft()
            if isinstance(answer, list):
                self._add(answer)
            elif answer is not None:
                out.append(answer)

    def _send(self) -> None:
        out = self._out
        if self._unwritten is not None:
            return
        if not self._waiting:
            self._held = 0
        if not out:
            return
        self._out = []
        ranged, self._ranged = self._ranged, False
        if self._transport is None or self._closing:
            return
        self.last_moved = self._table.now()
        if ranged or (self._outlet is not None and self._outlet.busy):
            self._send_by_outlet(self._transport, out)
            return
        buffers = cast("list[Buffer]", out)
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        elif sum(map(len, buffers)) <= JOIN_BYTES_MAX:
            self._transport.write(b"".join(buffers))
        else:
            self._transport.writelines(buffers)

    def _send_by_outlet(self, transport: Transport, out: list[Part]) -> None:
        if self._outlet is None:
            high = self._table.limits.write_buffer_bytes_high
            self._outlet = Outlet(self, transport, self._table.piece, high)
        self._outlet.send(out)

    # as the client takes them: the transport's word, and the outlet's

    def pause_writing(self) -> None:
        """The client does not read its answers: handle no more of its requests until it does."""
        if self._outlet is None or not self._outlet.busy:
            self.write_blocked_since = self._table.now()

    def resume_writing(self) -> None:
        """The client has read: go on with what it asked meanwhile."""
        self.last_moved = self._table.now()
        if self._outlet is not None and self._outlet.busy:
            self._outlet.drained()
            # Not from here: asyncio forgets that a transport may be ended while it tells this.
            self._make_dirty()
        else:
            self._reads_again()

    def _reads_again(self) -> None:
        self.write_blocked_since = None
        if self._blocked:
            self._make_dirty()

    def go_on(self) -> None:
        """Give the others their turn, then send on."""
        self._make_dirty()

    def moved(self) -> None:
        """Judge by what is unsent whether more of the client's requests are handled.

        By the same marks as the transport's buffer is judged by.
        """
        outlet, transport = self._outlet, self._transport
        if outlet is None or transport is None:
            return
        self.last_moved = self._table.now()
        if self._closing:
            if not outlet.busy:
                transport.close()
            return
        high = self._table.limits.write_buffer_bytes_high
        unsent = outlet.unsent + transport.get_write_buffer_size()
        if unsent > high:
            if self.write_blocked_since is None:
                self.write_blocked_since = self.last_moved
        elif unsent <= high // 4 and self.write_blocked_since is not None:
            self._reads_again()

    def lost(self, problem: Exception) -> None:
        """An answer begun cannot be ended: end the connection."""
        if isinstance(problem, InvariantError):
            self._table.fatal(problem)
        elif isinstance(problem, HeadraceError):
            self.abort(str(problem))
        else:
            log.error("%s on %s: a bug", self.address, self.listener, exc_info=problem)
            self.abort("its answer met a bug")

    # ends

    def _refuse(self, problem: Exception) -> None:
        where = f"{self.address} on {self.listener}"
        if isinstance(problem, Malformed | CloseConnection):
            log.warning("%s: closed: %s", where, problem)
        else:
            log.error("%s: closed, its request met a bug", where, exc_info=problem)
        self.close()

    def close(self) -> None:
        """Send what is ready, then end the connection."""
        if self._transport is not None and not self._closing:
            self._closing = True
            if self.write_blocked_since is None:
                self.write_blocked_since = self._table.now()  # the deadline of what is unsent
            if self._outlet is None or not self._outlet.busy:
                self._transport.close()
            else:
                self._transport.pause_reading()  # `moved` closes when all has been handed over

    def abort(self, because: str) -> None:
        """End the connection now; what is unsent is lost."""
        if self._transport is not None:
            log.warning("%s on %s: dropped: %s", self.address, self.listener, because)
            self._transport.abort()
