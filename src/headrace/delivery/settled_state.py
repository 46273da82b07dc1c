"""The format of a queue's file of settled positions: frames, each with the changes since the last.

    u32 length, u32 CRC32C of the payload, then the payload:
    i8  version (1)
    i8  flags: 1 complete state, 2 messages may expire, 4 transient messages
    i32 leader epoch
    i64 start, handed out, counted end, messages, bytes of their bodies, number
    u32 number of runs, u32 number of returns
    runs of settled positions    i64 first, i64 last
    returns of positions         i64 position, u32 count

All numbers are big-endian. A frame is valid only as far as the log still has what its leader epoch
wrote: a log that lost its tail gives the same positions to other messages, in a later epoch.

A leader numbers its frames one by one; with the leader epoch that names a frame among all replicas
of the queue. Versions without copies wrote 0 and ignore the number.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from headrace.delivery.settled_runs import NO_RUNS, Runs, pack_runs, union, unpack_runs
from headrace.record.crc32c import crc32c

_VERSION = 1
_WHOLE = 1
_EXPIRING = 2
_TRANSIENT = 4
_FRAME = Struct(">II")
_FIXED = Struct(">bbiqqqqqqII")
_RUN_BYTES = 16
_RETURN = Struct(">qI")


class FrameName(NamedTuple):
    """The name of a frame. Of two frames of a queue, the one with the greater name is newer."""

    leader_epoch: int
    number: int


NO_FRAME = FrameName(-1, 0)
"""The name that stands for a file without frames; less than that of any frame."""


class SettledState(NamedTuple):
    """The content of a frame, or of the frames of a file combined."""

    leader_epoch: int
    start: int
    """Position below which all is settled."""
    handed_out: int
    """Position below which messages may have been delivered."""
    runs: Runs
    """Settled positions above `start`."""
    returns: tuple[tuple[int, int], ...]
    """Requeued positions with their counts, in any order."""
    counted_to: int
    """Position below which `messages` and `body_bytes` count; -1: unknown."""
    messages: int
    body_bytes: int
    expiring: bool
    whole: bool = False
    """Whether the frame has the complete state, not only changes."""
    transient: bool = False
    number: int = 0

    @property
    def name(self) -> FrameName:
        """The name of the frame, or of the last frame of a file."""
        return FrameName(self.leader_epoch, self.number)


NOTHING_SETTLED = SettledState(-1, 0, 0, NO_RUNS, (), 0, 0, 0, False)


def encode_frame(state: SettledState) -> bytes:
    """Encode a frame of settled positions with its length and CRC32C."""
    flags = (_WHOLE if state.whole else 0) | (_EXPIRING if state.expiring else 0)
    flags |= _TRANSIENT if state.transient else 0
    payload = b"".join(
        (
            _FIXED.pack(
                _VERSION, flags, state.leader_epoch, state.start, state.handed_out,
                state.counted_to, state.messages, state.body_bytes, state.number,
                len(state.runs.firsts), len(state.returns),
            ),
            pack_runs(state.runs),
            *(_RETURN.pack(*returned) for returned in state.returns),
        )
    )  # fmt: skip
    return _FRAME.pack(len(payload), crc32c(payload)) + payload


def decode_frames(content: bytes) -> Iterator[tuple[SettledState, int]]:
    """Yield each frame with its end in bytes, up to the first torn one."""
    for payload, end in _payloads(content):
        state = _decode(payload)
        if state is None:
            return
        yield state, end


class FoundFrame(NamedTuple):
    """A frame found in the bytes of a file, its settled positions not decoded."""

    name: FrameName
    whole: bool
    end: int
    """End of the frame in bytes."""


def find_frames(content: bytes) -> Iterator[FoundFrame]:
    """Yield each frame's name and end, up to the first torn one; its CRC is checked."""
    for payload, end in _payloads(content):
        version, flags, epoch, *_, number, _, _ = _FIXED.unpack_from(payload)
        if version != _VERSION:
            return
        yield FoundFrame(FrameName(epoch, number), bool(flags & _WHOLE), end)


def _payloads(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the payload of each frame with the frame's end, up to the first torn one."""
    at = 0
    while at + _FRAME.size <= len(content):
        size, crc = _FRAME.unpack_from(content, at)
        at += _FRAME.size
        payload = content[at : at + size]
        at += size
        if len(payload) < max(size, _FIXED.size) or crc32c(payload) != crc:
            return
        yield payload, at


def _decode(payload: bytes) -> SettledState | None:
    (
        version, flags, epoch, start, handed_out, counted_to, messages, body_bytes, number, *counts
    ) = _FIXED.unpack_from(payload)  # fmt: skip
    returns_at = _FIXED.size + counts[0] * _RUN_BYTES
    if version != _VERSION or len(payload) != returns_at + counts[1] * _RETURN.size:
        return None
    runs = unpack_runs(payload[_FIXED.size : returns_at]) if counts[0] else NO_RUNS
    returns = tuple(_RETURN.iter_unpack(payload[returns_at:])) if counts[1] else ()
    return SettledState(
        epoch, start, handed_out, runs, returns, counted_to, messages, body_bytes,
        bool(flags & _EXPIRING), bool(flags & _WHOLE), bool(flags & _TRANSIENT), number,
    )  # fmt: skip


class Folded(NamedTuple):
    """The state that all frames of a file of settled positions give together."""

    state: SettledState
    end: int
    """End of the last complete frame in bytes."""


def fold(content: bytes, end_of_epoch: Callable[[int], int]) -> Folded:
    """Combine a file's frames, each cut where the log of its leader epoch ends."""
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
