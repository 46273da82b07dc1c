"""The persisted form of a cursor, and the port behind which it is kept.

A state is a start offset and batches above it. What lies between two batches has never been settled
or given back, so it is available as if for the first time; so is all above the last one. Changes
are laid over a state in the order in which they were made: the newest word on an offset counts.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple, Protocol

from headrace.delivery.offset_runs import RunMap
from headrace.delivery.record_states import SETTLED, RecordState, StateBatch
from headrace.model.errors import ApiError
from headrace.ports.callbacks import Done


class Delay(NamedTuple):
    """Offsets `first` to `last`, inclusive, available, but not before `ready_at`."""

    first: int
    last: int
    ready_at: float
    """In the cursor's time, monotonic seconds: who writes it down makes it a time of the wall."""


class CursorState(NamedTuple):
    """A start offset and what is known above it; as a change: what is new."""

    start: int
    """All below is settled."""
    batches: tuple[StateBatch, ...] = ()
    """Ascending, disjoint, none below `start`."""
    settled: int = 0
    """Offsets from `start` on that are settled (KIP-1226's delivery complete count)."""
    handed_out: int = 0
    """What lies below may have been handed out, though no batch says so; Kafka keeps no such."""
    delays: tuple[Delay, ...] = ()
    """Of available ones in `batches`. Kafka's share groups have none."""

    def below(self, end: int) -> "CursorState":
        """Return what of it is about offsets below `end`: where the log ends, or is another's.

        `start` may lie above; `settled` counts what is left.
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
    """Keeps the state of one cursor."""

    def write(self, change: CursorState, done: Done[ApiError | None]) -> None:
        """Keep `change`; `done(None)` once it is durable, in the order of asking.

        After `done(error)` what is kept is not known: read it again, forget the cursor.
        """

    def when_settled(self, done: Callable[[], None]) -> None:
        """Call back once all that was written before is durable, or has failed."""


class StateMap:
    """A state that changes are laid over."""

    __slots__ = ("_delays", "_runs", "handed_out", "start")

    def __init__(self, state: CursorState) -> None:
        self.start = state.start
        self.handed_out = 0
        self._delays: RunMap[float] = RunMap()
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
        """Take in delays: what came back later, or is settled, has none, or another."""
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
        """Return all of it."""
        batches = self.batches()
        delays = tuple(Delay(*run) for run in self._delays)
        settled = sum(last - first + 1 for first, last, state, _ in batches if state in SETTLED)
        return CursorState(self.start, batches, settled, self.handed_out, delays)


def in_order(batches: Iterable[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Return the batches noted one after the other as ascending and disjoint, from `start` on."""
    noted = [batch for batch in batches if batch.last >= start]
    left = sorted(noted)
    if all(before.last < after.first for before, after in pairwise(left)):
        return _joined(left, start)
    runs: RunMap[tuple[RecordState, int]] = RunMap()
    for first, last, state, count in noted:
        runs.assign(max(first, start), last, (state, count))
    return tuple(StateBatch(run.first, run.last, *run.value) for run in runs)


def _joined(batches: list[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Return ascending, disjoint batches from `start` on, alike neighbours as one."""
    found: list[StateBatch] = []
    for first, last, state, tries in batches:
        before = found[-1] if found else None
        if before is not None and before[1:] == (first - 1, state, tries):
            found[-1] = StateBatch(before.first, last, state, tries)
        else:
            found.append(StateBatch(max(first, start), last, state, tries))
    return tuple(found)
