"""`Answers`: a connection's answers, sent in the order of requests and within limits; its closing.

queue -> waiting (from the first pending answer on) -> out -> transport, or Outlet for files
blocked: requests are held back, as too many wait, too many bytes are unsent or unread
ending (close once all is sent) -> closing (transport closes) -> lost (transport is None)
"""

import logging
import sys
from asyncio import Transport
from collections import deque
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import HeadraceError, Malformed
from headrace.model.invariant import InvariantError
from headrace.net.limits import JOIN_BYTES_MAX, Limits
from headrace.net.outlet import Outlet
from headrace.net.pending import Body, Pending
from headrace.net.session import CloseConnection
from headrace.ports.file_ranges import FileRange, Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.ports.disk import Buffer

log = logging.getLogger(__name__)
_WRITELINES_NEVER_PAUSES = (3, 12) <= sys.version_info < (3, 12, 9) or (
    (3, 13) <= sys.version_info < (3, 13, 2)
)
"""Whether asyncio's `writelines` does not call `pause_writing` (CVE-2024-12254): answers to a
client that reads nothing would have no bound. Setting the limits again has them checked. uvloop
checks them itself."""


class ConnectionTraffic:
    """Counters of what a connection received and sent, without the bytes that TLS adds."""

    __slots__ = ("reads", "received_bytes", "sent_bytes", "writes")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.reads = 0
        """Reads of the socket, each of which may bring several frames or a part of one."""
        self.sent_bytes = 0
        """Bytes passed to the transport, of which some may not have left yet."""
        self.writes = 0
        """Writes, each of which may send many frames."""


class Turns(Protocol):
    """The send resources that connections share. Implemented by `table.ConnectionTable`."""

    limits: Limits
    piece: memoryview
    """Shared buffer for pieces of files; used by one connection at a time."""

    def now(self) -> float:
        """Return monotonic seconds."""

    def fatal(self, problem: Exception, /) -> None:
        """Stop the process, as an invariant is broken."""

    def send_soon(self, answers: "Answers", /) -> None:
        """Call `answers.send_ready` at the end of this turn of the loop."""


class Answers:
    """The sending half of one connection. Implements `pending.Waiter` and `outlet.Owner`."""

    __slots__ = (
        "_dirty", "_handle_more", "_outlet", "_ranged", "_turns", "address", "awaits_room",
        "blocked", "closing", "ending", "guard", "held", "in_pass", "last_moved", "last_sent",
        "listener", "on_room", "out", "traffic", "transport", "unwritten", "waiting",
        "write_blocked_since",
    )  # fmt: skip

    def __init__(self, turns: Turns, listener: str, handle_more: "Callable[[], None]") -> None:
        """Make a connection's answers; `handle_more` lets it handle held-back requests."""
        self.listener = listener
        self.address = ""
        """The peer's address as text, without port."""
        self.last_moved = self.last_sent = turns.now()
        """Times of the last receive or send, and of the last send, in monotonic seconds."""
        self.write_blocked_since: float | None = None
        """Since when the client leaves too many bytes unread; None if it reads."""
        self.traffic = ConnectionTraffic()
        """Counters of the connection's bytes, in both directions."""
        self.transport: Transport | None = None
        """None before the connection is made and after it is lost."""
        self.waiting: deque[Body | Pending] = deque()
        """The first answer that is not resolved yet, and all answers behind it."""
        self.out: list[Part] = []
        """Parts to be sent next."""
        self.held = 0
        """Bytes of answers queued since the last time that nothing was left to send."""
        self.unwritten: Pending | None = None
        """The result of the last pass's writes, which its answers wait for; else None."""
        self.in_pass = False
        """Whether requests are being handled; answers are sent at the end of the pass."""
        self.blocked = False
        """Whether requests are held back: too many wait, or too many bytes are unsent."""
        self.closing = False
        self.ending = False
        """Whether the connection is closed once everything ready is sent."""
        self.awaits_room = False
        """Whether to call `on_room` once there is room to send."""
        self.on_room = _nothing
        """Lets a stream session continue to push."""
        self.guard: Callable[[], bool] | None = None
        """Tells whether the parts in `out` may still be sent; None: they may."""
        self._turns = turns
        self._handle_more = handle_more
        self._ranged = False
        """Whether `out` contains a range of a file."""
        self._outlet: Outlet | None = None
        self._dirty = False

    def queue(self, answer: bytes | list[Part] | Pending) -> None:
        """Queue the answer to the next request."""
        if isinstance(answer, Pending):
            if not answer.done:
                answer.wait_in(self)
            self.waiting.append(answer)
            return
        self.held += len(answer) if isinstance(answer, bytes) else sum(map(len, answer))
        if self.waiting:
            self.waiting.append(answer)
        elif isinstance(answer, list):
            self._add(answer)
        else:
            self.out.append(answer)

    def _add(self, answer: list[Part]) -> None:
        self.out += answer
        for part in answer:
            if isinstance(part, FileRange):
                self._ranged = True

    def answered(self) -> None:
        """Send ready answers at the end of this turn, as a pending one was resolved."""
        if not self.in_pass:
            self.make_dirty()

    def failed(self, problem: Exception) -> None:
        """Close the connection, as a pending answer failed."""
        if self.unwritten is not None and self.unwritten.done:
            self.out.clear()
        if isinstance(problem, InvariantError):
            self._turns.fatal(problem)
        else:
            self.refuse(problem)

    def make_dirty(self) -> None:
        """Call `send_ready` at the end of this turn of the loop."""
        if not self._dirty and self.transport is not None:
            self._dirty = True
            self._turns.send_soon(self)

    def send_ready(self) -> None:
        """Send the answers that are ready and next in order; then handle held-back requests."""
        self._dirty = False
        if self.transport is None:
            return
        if self.unwritten is not None and self.unwritten.done:
            self.unwritten = None
        if self._outlet is not None and self._outlet.busy:
            self._outlet.pump()
        self.collect_answered()
        self.send()
        if self.ending and self.unwritten is None:
            self.close()
        if self.blocked:
            self._handle_more()
        if self.awaits_room and self.has_room:
            self.awaits_room = False
            self.on_room()

    def collect_answered(self) -> None:
        """Move the ready answers at the queue's head to `out`."""
        waiting, out = self.waiting, self.out
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

    def send(self) -> None:
        """Write `out` to the transport, unless the pass's writes are unfinished."""
        out = self.out
        if self.unwritten is not None:
            return
        if not self.waiting:
            self.held = 0
        if not out:
            return
        self.out = []
        ranged, self._ranged = self._ranged, False
        guard, self.guard = self.guard, None
        if self.transport is None or self.closing:
            return
        if guard is not None and not guard():
            self.abort("this process stood still, and what it was about to send is not valid now")
            return
        self.last_moved = self.last_sent = self._turns.now()
        size = len(out[0]) if len(out) == 1 else sum(map(len, out))
        self.traffic.writes += 1
        self.traffic.sent_bytes += size
        if ranged or (self._outlet is not None and self._outlet.busy):
            self._send_by_outlet(self.transport, out)
            return
        buffers: list[Buffer] = out  # type: ignore[assignment]  # no range
        if len(buffers) == 1:
            self.transport.write(buffers[0])
        elif size <= JOIN_BYTES_MAX:
            self.transport.write(b"".join(buffers))
        else:
            self.transport.writelines(buffers)
            if _WRITELINES_NEVER_PAUSES:
                self.transport.set_write_buffer_limits(
                    high=self._turns.limits.write_buffer_bytes_high
                )

    def _send_by_outlet(self, transport: Transport, out: list[Part]) -> None:
        if self._outlet is None:
            high = self._turns.limits.write_buffer_bytes_high
            self._outlet = Outlet(self, transport, self._turns.piece, high)
        self._outlet.send(out)

    # flow control: calls of the transport and of the outlet

    def pause_writing(self) -> None:
        """Hold back requests until the client reads its answers."""
        if self._outlet is None or not self._outlet.busy:
            self.write_blocked_since = self._turns.now()

    def resume_writing(self) -> None:
        """Handle held-back requests, as the client has read its answers."""
        self.last_moved = self._turns.now()
        if self._outlet is not None and self._outlet.busy:
            self._outlet.drained()
            # Not in this call: asyncio assumes that it does not close the transport.
            self.make_dirty()
        else:
            self._reads_again()

    def _reads_again(self) -> None:
        self.write_blocked_since = None
        if self.blocked or self.awaits_room:
            self.make_dirty()

    @property
    def has_room(self) -> bool:
        """Whether the client reads, and the unsent bytes are within the limit."""
        return (
            self.write_blocked_since is None
            and self.unwritten is None
            and self.held <= self._turns.limits.write_buffer_bytes_high
        )

    def go_on(self) -> None:
        """Continue to send in the next turn of the loop."""
        self.make_dirty()

    def moved(self) -> None:
        """Hold back or handle requests by the number of unsent bytes.

        With the same marks as for the transport's buffer.
        """
        outlet, transport = self._outlet, self.transport
        if outlet is None or transport is None:
            return
        self.last_moved = self._turns.now()
        if self.closing:
            if not outlet.busy:
                transport.close()
            return
        high = self._turns.limits.write_buffer_bytes_high
        unsent = outlet.unsent + transport.get_write_buffer_size()
        if unsent > high:
            if self.write_blocked_since is None:
                self.write_blocked_since = self.last_moved
        elif unsent <= high // 4 and self.write_blocked_since is not None:
            self._reads_again()

    def lost(self, problem: Exception) -> None:
        """Close the connection at once, as an answer was sent in part and cannot be completed."""
        if isinstance(problem, InvariantError):
            self._turns.fatal(problem)
        elif isinstance(problem, HeadraceError):
            self.abort(str(problem))
        else:
            log.error(
                "%s on %s: an answer met a bug of Headrace: please report it with this trace",
                self.address, self.listener, exc_info=problem,
            )  # fmt: skip
            self.abort("an answer met a bug of Headrace")

    # ends

    def lose(self) -> None:
        """Drop all answers of a closed connection."""
        self.transport = None
        # so that the connection is freed without the garbage collector
        self._handle_more = self.on_room = _nothing
        waiting, self.waiting = self.waiting, deque()
        for answer in waiting:
            if isinstance(answer, Pending):
                answer.abandon()
        self.out = []
        if self._outlet is not None:
            self._outlet.drop()

    def refuse(self, problem: Exception) -> None:
        """Log why the connection is closed, and close it."""
        where = f"{self.address} on {self.listener}"
        if isinstance(problem, Malformed | CloseConnection):
            log.warning("%s: closing the connection: %s", where, problem)
        else:
            log.error(
                "%s: closing the connection: a request met a bug of Headrace: please report"
                " it with this trace", where, exc_info=problem,
            )  # fmt: skip
        self.close()

    def close(self) -> None:
        """Send everything ready, then close the connection."""
        if self.transport is not None and not self.closing:
            self.closing = True
            if self.write_blocked_since is None:
                self.write_blocked_since = self._turns.now()  # the deadline of unsent answers
            if self._outlet is None or not self._outlet.busy:
                self.transport.close()
            else:
                self.transport.pause_reading()  # `moved` closes it when everything is sent

    def abort(self, because: str) -> None:
        """Close the connection at once, dropping unsent bytes, and log `because`."""
        if self.transport is not None:
            log.warning(
                "%s on %s: dropping the connection: %s", self.address, self.listener, because
            )
            self.transport.abort()


def _nothing() -> None:
    """Do nothing: the callbacks of a closed connection."""
