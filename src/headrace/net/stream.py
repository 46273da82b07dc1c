"""`Stream`: the interface for protocols that parse their own frames and send at any time (AMQP).

A session chooses it when constructed (`Connection.stream`). It gets all bytes of a read at once,
reports how many it consumed, and pushes. Pushes leave in the order of calls: those of a pass at its
end, after its writes if `pass_done` says so; others at the end of this turn of the loop.

Limits: `takes_more` returns False while the client leaves too much unread
(connection.answer.bytes.max); the session then delivers nothing until `room` is called. Replies
that it owes may still be pushed. When these exceed the same limit, no frames are handled;
beyond `UNREAD_FACTOR_MAX` times the limit the connection is dropped. Until then frames are handled,
as a client may send before it reads.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headrace.model.errors import Malformed
from headrace.model.invariant import invariant
from headrace.net.answering import Answers
from headrace.net.limits import UNREAD_FACTOR_MAX, Limits
from headrace.net.pending import Pending

if TYPE_CHECKING:
    from headrace.ports.disk import Buffer


class StreamSession(Protocol):
    """A protocol's handler of one connection's bytes, which parses the frames itself."""

    def frames(self, view: memoryview, at: int, filled: int) -> int:
        """Handle the whole frames in `view[at:filled]`; return the position of the first byte left.

        The view is writable and valid until `pass_done` returns. Whole frames that are left come
        again: after `Stream.go_on` if `hold` was called; once there is room, if `takes_more`
        returned False; otherwise in the next turn of the loop. Raises Malformed or CloseConnection
        to close the connection.
        """

    def need(self, view: memoryview, at: int, filled: int) -> int:
        """Return the size of the frame at `at` in bytes, or a lower bound while it is unknown.

        Called if bytes were left. Raises Malformed for an invalid frame.
        """

    def room(self) -> None:
        """Continue to push, as there is room again after `takes_more` returned False.

        Runs in a pass of its own: `pass_done` follows.
        """

    def pass_done(self) -> Pending | None:
        """End the pass: its pushes leave next, as with `session.Session.pass_done`."""

    def closed(self) -> None:
        """Free the resources of the closed connection."""


class Stream:
    """The sender of one connection's pushes, and the flow control of its frames."""

    __slots__ = (
        "_answers", "_blind", "_block", "_high", "_left_for_room", "_session", "_unread", "held",
        "need",
    )  # fmt: skip

    def __init__(
        self, session: StreamSession, answers: Answers, limits: Limits, block: Callable[[], None]
    ) -> None:
        """Make a session's stream; `block` is called when it wants no frames, even outside a
        pass."""
        self._session = session
        self._answers = answers
        self._block = block
        self._high = limits.write_buffer_bytes_high
        self.held = False
        """Whether the session has paused its frames (`hold`)."""
        self.need = 0
        """Size of the first unfinished frame in bytes; 0 if no frame is unfinished."""
        self._left_for_room = False
        """Whether whole frames are left because there was no room for replies."""
        self._blind = 0
        """Bytes pushed since there was no room."""
        self._unread = 0
        """Bytes unread by the client at the last check, without those."""

    # the session's side

    def push(self, data: "Buffer | list[Buffer]") -> None:
        """Send `data` after all earlier pushes; do nothing if the connection is closing.

        `data` must not change, as it may be sent later.
        """
        answers = self._answers
        if answers.ending or answers.closing or answers.transport is None:
            return
        size = sum(map(len, data)) if isinstance(data, list) else len(data)
        if answers.held > self._high or answers.write_blocked_since is not None:
            self._blind += size
            if self._blind > UNREAD_FACTOR_MAX * self._high:
                self._drop()
                return
        elif self._blind:
            self._blind = 0
        answers.held += size
        if isinstance(data, list):
            answers.out += data
        else:
            answers.out.append(data)
        if not answers.in_pass:
            answers.make_dirty()

    def guard(self, may_send: Callable[[], bool]) -> None:
        """Close the connection if `may_send` returns False when what is pushed is to be sent."""
        if self._answers.guard is None:  # what was pushed first is the oldest
            self._answers.guard = may_send

    def _drop(self) -> None:
        answers = self._answers
        if answers.transport is not None and not answers.transport.is_closing():
            answers.abort(
                "the client reads too slowly for the replies it requests"
                f" (unread: more than {UNREAD_FACTOR_MAX} times connection.answer.bytes.max)"
            )

    def takes_more(self) -> bool:
        """Return whether there is room for deliveries; if not, `room` is called later."""
        if self._answers.has_room:
            return True
        self._answers.awaits_room = True
        return False

    def hold(self) -> None:
        """Handle no frames and receive nothing until `go_on`."""
        self.held = True
        self._block()

    def go_on(self) -> None:
        """Handle frames again at the end of this turn of the loop, the left ones first."""
        if self.held:
            self.held = False
            self._answers.make_dirty()

    def end(self) -> None:
        """Close the connection once everything pushed is sent."""
        self._answers.ending = True
        if not self._answers.in_pass:
            self._answers.make_dirty()

    # the connection's side

    @property
    def must_wait(self) -> bool:
        """Whether no frame may be handled now."""
        if self.held:
            return True
        if self._left_for_room or self._blind > self._high:
            return not self._answers.has_room
        return False

    @property
    def has_more(self) -> bool:
        """Whether closing, or a call of `room`, must follow what was sent."""
        answers = self._answers
        return answers.ending or (answers.awaits_room and answers.has_room)

    def hand_over(self, view: memoryview, filled: int, frame_bytes_max: int) -> int:
        """Pass the received bytes to the session; return the position of the first left.
        Raises Malformed."""
        self._left_for_room, self.need = False, 0
        at = self._session.frames(view, 0, filled)
        invariant(0 <= at <= filled, "a session takes what has come, and no more")
        if at < filled:
            need = self.need = self._session.need(view, at, filled)
            if need > frame_bytes_max:
                raise Malformed(
                    f"frame length {need} is invalid, the limit is {frame_bytes_max} bytes"
                )
            if need <= filled - at:
                self._left_for_room = self._answers.awaits_room
                self._block()
        return at

    def tell_of_room(self) -> None:
        """Notify the session that the client has read enough for more to be pushed."""
        self._blind = 0
        self._session.room()

    def note_taken(self, now: float) -> None:
        """Restart the slow reader's deadline if it has read something since the last check."""
        answers = self._answers
        if answers.transport is None or answers.closing:
            return
        unread = answers.transport.get_write_buffer_size() - self._blind
        if unread < self._unread:
            answers.write_blocked_since = now
        self._unread = unread
