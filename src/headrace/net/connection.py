"""One client's connection: frames in, answers out, in order and bounded.

What receives is here: frames, whether they may be handled now, the connection's beginning. What
sends is the other half, `answering`.
"""

import struct
from asyncio import BaseTransport, Transport
from collections import deque
from typing import TYPE_CHECKING, cast

from headrace.model.errors import Malformed
from headrace.model.invariant import InvariantError
from headrace.net.answering import Answering
from headrace.net.inbox import LENGTH_BYTES, Inbox
from headrace.net.pending import Pending
from headrace.net.session import CloseConnection, InTurn, Session

if TYPE_CHECKING:
    from headrace.net.table import ConnectionTable

_unpack_length = struct.Struct(">i").unpack_from


class Connection(Answering):
    """Receives frames, hands them to its session, sends the answers in the requests' order."""

    def __init__(self, table: "ConnectionTable", listener: str) -> None:
        super().__init__(table, listener)
        self.port = -1
        """The peer's port."""
        self.frames = 0
        """Whole frames handled so far."""
        self.opened = self.last_moved
        self.frame_since: float | None = None
        """When the frame being received began, for its deadline."""
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
        self._quiet = False

    # asyncio's side

    def connection_made(self, transport: BaseTransport) -> None:
        """Enter, or wait for that where connections come too fast."""
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else "local"
        self.port = int(peer[1]) if isinstance(peer, tuple) else -1
        self._transport = cast("Transport", transport)
        if self._table.queues(self):
            self._queued = True
            self._leave_unread()
        else:
            self._enter(self._transport)

    def let_in(self) -> None:
        """It has waited for its turn, which has come."""
        self._queued = False
        if self._transport is not None:
            self._enter(self._transport)
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
        if self._table.holds_off(self):
            self._leave_unread()
            return
        self.opened = self.last_moved = self._table.now()
        self._session = self._table.admit(self)
        if self._session is None:
            transport.abort()
            return
        transport.set_write_buffer_limits(high=self._table.limits.write_buffer_bytes_high)

    def connection_lost(self, exc: Exception | None) -> None:
        """Free all that was held for this client."""
        self._transport = None
        session, self._session = self._session, None
        waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            if isinstance(answer, Pending):
                answer.abandon()
        self._out = []
        if self._outlet is not None:
            self._outlet.drop()
        if not self._in_pass:
            self._inbox.release()
        if session is not None:
            self._table.leave(self)
            session.closed()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._inbox.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle all whole frames now there."""
        inbox = self._inbox
        inbox.filled += nbytes
        self.last_moved = self._table.now()
        if inbox.whole_frame_possible():
            self._pass()

    def eof_received(self) -> bool:
        """A client that will ask nothing more gets nothing more, as with Kafka."""
        return False

    # requests

    def _pass(self) -> None:
        """Handle what is there, send the answers, carry over what is unfinished."""
        session = self._session
        if session is None or self._closing or self._quiet:
            if self._queued:
                self._inbox.keep(0, 0)  # for when it is let in; no more is read until then
                self._pause_reading()
            return
        problem: Exception | None = None
        reached = 0
        self._in_pass = True
        try:
            reached = self._handle_frames(session)
        except InvariantError as broken:
            self._table.fatal(broken)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one connection
            problem = error
        try:
            self._unwritten = session.pass_done()
        except CloseConnection as error:
            problem = error
            self._out.clear()
        self._in_pass = False
        if self._transport is None:
            self._inbox.release()
            return
        if self._unwritten is not None:
            self._unwritten.wait_in(self)
            self._block()
        if self._waiting:
            self._collect_answered()
        if problem is None:
            self._keep_from(reached)
        self._send()
        if problem is not None:
            self._refuse(problem)
        elif self._blocked and not self._must_wait():
            self._make_dirty()  # it took all: the others have their turn, then this one goes on

    def _handle_frames(self, session: Session) -> int:
        """Hand over whole frames; return where the first unhandled one begins."""
        at = 0
        view, filled = self._inbox.view, self._inbox.filled
        limits = self._table.limits
        frame_max, waiting_max = limits.frame_bytes_max, limits.waiting_answers_max
        held_max = limits.write_buffer_bytes_high
        waiting, out, handle = self._waiting, self._out, session.frame
        while filled - at >= LENGTH_BYTES:
            (size,) = _unpack_length(view, at)
            if not 0 < size <= frame_max:
                raise Malformed(f"frame of {size} bytes announced, at most {frame_max} are taken")
            end = at + LENGTH_BYTES + size
            if end > filled:
                break
            if (
                self._muted
                or self.write_blocked_since is not None
                or self._held > held_max
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
                self._held += len(answer)
                out.append(answer)
            elif answer is not None:
                self._queue(answer)
        return at

    def _keep_from(self, at: int) -> None:
        inbox = self._inbox
        rest = inbox.filled - at
        need = 0
        if rest >= LENGTH_BYTES:
            need = LENGTH_BYTES + _unpack_length(inbox.view, at)[0]
        if rest == 0 or self._blocked:
            self.frame_since = None
        elif self.frame_since is None or at > 0:
            self.frame_since = self.last_moved
        if not inbox.keep(at, need):
            self._needs_memory = True
            self._table.wait_for_memory(self)
            self._pause_reading()
        self._large_idle = False

    def memory_freed(self) -> bool:
        """Large frames may be received again. False: there is still no room for this one."""
        if self._transport is None or not self._needs_memory:
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
        self.last_moved = self._table.now()
        if self._blocked and self._transport is not None and not self._in_pass:
            self._unblock()

    def _block(self) -> None:
        """Too many requests wait or too much is unsent: leave the rest where it is."""
        if not self._blocked:
            self._blocked = True
            self._table.blocked += 1
            self._pause_reading()

    def _one_alone(self) -> bool:
        """Whether nothing is handled behind the request handed over last, whose answer waits."""
        last = self._waiting[-1]
        return isinstance(last, Pending) and last.alone

    def _must_wait(self) -> bool:
        """Whether the requests held back stay where they are."""
        limits, waiting = self._table.limits, self._waiting
        if self._muted or self._unwritten is not None:
            return True
        if self.write_blocked_since is not None or self._held > limits.write_buffer_bytes_high:
            return True
        if not waiting:
            return False
        if self._in_turn or len(waiting) > limits.waiting_answers_max // 2:
            return True
        return self._one_alone()

    def _unblock(self) -> None:
        if self._must_wait():
            return
        self._blocked = self._in_turn = False
        self._pass()
        if not self._blocked:
            self._resume_reading()

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        held = self._closing or self._quiet or self._blocked or self._needs_memory
        if self._transport is not None and not held:
            self._transport.resume_reading()

    def quiesce(self) -> None:
        """Read no more requests, for good; those taken are still answered."""
        self._pause_reading()
        self._quiet = True

    @property
    def idle(self) -> bool:
        """Whether nothing is being received, worked on or sent."""
        return not self._waiting and not self._out and self._inbox.filled == 0

    def sweep_buffer(self) -> None:
        """Give a large buffer back that was not used since the last sweep but one."""
        inbox = self._inbox
        if inbox.holds_large and inbox.filled == 0 and not self._in_pass:
            if self._large_idle:
                inbox.release()
            self._large_idle = not self._large_idle
