"""`CursorState`: the persisted form of a cursor, and the interface of its store.

A state is a start offset and batches of offsets above it. Offsets between two batches, and above
the last, are available and were never released. Changes are applied to a state in the order in
which they were made; for each offset the latest counts.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple, Protocol

from headrace.delivery.offset_runs import RunMap
from headrace.delivery.record_states import SETTLED, RecordState, StateBatch
from headrace.model.errors import ApiError
from headrace.ports.callbacks import Done


class Delay(NamedTuple):
    """Offsets `first` to `last`, inclusive, that are not available before `ready_at`."""

    first: int
    last: int
    ready_at: float
    """The cursor's time, monotonic seconds; a store must convert it to wall-clock time."""


class CursorState(NamedTuple):
    """The state of a cursor, or a change of it."""

    start: int
    """Offset below which all are settled."""
    batches: tuple[StateBatch, ...] = ()
    """Ascending, disjoint batches at or above `start`."""
    settled: int = 0
    """Settled offsets from `start` on (KIP-1226's delivery complete count)."""
    handed_out: int = 0
    """Offset below which records may have been delivered though no batch says so. Not in Kafka."""
    delays: tuple[Delay, ...] = ()
    """Delays of available records in `batches`. Kafka's share groups have none."""

    def below(self, end: int) -> "CursorState":
        """Return the part of the state that is below `end`, the end of the log.

        `start` is unchanged, even above `end`; `settled` is counted again.
        """
        batches = tuple(
            batch._replace(last=min(batch.last, end - 1))
            for batch in self.batches
            if batch.first < end
        )
        delays = tuple(
            delay._replace(last=min(delay.last, end - 1))
            for delay in self.delays
            if delay.first < end
        )
        settled = sum(last - first + 1 for first, last, state, _ in batches if state in SETTLED)
        return CursorState(self.start, batches, settled, min(self.handed_out, end), delays)


class CursorStore(Protocol):
    """Stores the state of one cursor."""

    def write(self, change: CursorState, done: Done[ApiError | None]) -> None:
        """Store `change`; `done(None)` once it is durable, in the order of calls.

        After `done(error)` the stored state is unknown: drop the cursor, read the state again.
        """

    def when_settled(self, done: Callable[[], None]) -> None:
        """Call `done` once each earlier write is durable or has failed."""


class StateMap:
    """A cursor's state to which changes are applied."""

    __slots__ = ("_delays", "_runs", "handed_out", "start")

    def __init__(self, state: CursorState) -> None:
        self.start = state.start
        self.handed_out = 0
        self._delays: RunMap[float] = RunMap()
        self._runs: RunMap[tuple[RecordState, int]] = RunMap()
        self.lay_over(state)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._runs)

    def lay_over(self, change: CursorState) -> None:
        """Apply a change; a `start` below the present one (-1: none) is ignored.

        Settled offsets stay settled, so that a repeated or late change does not revert them.
        """
        if change.start > self.start:
            self.start = change.start
            self._runs.clear_below(change.start)
            self._delays.clear_below(change.start)
        self.handed_out = max(self.handed_out, change.handed_out)
        for first, last, state, count in change.batches:
            if last < self.start:
                continue
            at = max(first, self.start)
            if state not in SETTLED:
                for run in self._runs.between(at, last):
                    if run.value[0] in SETTLED:
                        if at < run.first:
                            self._runs.assign(at, run.first - 1, (state, count))
                        at = run.last + 1
            if at <= last:
                self._runs.assign(at, last, (state, count))
        self._lay_delays(change)

    def _lay_delays(self, change: CursorState) -> None:
        """Apply the delays of a change; released or settled records lose their former delay."""
        if change.delays or len(self._delays):
            for batch in change.batches:
                self._delays.clear(batch.first, batch.last)
        for first, last, ready_at in change.delays:
            for run in self._runs.between(max(first, self.start), last):
                if run.value[0] not in SETTLED:
                    self._delays.assign(run.first, run.last, ready_at)

    def batches(self) -> tuple[StateBatch, ...]:
        """Return all batches, ascending."""
        return tuple(StateBatch(run.first, run.last, *run.value) for run in self._runs)

    def state(self) -> CursorState:
        """Return the whole state."""
        batches = self.batches()
        delays = tuple(Delay(*run) for run in self._delays)
        settled = sum(last - first + 1 for first, last, state, _ in batches if state in SETTLED)
        return CursorState(self.start, batches, settled, self.handed_out, delays)


def in_order(batches: Iterable[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Return batches, given in order of time, as ascending and disjoint ones from `start` on."""
    noted = [batch for batch in batches if batch.last >= start]
    left = sorted(noted)
    if all(before.last < after.first for before, after in pairwise(left)):
        return _joined(left, start)
    runs: RunMap[tuple[RecordState, int]] = RunMap()
    for first, last, state, count in noted:
        runs.assign(max(first, start), last, (state, count))
    return tuple(StateBatch(run.first, run.last, *run.value) for run in runs)


def _joined(batches: list[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Return ascending, disjoint batches from `start` on, with equal neighbours merged."""
    found: list[StateBatch] = []
    for first, last, state, tries in batches:
        before = found[-1] if found else None
        if before is not None and before[1:] == (first - 1, state, tries):
            found[-1] = StateBatch(before.first, last, state, tries)
        else:
            found.append(StateBatch(max(first, start), last, state, tries))
    return tuple(found)
