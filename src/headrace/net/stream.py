"""A session that cuts its frames itself and sends when it likes: what protocols with pushes need.

A session chooses it while it is made (`Connection.stream`). It is handed all bytes of a read at
once, says how far it has taken them, and pushes. Pushes leave in the order of the calls: those of a
pass with it, once its writes are done where `pass_done` says so; others together when this turn of
the loop is over.

Bounds. `takes_more` says when the client leaves too much unread (connection.answer.bytes.max): the
session delivers nothing then, until `room` is called. What it owes all the same, as answers, may be
pushed: once that much again has been pushed so, no more frames are handed over, and beyond
`UNREAD_FACTOR_MAX` times that much the connection is dropped. Frames are handed over until then,
for a client may send before it reads.
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
    """What a connection's bytes mean, to who tells frames apart himself. One per connection."""

    def frames(self, view: memoryview, at: int, filled: int) -> int:
        """Take the whole frames in `view[at:filled]`; return where the first byte left over lies.

        The view is writable and valid until `pass_done` returns. Whole frames that are left come
        again: when `Stream.go_on` is called after `hold`; when there is room again, where
        `takes_more` has said that there is none; else in the next turn of the loop. Raises
        Malformed or CloseConnection to end the connection.
        """

    def need(self, view: memoryview, at: int, filled: int) -> int:
        """Return how many bytes make the frame at `at` whole; at least, while that is unknown.

        Asked where not all was taken. Malformed where no such frame is taken.
        """

    def room(self) -> None:
        """Go on with what was not pushed: `Stream.takes_more` has said no, and would not now.

        A pass of its own: `pass_done` follows.
        """

    def pass_done(self) -> Pending | None:
        """End the pass: what was pushed leaves next, as with `session.Session.pass_done`."""

    def closed(self) -> None:
        """Forget what is kept for the connection: it is gone."""


class Stream:
    """One connection's way out for pushes, and what its session's frames wait for."""

    __slots__ = (
        "_answers", "_blind", "_block", "_high", "_left_for_room", "_session", "_unread", "held",
        "need",
    )  # fmt: skip

    def __init__(
        self, session: StreamSession, answers: Answers, limits: Limits, block: Callable[[], None]
    ) -> None:
        """`block`: called when the session wants no more frames, outside of a pass too."""
        self._session = session
        self._answers = answers
        self._block = block
        self._high = limits.write_buffer_bytes_high
        self.held = False
        """Whether the session wants no more frames now."""
        self.need = 0
        """Bytes that make the first frame left over whole; 0: none is."""
        self._left_for_room = False
        """Whether whole frames are left over because there was no room for answers."""
        self._blind = 0
        """Bytes pushed since there was no room."""
        self._unread = 0
        """What the client had left unread, without those, when that was last looked at."""

    # the session's side

    def push(self, data: "Buffer | list[Buffer]") -> None:
        """Send `data` behind all that was pushed; nothing where the connection ends.

        It stays as it is: it may be sent later.
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

    def _drop(self) -> None:
        answers = self._answers
        if answers.transport is not None and not answers.transport.is_closing():
            answers.abort(
                "its client reads too slowly for what it asks"
                f" ({UNREAD_FACTOR_MAX} times connection.answer.bytes.max are unread)"
            )

    def takes_more(self) -> bool:
        """Tell whether there is room for deliveries. False: `room` is called once there is."""
        if self._answers.has_room:
            return True
        self._answers.awaits_room = True
        return False

    def hold(self) -> None:
        """Take no more frames, and receive nothing, until `go_on`; what comes then is late."""
        self.held = True
        self._block()

    def go_on(self) -> None:
        """Take frames again, those left over first, when this turn of the loop is over."""
        if self.held:
            self.held = False
            self._answers.make_dirty()

    def end(self) -> None:
        """End the connection once what was pushed is sent."""
        self._answers.ending = True
        if not self._answers.in_pass:
            self._answers.make_dirty()

    # the connection's side

    @property
    def must_wait(self) -> bool:
        """Whether no frame is handed over now."""
        if self.held:
            return True
        if self._left_for_room or self._blind > self._high:
            return not self._answers.has_room
        return False

    @property
    def has_more(self) -> bool:
        """Whether the connection's end, or word of room, is to follow what was sent."""
        answers = self._answers
        return answers.ending or (answers.awaits_room and answers.has_room)

    def hand_over(self, view: memoryview, filled: int, frame_bytes_max: int) -> int:
        """Hand over what has come; return where the first byte left over lies. Malformed."""
        self._left_for_room, self.need = False, 0
        at = self._session.frames(view, 0, filled)
        invariant(0 <= at <= filled, "a session takes what has come, and no more")
        if at < filled:
            need = self.need = self._session.need(view, at, filled)
            if need > frame_bytes_max:
                raise Malformed(
                    f"frame of {need} bytes announced, at most {frame_bytes_max} are taken"
                )
            if need <= filled - at:
                self._left_for_room = self._answers.awaits_room
                self._block()
        return at

    def tell_of_room(self) -> None:
        """Have the session go on."""
        self._blind = 0
        self._session.room()

    def note_taken(self, now: float) -> None:
        """Give a client that has taken something since the last look its time anew."""
        answers = self._answers
        if answers.transport is None or answers.closing:
            return
        unread = answers.transport.get_write_buffer_size() - self._blind
        if unread < self._unread:
            answers.write_blocked_since = now
        self._unread = unread
