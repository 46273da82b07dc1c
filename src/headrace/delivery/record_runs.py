"""`RecordRuns`: the states of offsets between a cursor's start and end, and the available ones."""

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Final, NamedTuple

from sortedcontainers import SortedList

from headrace.delivery.cursor_state import CursorState, Delay
from headrace.delivery.leases import Lease
from headrace.delivery.offset_runs import Run
from headrace.delivery.recent_runs import RecentRuns
from headrace.delivery.record_states import SETTLED, NotHeld, RecordState, StateBatch

_TRIMMED_FROM = 4096
"""List entries below the start that are removed together."""


class Slot(NamedTuple):
    """The state shared by the records of a run."""

    state: RecordState
    tries: int = 0
    """Deliveries so far; 0 for settled records, where it is not needed."""
    lease: Lease | None = None
    ready_at: float | None = None
    """Monotonic time in seconds before which an available record is not delivered."""


class _DeadLetters:
    """The holder of records that were given up and whose dead letters are not stored yet."""


DEAD_LETTERS: Final[Hashable] = _DeadLetters()
NEVER_OUT = Slot(RecordState.AVAILABLE)
ACKNOWLEDGED, ARCHIVED = Slot(RecordState.ACKNOWLEDGED), Slot(RecordState.ARCHIVED)
ENDS = {slot.state: slot for slot in (ACKNOWLEDGED, ARCHIVED)}


def is_available(slot: Slot) -> bool:
    """Return whether no holder has acquired it and it is not settled, delayed or not."""
    return slot.state is RecordState.AVAILABLE


class RecordRuns(RecentRuns[Slot]):
    """The records' states as runs, with an index of available and of delayed runs."""

    __slots__ = ("_delayed", "_ready")

    def __init__(self, start: int) -> None:
        super().__init__(start, is_available, self._run_added, self._run_removed)
        self._ready = SortedList()
        self._delayed: list[tuple[float, int]] = []

    def lay(self, state: CursorState) -> int:
        """Load a whole state into an empty map; return the number of its settled offsets."""
        settled = 0
        for first, last, kept, count in state.batches:
            before, end = self.end, last + 1
            self.fold(end)
            if first > before:
                self.assign(before, first - 1, NEVER_OUT)
            self.assign(first, last, ENDS[kept] if kept in SETTLED else Slot(kept, count))
            settled += (last - first + 1) if kept in SETTLED else 0
        for first, last, ready_at in state.delays:
            for run in self.between(first, last):
                if is_available(run.value):
                    self.assign(run.first, run.last, run.value._replace(ready_at=ready_at))
        return settled

    def listed_slot(self, first: int, last: int) -> Slot | None:
        """Return the slot that all of `first` to `last` have in the list; None: they differ."""
        at = first - self.base
        if at < 0 or first < self.start or last < first or last >= self.base + len(self.listed):
            return None
        slot = self.listed[at]
        if last > first:
            size = last - first + 1
            if slot is not None and self.listed[at : at + size].count(slot) != size:
                return None
        return slot

    def check_held(self, holder: Hashable, first: int, last: int) -> None:
        """Raise NotHeld unless `holder` has all of `first` to `last`.

        Those below the start pass.
        """
        at = max(first, self.start)
        if last >= self.end:
            raise NotHeld(f"offset {last} was never handed out")
        for run in self.between(at, last):
            lease = run.value.lease
            if lease is None or run.first != at:
                raise NotHeld(f"offset {at} is out with nobody")
            if lease.holder != holder:
                raise NotHeld(f"offset {at} is out with another")
            at = run.last + 1

    def ready_within(self, first: int, last: int, limit: int) -> list[Run[Slot]]:
        """Return available, undelayed runs within `first` and `last`, `limit` records at most."""
        found: list[Run[Slot]] = []
        for run in self.between(first, last):
            if limit <= 0:
                break
            if is_available(run.value) and run.value.ready_at is None:
                upto = min(run.last, run.first + limit - 1)
                found.append(Run(run.first, upto, run.value))
                limit -= upto - run.first + 1
        return found

    def advance(self) -> int:
        """Advance the start past settled offsets; return by how many."""
        before = start = self.start
        while start < self.base:
            run = self._runs.at(start)
            if run is None or run.value.state not in SETTLED:
                break
            start = run.last + 1
        index, listed = start - self.base, self.listed
        if index >= 0:
            size = len(listed)
            while index < size and ((slot := listed[index]) is ACKNOWLEDGED or slot is ARCHIVED):
                index += 1
            self.start = start = self.base + index
            if index == size or index >= _TRIMMED_FROM or before < start - index:
                self.clear_below(start)
        elif start > before:
            self.clear_below(start)
        return start - before

    def next_ready(self, now: float) -> int | None:
        """Return the lowest available, undelayed offset at time `now`, or None."""
        if self._delayed:
            self._promote(now)
        return int(self._ready[0]) if self._ready else None

    def next_time(self) -> float | None:
        """Return the earliest end of a delay in monotonic seconds; None: nothing is delayed."""
        while self._delayed and self._delayed_run(*self._delayed[0]) is None:
            heappop(self._delayed)
        return self._delayed[0][0] if self._delayed else None

    def batches(self) -> tuple[StateBatch, ...]:
        """Return all batches for a stored state; acquired records are available in it."""
        found = []
        for run in self:
            slot = run.value
            if slot.state in SETTLED:
                found.append(StateBatch(run.first, run.last, slot.state, slot.tries))
            elif slot.tries:
                found.append(StateBatch(run.first, run.last, RecordState.AVAILABLE, slot.tries))
        return tuple(found)

    def delays(self, batches: tuple[StateBatch, ...]) -> tuple[Delay, ...]:
        """Return the delays of available records in `batches`."""
        if not self._delayed:
            return ()
        return tuple(
            Delay(run.first, run.last, run.value.ready_at)
            for first, last, state, _ in batches
            if state is RecordState.AVAILABLE
            for run in self.between(first, last)
            if run.value.ready_at is not None
        )

    def _run_added(self, run: Run[Slot]) -> None:
        if run.value.ready_at is None:
            self._ready.add(run.first)
        else:
            heappush(self._delayed, (run.value.ready_at, run.first))

    def _run_removed(self, run: Run[Slot]) -> None:
        if run.value.ready_at is None:
            self._ready.remove(run.first)

    def _delayed_run(self, ready_at: float, first: int) -> Run[Slot] | None:
        """Return the run of a heap entry; None: it was split, removed or delayed otherwise."""
        run = self.at(first)
        if run is None or run.first != first or run.value.ready_at != ready_at:
            return None
        return run

    def _promote(self, now: float) -> None:
        """Make the records available whose delay is over."""
        while self._delayed and self._delayed[0][0] <= now:
            run = self._delayed_run(*heappop(self._delayed))
            if run is not None:
                self.assign(run.first, run.last, run.value._replace(ready_at=None))
