"""`handle_requests`: pass length-prefixed frames to a session that answers requests.

The hot path of Kafka's protocol: one pass over all whole frames of a read.
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
    """Number of whole frames handled."""
    in_turn: bool
    """Whether the next frame waits until all earlier requests are answered."""
    muted: bool
    """Whether requests are held back for a while (KIP-219)."""

    @property
    def frame_bytes_max(self) -> int:
        """The longest frame accepted now, in bytes."""

    def block(self) -> None:
        """Hold back the remaining requests."""

    def one_alone(self) -> bool:
        """Return whether the last request must be answered before the next one is handled."""


def handle_requests(
    connection: Asked, session: Session, view: memoryview, filled: int, limits: Limits
) -> int:
    """Handle the whole frames in `view[:filled]`; return where the first unhandled one begins.

    Raises Malformed for an invalid length, and what the session raises.
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
    """Return the size of the frame at `at` with its length field; 0 if unknown."""
    if filled - at < LENGTH_BYTES:
        return 0
    size: int = _unpack_length(view, at)[0]
    return LENGTH_BYTES + size
