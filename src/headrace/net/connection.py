"""`Connection`: one client's connection, its receiving half and its life cycle.

    connection_made -> queued (connection rate) -> let_in -> open -> quiet or closing -> lost
    open: receiving <-> blocked (answers wait, unread bytes, muted, or no memory for a large frame)

It decides whether received frames may be handled now. `answering` has the sending half.
"""

from asyncio import BaseTransport, BufferedProtocol, Transport
from typing import TYPE_CHECKING, cast

from headrace.model.invariant import InvariantError
from headrace.net.answering import Answers
from headrace.net.foreign_clients import ForeignClient
from headrace.net.inbox import Inbox
from headrace.net.limits import AUTHENTICATION_FRAME_BYTES_MAX
from headrace.net.pending import Pending
from headrace.net.requests import handle_requests, need_of_request
from headrace.net.session import CloseConnection, Session
from headrace.net.stream import Stream, StreamSession
from headrace.security.identity import ANONYMOUS, Principal
from headrace.wire.first_bytes import FIRST_BYTES

if TYPE_CHECKING:
    from headrace.net.admission import Admission
    from headrace.net.connection_places import Place


class Connection(BufferedProtocol):
    """A client connection: receives frames, calls its session, sends answers in request order."""

    def __init__(self, table: "Admission[Connection]", listener: str) -> None:
        self._table = table
        self.listener = listener
        self.answers = Answers(table, listener, self._unblock)
        """The sending half of the connection."""
        self.traffic = self.answers.traffic
        self.address = ""
        """The peer's address as text, without port."""
        self.port = -1
        """The peer's port; -1 for a Unix socket."""
        self.principal: Principal = ANONYMOUS
        """The identity in the peer's certificate, or anonymous."""
        self.place: Place | None = None
        """The connection's place in the limits; after TLS the one of its handshake."""
        self.frames = 0
        """Number of whole frames handled."""
        self.opened = self.last_received = self.answers.last_moved
        self.idle_seconds_max: float | None = None
        """Idle timeout in seconds; None: connections.max.idle.ms.

        Infinite if the session detects dead clients itself.
        """
        self.frame_since: float | None = None
        """When the frame being received began, for its deadline; None between frames."""
        self.authenticated = True
        """False until the client has authenticated, where that is required: tighter limits
        apply."""
        self._inbox = Inbox(table.scratch, table.pool)
        self._session: Session | StreamSession | None = None
        self._stream: Stream | None = None
        """None if the session answers requests in order."""
        self.in_turn = False
        """Whether the next frame waits until all earlier requests are answered."""
        self._queued = False
        """Whether the connection is queued until `let_in`."""
        self._begun = False
        """Whether its first bytes were checked for another protocol."""
        self.muted = False
        self._muted_until = 0.0
        self._needs_memory = False
        self._large_idle = False
        self.quiet = False

    # asyncio's side

    def connection_made(self, transport: BaseTransport) -> None:
        """Register with the table, or queue if connections come too fast."""
        peer = transport.get_extra_info("peername")
        self.address = self.answers.address = str(peer[0]) if isinstance(peer, tuple) else "local"
        self.port = int(peer[1]) if isinstance(peer, tuple) else -1
        self.principal = transport.get_extra_info("principal") or self.principal
        self.place = transport.get_extra_info("place") or self.place
        made = self.answers.transport = cast("Transport", transport)
        if self.place is None and self._table.queues(self):
            self._queued = True
            self._leave_unread()
        else:
            self._enter(made)

    def let_in(self) -> None:
        """Register with the table and handle bytes received meanwhile, as its turn has come."""
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
        # uvloop starts to read after `connection_made` returns, even if paused in it.
        self._table.call_later(0, self._pause_unless_let_in)

    def _pause_unless_let_in(self) -> None:
        if self._session is None:
            self._pause_reading()

    def _enter(self, transport: Transport) -> None:
        """Register with the table, or close at once if a limit refuses the connection."""
        if self.place is None and self._table.holds_off(self):
            return self._leave_unread()
        self.opened = self.answers.last_moved = self._table.now()
        self._session = self._table.admit(self)
        if self._session is None:
            return transport.abort()
        transport.set_write_buffer_limits(high=self._table.limits.write_buffer_bytes_high)

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the connection's resources and notify its session."""
        session, self._session, self._stream = self._session, None, None
        self.answers.lose()
        if not self.answers.in_pass:
            self._inbox.release()
        if session is not None:
            self._table.leave(self)
            session.closed()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next received bytes."""
        return self._inbox.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle all whole frames after `nbytes` more were received."""
        self.answers.last_moved = self.last_received = self._table.now()
        traffic = self.traffic
        traffic.reads += 1
        traffic.received_bytes += nbytes
        if self._inbox.received(nbytes):
            self._pass()

    def pause_writing(self) -> None:
        """Hold back requests, as the client does not read its answers."""
        self.answers.pause_writing()

    def resume_writing(self) -> None:
        """Handle requests again, as the client has read its answers."""
        self.answers.resume_writing()

    def eof_received(self) -> bool:
        """Close the connection: as in Kafka, a client that half-closes gets no further answers."""
        return False

    @property
    def frame_bytes_max(self) -> int:
        """The longest frame accepted now, in bytes."""
        frame_max = self._table.limits.frame_bytes_max
        return frame_max if self.authenticated else min(frame_max, AUTHENTICATION_FRAME_BYTES_MAX)

    @property
    def waits(self) -> bool:
        """Whether an answer to an earlier request is still pending."""
        return bool(self.answers.waiting)

    @property
    def last_moved(self) -> float:
        """When anything was last received or sent, in monotonic seconds."""
        return self.answers.last_moved

    @property
    def last_sent(self) -> float:
        """When anything was last sent, in monotonic seconds."""
        return self.answers.last_sent

    def stream(self, session: StreamSession) -> Stream:
        """Return the sender for what `session` pushes; the session then parses all frames.

        Called by the session while it is constructed.
        """
        self._inbox.reads_ahead = True
        self._stream = Stream(session, self.answers, self._table.limits, self.block)
        self.answers.on_room = self._tell_of_room
        return self._stream

    def known(self) -> None:
        """Lift the limits on unauthenticated connections, as the client has authenticated."""
        self.authenticated = True
        if self.place is not None:
            self.place.known()

    def failed(self, seconds: float) -> None:
        """Stop reading after a failed authentication; its place stays taken for `seconds`."""
        if self.place is not None:
            self.place.failed(seconds)
        self.quiesce()

    def close(self) -> None:
        """Send everything ready, then close the connection."""
        self.answers.close()

    def abort(self, because: str) -> None:
        """Close the connection at once, dropping unsent bytes."""
        self.answers.abort(because)

    # requests

    def _pass(self, *, of_frames: bool = True) -> None:
        """Handle the whole frames, send their answers, keep the bytes of an unfinished frame.

        `of_frames` False: only let a stream session push, as there is room again.
        """
        session, answers, stream = self._session, self.answers, self._stream
        if session is None or answers.closing or (self.quiet and of_frames):
            if self._queued:
                self._inbox.keep(0, 0)  # for `let_in`; nothing more is read until then
                self._pause_reading()
            return
        problem: Exception | None = None
        reached = 0
        answers.in_pass = True
        try:
            if not self._begun and self._inbox.filled >= FIRST_BYTES:
                self._begun = True
                self._table.foreign.check(self.listener, bytes(self._inbox.view[:FIRST_BYTES]))
            if stream is None:
                inbox, limits = self._inbox, self._table.limits
                reached = handle_requests(self, session, inbox.view, inbox.filled, limits)  # type: ignore[arg-type]  # no stream
            elif of_frames:
                reached = self._hand_over(stream)
            else:
                stream.tell_of_room()
        except InvariantError as broken:
            self._table.fatal(broken)
            return
        except ForeignClient as error:
            problem = error
            answers.out.append(error.answer)
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
            self.block()
        if answers.waiting:
            answers.collect_answered()
        if problem is None and of_frames:
            self._keep_from(reached)
        answers.send()
        if problem is not None:
            answers.refuse(problem)
        elif answers.blocked and not self._must_wait():
            answers.make_dirty()  # let other connections have their turn, then continue
        elif stream is not None and stream.has_more:
            answers.make_dirty()

    def _hand_over(self, stream: Stream) -> int:
        """Pass received bytes to a stream session; return the position of the first one left."""
        if self.muted or stream.must_wait:
            self.block()
            return 0
        inbox = self._inbox
        at = stream.hand_over(inbox.view, inbox.filled, self.frame_bytes_max)
        self.frames += at > 0
        return at

    def _tell_of_room(self) -> None:
        self._pass(of_frames=False)

    def _keep_from(self, at: int) -> None:
        inbox, stream = self._inbox, self._stream
        rest = inbox.filled - at
        need = 0
        if stream is not None:
            need = stream.need
        elif rest:
            need = need_of_request(inbox.view, at, inbox.filled)
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
        """Enlarge the buffer for a large frame and read on; return False while memory is short."""
        if self.answers.transport is None or not self._needs_memory:
            return True
        if not self._inbox.grow():
            return False
        self._needs_memory = False
        self._resume_reading()
        return True

    # whether requests are handled

    def note_taken(self, now: float) -> None:
        """Check for a stream whether a slow client has read something since the last check."""
        if self._stream is not None:
            self._stream.note_taken(now)

    def mute(self, seconds: float) -> None:
        """Hold back requests for `seconds` (KIP-219); answers are still sent."""
        until = self._table.now() + seconds
        if until <= self._muted_until:
            return
        self._muted_until = until
        self.block()
        self.frame_since = None  # the broker, not the client, is the reason
        if not self.muted:
            self.muted = True
            self._table.call_later(seconds, self._unmute)

    def _unmute(self) -> None:
        left = self._muted_until - self._table.now()
        if left > 0:
            self._table.call_later(left, self._unmute)
            return
        self.muted = False
        self.answers.last_moved = self._table.now()
        if self.answers.blocked and self.answers.transport is not None and not self.answers.in_pass:
            self._unblock()

    def block(self) -> None:
        """Hold back the remaining requests and stop reading."""
        if not self.answers.blocked:
            self.answers.blocked = True
            self._table.blocked += 1
            self._pause_reading()

    def one_alone(self) -> bool:
        """Return whether the last request must be answered before the next one is handled."""
        last = self.answers.waiting[-1]
        return isinstance(last, Pending) and last.alone

    def _must_wait(self) -> bool:
        """Return whether held-back requests must still wait."""
        limits, waiting = self._table.limits, self.answers.waiting
        if self.muted or self.answers.unwritten is not None:
            return True
        if self._stream is not None:
            return self._stream.must_wait
        if (
            self.answers.write_blocked_since is not None
            or self.answers.held > limits.write_buffer_bytes_high
        ):
            return True
        if not waiting:
            return False
        if self.in_turn or len(waiting) > limits.waiting_answers_max // 2:
            return True
        return self.one_alone()

    def _unblock(self) -> None:
        if self._must_wait():
            return
        self.answers.blocked = self.in_turn = False
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
        """Stop reading requests for good; earlier ones are still answered."""
        self._pause_reading()
        self.quiet = True

    @property
    def idle(self) -> bool:
        """Whether nothing is being received, handled or sent."""
        return not self.answers.waiting and not self.answers.out and self._inbox.filled == 0

    def sweep_buffer(self) -> None:
        """Release a large receive buffer that two sweeps found unused."""
        inbox = self._inbox
        if inbox.holds_large and inbox.filled == 0 and not self.answers.in_pass:
            if self._large_idle:
                inbox.release()
            self._large_idle = not self._large_idle
