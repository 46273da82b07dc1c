"""What a queue's settled-state file says: frames, each what has changed since the one before.

A frame is its length and CRC32C, both u32, and a payload: i8 version, i8 flags, i32 leader epoch,
six i64 (start, handed out, counted end, messages, bytes of their bodies, settled), and counted by
two u32 runs of settled positions (i64 first, i64 last) and returns (i64 position, u32 count). All
numbers are big-endian.

Each frame is believed as far as the log still has what its leader epoch wrote: a log that lost its
tail gives the same positions to other messages, in a later epoch.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from headrace.coordination.delivery.cursor_state import CursorState, StateMap
from headrace.coordination.delivery.record_states import SETTLED, RecordState, StateBatch
from headrace.record.crc32c import crc32c

_VERSION = 1
_WHOLE = 1
_EXPIRING = 2
_TRANSIENT = 4
_FRAME = Struct(">II")
_FIXED = Struct(">bbiqqqqqqII")
_RUN = Struct(">qq")
_RETURN = Struct(">qI")


class SettledState(NamedTuple):
    """One frame, or all of them laid over one another."""

    leader_epoch: int
    cursor: CursorState
    """`batches`: settled runs, and positions that were given back with how often."""
    counted_to: int
    """`messages` and `body_bytes` are those below it; -1: they are not known."""
    messages: int
    body_bytes: int
    expiring: bool
    whole: bool = False
    """It tells all, not what has changed."""
    transient: bool = False


NOTHING_SETTLED = SettledState(-1, CursorState(0), 0, 0, 0, False)


def encode_frame(state: SettledState) -> bytes:
    """Return a frame."""
    cursor = state.cursor
    runs = [batch for batch in cursor.batches if batch.state in SETTLED]
    returns = [batch for batch in cursor.batches if batch.state not in SETTLED]
    flags = (_WHOLE if state.whole else 0) | (_EXPIRING if state.expiring else 0)
    flags |= _TRANSIENT if state.transient else 0
    payload = b"".join(
        (
            _FIXED.pack(
                _VERSION, flags, state.leader_epoch, cursor.start, cursor.handed_out,
                state.counted_to, state.messages, state.body_bytes, cursor.settled,
                len(runs), len(returns),
            ),
            *(_RUN.pack(batch.first, batch.last) for batch in runs),
            *(_RETURN.pack(batch.first, batch.tries) for batch in returns),
        )
    )  # fmt: skip
    return _FRAME.pack(len(payload), crc32c(payload)) + payload


def decode_frames(content: bytes) -> Iterator[tuple[SettledState, int]]:
    """Yield each frame and where it ends, up to the first that is torn."""
    at = 0
    while at + _FRAME.size <= len(content):
        size, crc = _FRAME.unpack_from(content, at)
        at += _FRAME.size
        payload = content[at : at + size]
        at += size
        if len(payload) < max(size, _FIXED.size) or crc32c(payload) != crc:
            return
        state = _decode(payload)
        if state is None:
            return
        yield state, at


def _decode(payload: bytes) -> SettledState | None:
    version, flags, epoch, start, handed_out, counted_to, messages, body_bytes, settled, *counts = (
        _FIXED.unpack_from(payload)
    )
    returns_at = _FIXED.size + counts[0] * _RUN.size
    if version != _VERSION or len(payload) != returns_at + counts[1] * _RETURN.size:
        return None
    batches = [
        StateBatch(first, last, RecordState.ACKNOWLEDGED, 0)
        for first, last in _RUN.iter_unpack(payload[_FIXED.size : returns_at])
    ]
    batches += [
        StateBatch(position, position, RecordState.AVAILABLE, count)
        for position, count in _RETURN.iter_unpack(payload[returns_at:])
    ]
    cursor = CursorState(start, tuple(batches), settled, handed_out)
    expiring, whole = bool(flags & _EXPIRING), bool(flags & _WHOLE)
    transient = bool(flags & _TRANSIENT)
    return SettledState(epoch, cursor, counted_to, messages, body_bytes, expiring, whole, transient)


class Folded(NamedTuple):
    """A whole file."""

    state: SettledState
    end: int
    """Where its last whole frame ends."""


def fold(content: bytes, end_of_epoch: Callable[[int], int]) -> Folded:
    """Lay a file's frames over one another, each below where the log of its epoch ends."""
    state, end = NOTHING_SETTLED, 0
    start = 0
    known: StateMap | None = None
    """None: nothing but a start, which is what most files of many queues say."""
    for frame, frame_end in decode_frames(content):
        end = frame_end
        bound = end_of_epoch(frame.leader_epoch)
        cursor = frame.cursor.below(bound)
        cursor = cursor._replace(start=min(cursor.start, bound))
        if frame.whole:
            known, start = None, 0
        start = max(start, cursor.start)
        if known is not None or cursor.batches:
            known = known or StateMap(CursorState(start))
            known.lay_over(cursor)
        if frame.counted_to > bound or frame.cursor.start > bound:
            frame = frame._replace(counted_to=-1)
        state = frame._replace(cursor=cursor)
    folded = CursorState(start) if known is None else known.state()
    cursor = folded._replace(handed_out=state.cursor.handed_out)
    return Folded(state._replace(cursor=cursor), end)
