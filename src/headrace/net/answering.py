"""A connection's answers: out in the requests' order and bounded, and how a connection ends."""

import logging
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


class Turns(Protocol):
    """What connections share to send by. `table.ConnectionTable`."""

    limits: Limits
    piece: memoryview
    """Where what is sent of files is read to, by whoever's turn it is."""

    def now(self) -> float:
        """Return the seconds of a clock that only goes forward."""

    def fatal(self, problem: Exception, /) -> None:
        """Stop the process: an invariant is broken."""

    def send_soon(self, answers: "Answers", /) -> None:
        """Have `answers.send_ready` called when this turn of the loop is over."""


class Answers:
    """What one connection sends. `pending.Waiter` and `outlet.Owner`."""

    __slots__ = (
        "_dirty", "_handle_more", "_outlet", "_ranged", "_turns", "address", "awaits_room",
        "blocked", "closing", "ending", "held", "in_pass", "last_moved", "last_sent", "listener",
        "on_room", "out", "transport", "unwritten", "waiting", "write_blocked_since",
    )  # fmt: skip

    def __init__(self, turns: Turns, listener: str, handle_more: "Callable[[], None]") -> None:
        """`handle_more`: called where requests may be handled that are held back."""
        self.listener = listener
        self.address = ""
        """The peer's address as text, without port."""
        self.last_moved = self.last_sent = turns.now()
        """When something was last received or sent; and when it was last sent."""
        self.write_blocked_since: float | None = None
        """Since when the client has left too many answers unread."""
        self.transport: Transport | None = None
        """None before the connection is made and after it is lost."""
        self.waiting: deque[Body | Pending] = deque()
        """The first answer that is not there yet, and all behind it."""
        self.out: list[Part] = []
        """What is sent next."""
        self.held = 0
        """Bytes of answers given since nothing was left to send."""
        self.unwritten: Pending | None = None
        """What the last pass's answers wait for."""
        self.in_pass = False
        """Whether requests are being handled: what they lead to is sent at the end."""
        self.blocked = False
        """Whether requests are held back: too many wait, or too much is unsent."""
        self.closing = False
        self.ending = False
        """Whether the connection ends once all that is ready is handed over."""
        self.awaits_room = False
        """Whether `on_room` is called once there is room."""
        self.on_room = _nothing
        """Has a session that pushes go on with that."""
        self._turns = turns
        self._handle_more = handle_more
        self._ranged = False
        """Whether `out` holds a range of a file."""
        self._outlet: Outlet | None = None
        self._dirty = False

    def queue(self, answer: bytes | list[Part] | Pending) -> None:
        """Take the answer to the next request."""
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
        """Send what may go now that a pending answer is there, with others of this turn."""
        if not self.in_pass:
            self.make_dirty()

    def failed(self, problem: Exception) -> None:
        """End the connection: a pending answer cannot be given."""
        if self.unwritten is not None and self.unwritten.done:
            self.out.clear()
        if isinstance(problem, InvariantError):
            self._turns.fatal(problem)
        else:
            self.refuse(problem)

    def make_dirty(self) -> None:
        """Have `send_ready` called when the others had their turn."""
        if not self._dirty and self.transport is not None:
            self._dirty = True
            self._turns.send_soon(self)

    def send_ready(self) -> None:
        """Send the answers that are there and next in order; go on with requests held back."""
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
        """Take out of the queue what is there and next in order."""
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
        """Hand over what is to be sent now."""
        out = self.out
        if self.unwritten is not None:
            return
        if not self.waiting:
            self.held = 0
        if not out:
            return
        self.out = []
        ranged, self._ranged = self._ranged, False
        if self.transport is None or self.closing:
            return
        self.last_moved = self.last_sent = self._turns.now()
        if ranged or (self._outlet is not None and self._outlet.busy):
            self._send_by_outlet(self.transport, out)
            return
        buffers: list[Buffer] = out  # type: ignore[assignment]  # no range
        if len(buffers) == 1:
            self.transport.write(buffers[0])
        elif sum(map(len, buffers)) <= JOIN_BYTES_MAX:
            self.transport.write(b"".join(buffers))
        else:
            self.transport.writelines(buffers)

    def _send_by_outlet(self, transport: Transport, out: list[Part]) -> None:
        if self._outlet is None:
            high = self._turns.limits.write_buffer_bytes_high
            self._outlet = Outlet(self, transport, self._turns.piece, high)
        self._outlet.send(out)

    # as the client takes them: the transport's word, and the outlet's

    def pause_writing(self) -> None:
        """Handle no more requests until the client reads its answers."""
        if self._outlet is None or not self._outlet.busy:
            self.write_blocked_since = self._turns.now()

    def resume_writing(self) -> None:
        """Go on with what the client asked meanwhile: it has read its answers."""
        self.last_moved = self._turns.now()
        if self._outlet is not None and self._outlet.busy:
            self._outlet.drained()
            # Not from here: asyncio forgets that a transport may be ended while it tells this.
            self.make_dirty()
        else:
            self._reads_again()

    def _reads_again(self) -> None:
        self.write_blocked_since = None
        if self.blocked or self.awaits_room:
            self.make_dirty()

    @property
    def has_room(self) -> bool:
        """Whether the client reads, and what is not handed over yet is within the bound."""
        return (
            self.write_blocked_since is None
            and self.unwritten is None
            and self.held <= self._turns.limits.write_buffer_bytes_high
        )

    def go_on(self) -> None:
        """Give the others their turn, then send on."""
        self.make_dirty()

    def moved(self) -> None:
        """Handle more of the client's requests, or none, by how many bytes are unsent.

        By the same marks as the transport's buffer is judged by.
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
        """End the connection at once: an answer that was begun cannot be ended."""
        if isinstance(problem, InvariantError):
            self._turns.fatal(problem)
        elif isinstance(problem, HeadraceError):
            self.abort(str(problem))
        else:
            log.error(
                "%s on %s: an answer met a bug of Headrace: please report it with this trace",
                self.address, self.listener, exc_info=problem,
            )  # fmt: skip
            self.abort("its answer met a bug of Headrace")

    # ends

    def lose(self) -> None:
        """Drop all answers: the connection is gone."""
        self.transport = None
        # the connection is freed without the garbage collector
        self._handle_more = self.on_room = _nothing
        waiting, self.waiting = self.waiting, deque()
        for answer in waiting:
            if isinstance(answer, Pending):
                answer.abandon()
        self.out = []
        if self._outlet is not None:
            self._outlet.drop()

    def refuse(self, problem: Exception) -> None:
        """Log why the connection ends, and close it."""
        where = f"{self.address} on {self.listener}"
        if isinstance(problem, Malformed | CloseConnection):
            log.warning("%s: the connection is closed: %s", where, problem)
        else:
            log.error(
                "%s: the connection is closed: a request of it met a bug of Headrace: please report"
                " it with this trace", where, exc_info=problem,
            )  # fmt: skip
        self.close()

    def close(self) -> None:
        """Send what is ready, then end the connection."""
        if self.transport is not None and not self.closing:
            self.closing = True
            if self.write_blocked_since is None:
                self.write_blocked_since = self._turns.now()  # the deadline of what is unsent
            if self._outlet is None or not self._outlet.busy:
                self.transport.close()
            else:
                self.transport.pause_reading()  # `moved` closes when all has been handed over

    def abort(self, because: str) -> None:
        """End the connection now; what is unsent is lost."""
        if self.transport is not None:
            log.warning(
                "%s on %s: the connection is dropped: %s", self.address, self.listener, because
            )
            self.transport.abort()


def _nothing() -> None:
    """Do nothing: no request is left."""
