"""How frames with their length before them are handed to a session that answers requests.

The hot path of Kafka's protocol: one pass over the whole frames of a read.
"""

import struct
from typing import Protocol

from headrace.net.answering import Answers
from headrace.net.inbox import LENGTH_BYTES, no_frame
from headrace.net.limits import Limits
from headrace.net.session import InTurn, Session

_unpack_length = struct.Struct(">i").unpack_from


class Asked(Protocol):
    """The connection whose frames are handled."""

    answers: Answers
    authenticated: bool
    frames: int
    """Whole frames handled so far."""
    in_turn: bool
    """Whether the next frame is taken once nothing waits any more."""
    muted: bool
    """Whether nothing is handled for a while."""

    @property
    def frame_bytes_max(self) -> int:
        """The longest frame that is taken now."""

    def block(self) -> None:
        """Hold back the requests that are left."""

    def one_alone(self) -> bool:
        """Tell whether nothing is handled behind the last request, whose answer waits."""


def handle_requests(
    connection: Asked, session: Session, view: memoryview, filled: int, limits: Limits
) -> int:
    """Hand over the whole frames in `view[:filled]`; return where the first unhandled one begins.

    Malformed where a length is none, and what the session raises.
    """
    at = 0
    answers = connection.answers
    frame_max, waiting_max = limits.frame_bytes_max, limits.waiting_answers_max
    if not connection.authenticated:
        frame_max = connection.frame_bytes_max
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
            connection.muted
            or answers.write_blocked_since is not None
            or answers.held > held_max
            or (waiting and (len(waiting) >= waiting_max or connection.one_alone()))
        ):
            connection.block()
            break
        run = session.run(view, at, filled) if end + LENGTH_BYTES < filled else None
        if run is None:
            try:
                answer = handle(view[at + LENGTH_BYTES : end])
            except InTurn:
                connection.in_turn = True
                connection.block()
                break
            at = end
            connection.frames += 1
        else:
            at, frames, answer = run
            connection.frames += frames
        if type(answer) is bytes and not waiting:
            answers.held += len(answer)
            out.append(answer)
        elif answer is not None:
            answers.queue(answer)
    return at


def need_of_request(view: memoryview, at: int, filled: int) -> int:
    """Return how many bytes make the frame at `at` whole, its length included; 0: unknown."""
    if filled - at < LENGTH_BYTES:
        return 0
    size: int = _unpack_length(view, at)[0]
    return LENGTH_BYTES + size
