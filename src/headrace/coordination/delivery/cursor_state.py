"""The persisted form of a cursor, and the port behind which it is kept.

A state is a start offset and batches above it. What lies between two batches has never been settled
or given back, so it is available as if for the first time; so is all above the last one. Changes
are laid over a state in the order in which they were made: the newest word on an offset counts.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from headrace.coordination.delivery.offset_runs import RunMap
from headrace.coordination.delivery.record_states import SETTLED, RecordState, StateBatch
from headrace.ports.callbacks import Done


class CursorState(NamedTuple):
    """A start offset and what is known above it; as a change: what is new."""

    start: int
    """All below is settled."""
    batches: tuple[StateBatch, ...] = ()
    """Ascending, disjoint, none below `start`."""
    settled: int = 0
    """Offsets from `start` on that are settled (KIP-1226's delivery complete count)."""


class CursorStore(Protocol):
    """Keeps the state of one cursor."""

    def write(self, change: CursorState, done: Done[Exception | None]) -> None:
        """Keep `change`; `done(None)` once it is durable, in the order of asking.

        After `done(error)` what is kept is not known: read it again, forget the cursor.
        """


class StateMap:
    """A state that changes are laid over."""

    __slots__ = ("_runs", "start")

    def __init__(self, state: CursorState) -> None:
        self.start = state.start
        self._runs: RunMap[tuple[RecordState, int]] = RunMap()
        self.lay_over(state)

    def __len__(self) -> int:
        """Return how many batches the state has."""
        return len(self._runs)

    def lay_over(self, change: CursorState) -> None:
        """Take in what is new; a `start` below the present one (-1: none) changes nothing.

        What is settled stays so: a change that comes again, or late, takes back nothing.
        """
        if change.start > self.start:
            self.start = change.start
            self._runs.clear_below(change.start)
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

    def batches(self) -> tuple[StateBatch, ...]:
        """Return all batches, ascending."""
        return tuple(StateBatch(run.first, run.last, *run.value) for run in self._runs)


def in_order(batches: Iterable[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Return the batches noted one after the other as ascending and disjoint, from `start` on."""
    runs: RunMap[tuple[RecordState, int]] = RunMap()
    for first, last, state, count in batches:
        if last >= start:
            runs.assign(max(first, start), last, (state, count))
    return tuple(StateBatch(run.first, run.last, *run.value) for run in runs)
