"""What a queue's settled-state file says: frames, each what has changed since the one before.

A frame is its length and CRC32C, both u32, and a payload: i8 version, i8 flags, i32 leader epoch,
six i64 (start, handed out, counted end, messages, bytes of their bodies, 0), and counted by
two u32 runs of settled positions (i64 first, i64 last) and returns (i64 position, u32 count). All
numbers are big-endian.

Each frame is believed as far as the log still has what its leader epoch wrote: a log that lost its
tail gives the same positions to other messages, in a later epoch.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from headrace.queues.stores.log.settled_runs import NO_RUNS, Runs, pack_runs, union, unpack_runs
from headrace.record.crc32c import crc32c

_VERSION = 1
_WHOLE = 1
_EXPIRING = 2
_TRANSIENT = 4
_FRAME = Struct(">II")
_FIXED = Struct(">bbiqqqqqqII")
_RUN_BYTES = 16
_RETURN = Struct(">qI")


class SettledState(NamedTuple):
    """One frame, or all of them laid over one another."""

    leader_epoch: int
    start: int
    """All below is settled."""
    handed_out: int
    """What lies below was perhaps handed out."""
    runs: Runs
    """Settled above the start."""
    returns: tuple[tuple[int, int], ...]
    """Positions that were given back, and how often; in any order."""
    counted_to: int
    """`messages` and `body_bytes` are those below it; -1: they are not known."""
    messages: int
    body_bytes: int
    expiring: bool
    whole: bool = False
    """It tells all, not what has changed."""
    transient: bool = False


NOTHING_SETTLED = SettledState(-1, 0, 0, NO_RUNS, (), 0, 0, 0, False)


def encode_frame(state: SettledState) -> bytes:
    """Return a frame."""
    flags = (_WHOLE if state.whole else 0) | (_EXPIRING if state.expiring else 0)
    flags |= _TRANSIENT if state.transient else 0
    payload = b"".join(
        (
            _FIXED.pack(
                _VERSION, flags, state.leader_epoch, state.start, state.handed_out,
                state.counted_to, state.messages, state.body_bytes, 0,
                len(state.runs.firsts), len(state.returns),
            ),
            pack_runs(state.runs),
            *(_RETURN.pack(*returned) for returned in state.returns),
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
    version, flags, epoch, start, handed_out, counted_to, messages, body_bytes, _, *counts = (
        _FIXED.unpack_from(payload)
    )
    returns_at = _FIXED.size + counts[0] * _RUN_BYTES
    if version != _VERSION or len(payload) != returns_at + counts[1] * _RETURN.size:
        return None
    runs = unpack_runs(payload[_FIXED.size : returns_at]) if counts[0] else NO_RUNS
    returns = tuple(_RETURN.iter_unpack(payload[returns_at:])) if counts[1] else ()
    return SettledState(
        epoch, start, handed_out, runs, returns, counted_to, messages, body_bytes,
        bool(flags & _EXPIRING), bool(flags & _WHOLE), bool(flags & _TRANSIENT),
    )  # fmt: skip


class Folded(NamedTuple):
    """A whole file."""

    state: SettledState
    end: int
    """Where its last whole frame ends."""


def fold(content: bytes, end_of_epoch: Callable[[int], int]) -> Folded:
    """Lay a file's frames over one another, each below where the log of its epoch ends."""
    state, end, start = NOTHING_SETTLED, 0, 0
    parts: list[Runs] = []
    returns: dict[int, int] = {}
    for frame, frame_end in decode_frames(content):
        end = frame_end
        bound = end_of_epoch(frame.leader_epoch)
        if frame.whole:
            parts, returns, start = [], {}, 0
        start = max(start, min(frame.start, bound))
        parts.append(frame.runs.below(bound))
        returns.update(returned for returned in frame.returns if returned[0] < bound)
        counted = -1 if frame.counted_to > bound or frame.start > bound else frame.counted_to
        state = frame._replace(counted_to=counted, handed_out=min(frame.handed_out, bound))
    runs = union(parts).above(start)
    left = {position: count for position, count in returns.items() if position >= start}
    returned = tuple(each for each in left.items() if not runs.holds(each[0]))
    return Folded(state._replace(start=start, runs=runs, returns=returned), end)
