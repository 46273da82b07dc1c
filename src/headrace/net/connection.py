"""One client's connection: frames in, answers out, in order and bounded.

What receives is here: frames, whether they may be handled now, the connection's beginning. What
is sent is in `answering`.
"""

import struct
from asyncio import BaseTransport, BufferedProtocol, Transport
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from headrace.model.invariant import InvariantError
from headrace.net.answering import Answers, Turns
from headrace.net.buffers import BufferPool
from headrace.net.inbox import LENGTH_BYTES, Inbox, no_frame
from headrace.net.limits import AUTHENTICATION_FRAME_BYTES_MAX
from headrace.net.pending import Pending
from headrace.net.session import CloseConnection, InTurn, Session
from headrace.ports.clock import Timer
from headrace.security.identity import ANONYMOUS, Principal

if TYPE_CHECKING:
    from headrace.net.places import Place

_unpack_length = struct.Struct(">i").unpack_from


class Admission(Turns, Protocol):
    """What a connection asks of who keeps them all. `table.ConnectionTable`."""

    scratch: memoryview
    pool: BufferPool
    blocked: int
    """How often a connection's requests were held back."""

    def call_later(self, seconds: float, callback: Callable[[], None], /) -> Timer:
        """Call `callback` in so many seconds."""

    def queues(self, connection: "Connection", /) -> bool:
        """Say whether a new connection must wait for its turn: `let_in` is called then."""

    def holds_off(self, connection: "Connection", /) -> bool:
        """Say whether a new connection comes too soon after others: it is ended in a while."""

    def admit(self, connection: "Connection", /) -> Session | None:
        """Return a session for a new connection, or None where a limit refuses it."""

    def leave(self, connection: "Connection", /) -> None:
        """Forget a connection that is gone."""

    def wait_for_memory(self, connection: "Connection", /) -> None:
        """Call the connection's `memory_freed` when large frames may be received again."""


class Connection(BufferedProtocol):
    """Receives frames, hands them to its session, has the answers sent in the requests' order."""

    def __init__(self, table: Admission, listener: str) -> None:
        self._table = table
        self.listener = listener
        self.answers = Answers(table, listener, self._unblock)
        """What it sends."""
        self.address = ""
        """The peer's address as text, without port."""
        self.port = -1
        """The peer's port."""
        self.principal: Principal = ANONYMOUS
        """Who the peer's certificate says it is."""
        self.place: Place | None = None
        """Its place among all; TLS brings the one that its handshake had."""
        self.frames = 0
        """Whole frames handled so far."""
        self.opened = self.answers.last_moved
        self.frame_since: float | None = None
        """When the frame being received began, for its deadline."""
        self.authenticated = True
        """False from its session's making until it is known who is at the other end, where that
        must be known: narrower limits hold until then."""
        self._inbox = Inbox(table.scratch, table.pool)
        self._session: Session | None = None
        self._in_turn = False
        """Whether the next frame is taken once nothing waits any more."""
        self._queued = False
        """Whether it waits to be let in."""
        self._muted = False
        self._muted_until = 0.0
        self._needs_memory = False
        self._large_idle = False
        self.quiet = False

    # asyncio's side

    def connection_made(self, transport: BaseTransport) -> None:
        """Enter the table, or wait for that where connections come too fast."""
        peer = transport.get_extra_info("peername")
        self.address = self.answers.address = str(peer[0]) if isinstance(peer, tuple) else "local"
        self.port = int(peer[1]) if isinstance(peer, tuple) else -1
        self.principal = transport.get_extra_info("principal") or self.principal
        self.place = transport.get_extra_info("place")
        made = self.answers.transport = cast("Transport", transport)
        if self.place is None and self._table.queues(self):
            self._queued = True
            self._leave_unread()
        else:
            self._enter(made)

    def let_in(self) -> None:
        """Enter the table and handle what came meanwhile: the connection's turn has come."""
        self._queued = False
        transport = self.answers.transport
        if transport is not None:
            self._enter(transport)
            if self._inbox.filled:
                self._pass()
            if self._session is not None:
                self._resume_reading()

    def _leave_unread(self) -> None:
        self._pause_reading()
        # uvloop begins to read when `connection_made` has returned, told to pause or not.
        self._table.call_later(0, self._pause_unless_let_in)

    def _pause_unless_let_in(self) -> None:
        if self._session is None:
            self._pause_reading()

    def _enter(self, transport: Transport) -> None:
        """Take a place in the table, or be closed at once where a limit says so."""
        if self.place is None and self._table.holds_off(self):
            return self._leave_unread()
        self.opened = self.answers.last_moved = self._table.now()
        self._session = self._table.admit(self)
        if self._session is None:
            return transport.abort()
        transport.set_write_buffer_limits(high=self._table.limits.write_buffer_bytes_high)

    def connection_lost(self, exc: Exception | None) -> None:
        """Free everything held for this client, and tell its session."""
        session, self._session = self._session, None
        self.answers.lose()
        if not self.answers.in_pass:
            self._inbox.release()
        if session is not None:
            self._table.leave(self)
            session.closed()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory that the next bytes are received into."""
        return self._inbox.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle all whole frames that have come, `nbytes` more with this read."""
        inbox = self._inbox
        inbox.filled += nbytes
        self.answers.last_moved = self._table.now()
        if inbox.whole_frame_possible():
            self._pass()

    def pause_writing(self) -> None:
        """Handle no more requests: the client does not read its answers."""
        self.answers.pause_writing()

    def resume_writing(self) -> None:
        """Handle requests again: the client has read its answers."""
        self.answers.resume_writing()

    def eof_received(self) -> bool:
        """Close the connection: who asks nothing more gets nothing more, as with Kafka."""
        return False

    @property
    def waits(self) -> bool:
        """Whether an answer is still waited for, of those to the requests handed over."""
        return bool(self.answers.waiting)

    @property
    def last_moved(self) -> float:
        """When anything was last received or sent."""
        return self.answers.last_moved

    def known(self) -> None:
        """Lift the limits of who has not authenticated."""
        self.authenticated = True
        if self.place is not None:
            self.place.known()

    def failed(self, seconds: float) -> None:
        """Read no more of who failed to authenticate; its place is kept for so many seconds."""
        if self.place is not None:
            self.place.failed(seconds)
        self.quiesce()

    def close(self) -> None:
        """Send what is ready, then end the connection."""
        self.answers.close()

    def abort(self, because: str) -> None:
        """End the connection now; what is unsent is lost."""
        self.answers.abort(because)

    # requests

    def _pass(self) -> None:
        """Handle the whole frames, send their answers, keep the bytes of the unfinished frame."""
        session, answers = self._session, self.answers
        if session is None or answers.closing or self.quiet:
            if self._queued:
                self._inbox.keep(0, 0)  # for when it is let in; no more is read until then
                self._pause_reading()
            return
        problem: Exception | None = None
        reached = 0
        answers.in_pass = True
        try:
            reached = self._handle_frames(session)
        except InvariantError as broken:
            self._table.fatal(broken)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one connection
            problem = error
        try:
            answers.unwritten = session.pass_done()
        except CloseConnection as error:
            problem = error
            answers.out.clear()
        answers.in_pass = False
        if answers.transport is None:
            self._inbox.release()
            return
        if answers.unwritten is not None:
            answers.unwritten.wait_in(answers)
            self._block()
        if answers.waiting:
            answers.collect_answered()
        if problem is None:
            self._keep_from(reached)
        answers.send()
        if problem is not None:
            answers.refuse(problem)
        elif answers.blocked and not self._must_wait():
            answers.make_dirty()  # it took all: the others have their turn, then this one goes on

    def _handle_frames(self, session: Session) -> int:
        """Hand over whole frames; return where the first unhandled one begins."""
        at = 0
        view, filled = self._inbox.view, self._inbox.filled
        limits, answers = self._table.limits, self.answers
        frame_max, waiting_max = limits.frame_bytes_max, limits.waiting_answers_max
        if not self.authenticated:
            frame_max = min(frame_max, AUTHENTICATION_FRAME_BYTES_MAX)
        held_max = limits.write_buffer_bytes_high
        waiting, out, handle = answers.waiting, answers.out, session.frame
        while filled - at >= LENGTH_BYTES:
            (size,) = _unpack_length(view, at)
            if not 0 < size <= frame_max:
                raise no_frame(size, frame_max)
            end = at + LENGTH_BYTES + size
            if end > filled:
                break
            if (
                self._muted
                or answers.write_blocked_since is not None
                or answers.held > held_max
                or (waiting and (len(waiting) >= waiting_max or self._one_alone()))
            ):
                self._block()
                break
            run = session.run(view, at, filled) if end + LENGTH_BYTES < filled else None
            if run is None:
                try:
                    answer = handle(view[at + LENGTH_BYTES : end])
                except InTurn:
                    self._in_turn = True
                    self._block()
                    break
                at = end
                self.frames += 1
            else:
                at, frames, answer = run
                self.frames += frames
            if type(answer) is bytes and not waiting:
                answers.held += len(answer)
                out.append(answer)
            elif answer is not None:
                answers.queue(answer)
        return at

    def _keep_from(self, at: int) -> None:
        inbox = self._inbox
        rest = inbox.filled - at
        need = 0
        if rest >= LENGTH_BYTES:
            need = LENGTH_BYTES + _unpack_length(inbox.view, at)[0]
        if rest == 0 or self.answers.blocked:
            self.frame_since = None
        elif self.frame_since is None or at:
            self.frame_since = self.answers.last_moved
        if not inbox.keep(at, need):
            self._needs_memory = True
            self._table.wait_for_memory(self)
            self._pause_reading()
        self._large_idle = False

    def memory_freed(self) -> bool:
        """Go on receiving a large frame. False: there is still no room for it."""
        if self.answers.transport is None or not self._needs_memory:
            return True
        if not self._inbox.grow():
            return False
        self._needs_memory = False
        self._resume_reading()
        return True

    # whether requests are handled

    def mute(self, seconds: float) -> None:
        """Handle no more requests for `seconds`; answers go out all the same (KIP-219)."""
        until = self._table.now() + seconds
        if until <= self._muted_until:
            return
        self._muted_until = until
        self._block()
        self.frame_since = None  # it is us who do not read
        if not self._muted:
            self._muted = True
            self._table.call_later(seconds, self._unmute)

    def _unmute(self) -> None:
        left = self._muted_until - self._table.now()
        if left > 0:
            self._table.call_later(left, self._unmute)
            return
        self._muted = False
        self.answers.last_moved = self._table.now()
        if self.answers.blocked and self.answers.transport is not None and not self.answers.in_pass:
            self._unblock()

    def _block(self) -> None:
        """Hold back the requests that are left: too many wait, or too much is unsent."""
        if not self.answers.blocked:
            self.answers.blocked = True
            self._table.blocked += 1
            self._pause_reading()

    def _one_alone(self) -> bool:
        """Tell whether nothing is handled behind the last request, whose answer waits."""
        last = self.answers.waiting[-1]
        return isinstance(last, Pending) and last.alone

    def _must_wait(self) -> bool:
        """Tell whether the requests held back stay where they are."""
        limits, waiting = self._table.limits, self.answers.waiting
        if self._muted or self.answers.unwritten is not None:
            return True
        if (
            self.answers.write_blocked_since is not None
            or self.answers.held > limits.write_buffer_bytes_high
        ):
            return True
        if not waiting:
            return False
        if self._in_turn or len(waiting) > limits.waiting_answers_max // 2:
            return True
        return self._one_alone()

    def _unblock(self) -> None:
        if self._must_wait():
            return
        self.answers.blocked = self._in_turn = False
        self._pass()
        if not self.answers.blocked:
            self._resume_reading()

    def _pause_reading(self) -> None:
        if self.answers.transport is not None and not self.answers.closing:
            self.answers.transport.pause_reading()

    def _resume_reading(self) -> None:
        held = self.answers.closing or self.quiet or self.answers.blocked or self._needs_memory
        if self.answers.transport is not None and not held:
            self.answers.transport.resume_reading()

    def quiesce(self) -> None:
        """Read no more requests, for good; those taken are still answered."""
        self._pause_reading()
        self.quiet = True

    @property
    def idle(self) -> bool:
        """Whether nothing is being received, worked on or sent."""
        return not self.answers.waiting and not self.answers.out and self._inbox.filled == 0

    def sweep_buffer(self) -> None:
        """Give a large buffer back that was not used since the last sweep but one."""
        inbox = self._inbox
        if inbox.holds_large and inbox.filled == 0 and not self.answers.in_pass:
            if self._large_idle:
                inbox.release()
            self._large_idle = not self._large_idle
