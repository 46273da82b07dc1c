"""The engine: one partition's records between those who want them.

From `start` to `end` every offset has a state; below `start` all is settled, from `end` on nobody
has asked for anything yet. The lowest available offset goes out first, so what came back is ahead
of what is new, unless it is not to be handed out before some time.

Times are monotonic seconds, the caller's. Whoever drives a cursor calls `expire` when
`next_deadline` has come, and keeps what `take_change` gives: a change counts once it is durable.
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import NamedTuple

from sortedcontainers import SortedList

from headrace.coordination.delivery.cursor_state import CursorState, in_order
from headrace.coordination.delivery.leases import Lease, Leases
from headrace.coordination.delivery.offset_runs import Run, RunMap
from headrace.coordination.delivery.record_states import (
    SETTLED,
    Acquired,
    NotHeld,
    Outcome,
    RecordState,
    StateBatch,
)

_NO_BOUND = 1 << 62


class _Slot(NamedTuple):
    """What a run's records have in common."""

    state: RecordState
    tries: int = 0
    """Deliveries so far; 0 for settled ones, of which nobody asks it."""
    lease: Lease | None = None
    ready_at: float | None = None
    """Available, but not before then."""


_NEVER_OUT = _Slot(RecordState.AVAILABLE)
_ENDS = {state: _Slot(state) for state in SETTLED}


class Cursor:
    """What is wanted of one partition, by everybody who shares it."""

    def __init__(
        self,
        start: int,
        *,
        deliveries_max: int | None = None,
        window: int | None = None,
    ) -> None:
        """Want everything from `start` on.

        `deliveries_max`: a record that comes back from its last try is archived.
        `window`: offsets from `start` on that may be unsettled or in between; None: any number.
        """
        self.start = start
        """The lowest offset still wanted."""
        self.end = start
        """Nothing from here on was ever handed out."""
        self.deliveries_max = deliveries_max
        self.window = window
        self.out = 0
        """Records out with somebody."""
        self.settled = 0
        """Offsets from `start` on that are settled."""
        self._ready = SortedList()
        self._runs: RunMap[_Slot] = RunMap(self._run_added, self._run_removed)
        self._leases = Leases()
        self._delayed: list[tuple[float, int]] = []
        self._notes: list[StateBatch] = []
        self._start_taken = start

    @classmethod
    def restored(
        cls,
        state: CursorState,
        *,
        deliveries_max: int | None = None,
        window: int | None = None,
    ) -> "Cursor":
        """Return the cursor that `state` was taken of; what was out is available again."""
        cursor = cls(state.start, deliveries_max=deliveries_max, window=window)
        for first, last, kept, count in state.batches:
            if first > cursor.end:
                cursor._put(cursor.end, first - 1, _NEVER_OUT)
            settled = kept in SETTLED
            cursor._put(first, last, _ENDS[kept] if settled else _Slot(kept, count))
            cursor.settled += (last - first + 1) if settled else 0
            cursor.end = last + 1
        cursor._advance()
        cursor._start_taken = state.start
        return cursor

    # What there is

    def hold(self) -> int:
        """Return the lowest offset still wanted: retention is to keep the log from here on."""
        return self.start

    @property
    def room(self) -> int:
        """How many new offsets the window has room for."""
        return _NO_BOUND if self.window is None else max(self.window - (self.end - self.start), 0)

    def next_offset(self, now: float) -> int:
        """Return where the next record to hand out lies, or would lie if there is none yet."""
        self._promote(now)
        return int(self._ready[0]) if self._ready else self.end

    def can_acquire(self, now: float) -> bool:
        """Tell whether anything may be handed out, as far as the log has it."""
        return self.room > 0 or self.next_offset(now) < self.end

    def next_deadline(self) -> float | None:
        """Return when `expire` or a delay's end may change something, None: not by itself."""
        lease = self._leases.next_deadline()
        while self._delayed and self._delayed_run(*self._delayed[0]) is None:
            heappop(self._delayed)
        delay = self._delayed[0][0] if self._delayed else None
        if lease is None or delay is None:
            return lease if delay is None else delay
        return min(lease, delay)

    def holds(self, holder: Hashable) -> int:
        """Return how many records are out with `holder`."""
        return sum(lease.left for lease in self._leases.of(holder))

    # Handing out

    def acquire(
        self,
        first: int,
        last: int,
        holder: Hashable,
        *,
        now: float,
        deadline: float | None = None,
        limit: int | None = None,
    ) -> list[Acquired]:
        """Hand out what is available within `first` and `last`, `limit` records at most.

        New offsets go out only while the window has room, and then as far as `last`: who must not
        exceed the window asks for no more than `room`.
        """
        self._promote(now)
        left = _NO_BOUND if limit is None else limit
        taken: list[Run[_Slot]] = []
        for run in self._runs.between(first, min(last, self.end - 1)):
            if left <= 0:
                break
            if run.value.state is RecordState.AVAILABLE and run.value.ready_at is None:
                upto = min(run.last, run.first + left - 1)
                taken.append(Run(run.first, upto, run.value))
                left -= upto - run.first + 1
        if last >= self.end and left > 0 and self.room > 0:
            fresh = max(first, self.end)
            if fresh > self.end:
                self._put(self.end, fresh - 1, _NEVER_OUT)
            upto = min(last, fresh + left - 1)
            taken.append(Run(fresh, upto, _NEVER_OUT))
            self.end = upto + 1
        if not taken:
            return []
        count = sum(run.last - run.first + 1 for run in taken)
        lease = self._leases.open(Lease(holder, taken[0].first, taken[-1].last, count, deadline))
        self.out += count
        acquired: list[Acquired] = []
        for run in taken:
            tries = run.value.tries + 1
            self._put(run.first, run.last, _Slot(RecordState.ACQUIRED, tries, lease))
            acquired.append(Acquired(run.first, run.last, tries))
        return acquired

    # What holders say

    def check_held(self, holder: Hashable, first: int, last: int) -> None:
        """Raise NotHeld unless `first` to `last` is with `holder`, except below `start`."""
        at = max(first, self.start)
        if last >= self.end:
            raise NotHeld(f"offset {last} was never handed out")
        for run in self._runs.between(at, last):
            lease = run.value.lease
            if lease is None or run.first != at:
                raise NotHeld(f"offset {at} is out with nobody")
            if lease.holder != holder:
                raise NotHeld(f"offset {at} is out with another")
            at = run.last + 1

    def settle(
        self,
        holder: Hashable,
        first: int,
        last: int,
        outcome: Outcome,
        *,
        ready_at: float | None = None,
    ) -> list[StateBatch]:
        """Do with `first` to `last` what their holder says; returns what became of them.

        `ready_at`: a released record is not handed out before then. NotHeld: then nothing is done.
        """
        self.check_held(holder, first, last)
        pieces = self._runs.between(max(first, self.start), last)
        done = [self._end_lease(piece, outcome, ready_at) for piece in pieces]
        self._advance()
        return done

    def renew(self, holder: Hashable, first: int, last: int, deadline: float | None) -> None:
        """Let `holder` have `first` to `last` until `deadline`. NotHeld."""
        self.check_held(holder, first, last)
        pieces = self._runs.between(max(first, self.start), last)
        if not pieces:
            return
        count = sum(piece.last - piece.first + 1 for piece in pieces)
        lease = Lease(holder, pieces[0].first, pieces[-1].last, count, deadline)
        self._leases.open(lease)
        for piece in pieces:
            if piece.value.lease is not None:
                self._leases.less(piece.value.lease, piece.last - piece.first + 1)
            self._put(piece.first, piece.last, piece.value._replace(lease=lease))

    def release_holder(
        self, holder: Hashable, outcome: Outcome = Outcome.RELEASE
    ) -> list[StateBatch]:
        """Take back all of a holder that has gone; returns what became of it."""
        return self._end_leases(self._leases.of(holder), outcome)

    def expire(self, now: float) -> list[StateBatch]:
        """Take back what is out for too long. Returns what became of it."""
        return self._end_leases(tuple(self._leases.overdue(now)), Outcome.RELEASE)

    # What is done without a holder

    def archive(self, first: int, last: int, *, keep: bool = True) -> None:
        """Archive `first` to `last`: never hand it out, except what is out already.

        `keep=False`: whoever reads the log again finds the same, so it need not be kept.
        """
        first = max(first, self.start)
        if last >= self.end and last >= first:
            self._put(self.end, max(last, first), _NEVER_OUT)
            self.end = last + 1
        for run in self._runs.between(first, last):
            if run.value.state is RecordState.AVAILABLE:
                self._put(run.first, run.last, _ENDS[RecordState.ARCHIVED])
                self.settled += run.last - run.first + 1
                if keep:
                    self._note(run.first, run.last, RecordState.ARCHIVED, run.value.tries)
        self._advance()

    def forget_below(self, offset: int) -> None:
        """Forget what is below `offset`, where the log begins now, whoever holds it."""
        if offset <= self.start:
            return
        for run in self._runs.between(self.start, offset - 1):
            size = run.last - run.first + 1
            if run.value.lease is not None:
                self._leases.less(run.value.lease, size)
                self.out -= size
            elif run.value.state in SETTLED:
                self.settled -= size
        self._runs.clear_below(offset)
        self.start = offset
        self.end = max(self.end, offset)
        self._advance()

    # What is kept

    def take_change(self) -> CursorState | None:
        """Take what is new since this was asked last; None: nothing that must be kept."""
        notes, self._notes = self._notes, []
        batches = in_order(notes, self.start) if notes else ()
        if not batches and self.start == self._start_taken:
            return None
        self._start_taken = self.start
        return CursorState(self.start, batches, self.settled)

    def state(self) -> CursorState:
        """Return all of it. What is out is kept as available, its tries counted."""
        batches = []
        for run in self._runs:
            slot = run.value
            if slot.state in SETTLED:
                batches.append(StateBatch(run.first, run.last, slot.state, slot.tries))
            elif slot.tries:
                batches.append(StateBatch(run.first, run.last, RecordState.AVAILABLE, slot.tries))
        return CursorState(self.start, tuple(batches), self.settled)

    # Inside

    def _end_leases(self, leases: tuple[Lease, ...], outcome: Outcome) -> list[StateBatch]:
        done = [
            self._end_lease(run, outcome, None)
            for lease in leases
            for run in self._runs.between(lease.first, lease.last)
            if run.value.lease is lease
        ]
        self._advance()
        return done

    def _end_lease(self, run: Run[_Slot], outcome: Outcome, ready_at: float | None) -> StateBatch:
        """End one run of held records: let it become what `outcome` makes of it."""
        first, last, slot = run
        size = last - first + 1
        if slot.lease is not None:
            self._leases.less(slot.lease, size)
        self.out -= size
        if outcome is Outcome.RETURN:
            self._put(first, last, _Slot(RecordState.AVAILABLE, slot.tries - 1))
            return StateBatch(first, last, RecordState.AVAILABLE, slot.tries - 1)
        if outcome is Outcome.ACCEPT:
            state = RecordState.ACKNOWLEDGED
        elif outcome is Outcome.REJECT or (
            self.deliveries_max is not None and slot.tries >= self.deliveries_max
        ):
            state = RecordState.ARCHIVED
        else:
            state = RecordState.AVAILABLE
        if state in SETTLED:
            self._put(first, last, _ENDS[state])
            self.settled += size
        else:
            self._put(first, last, _Slot(state, slot.tries, None, ready_at))
        return self._note(first, last, state, slot.tries)

    def _note(self, first: int, last: int, state: RecordState, count: int) -> StateBatch:
        noted = StateBatch(first, last, state, count)
        self._notes.append(noted)
        return noted

    def _put(self, first: int, last: int, slot: _Slot) -> None:
        self._runs.assign(first, last, slot)

    def _advance(self) -> None:
        """Move the start past all that is settled."""
        lowest = self._runs.first()
        while lowest is not None and lowest.value.state in SETTLED:
            self._runs.clear(lowest.first, lowest.last)
            self.settled -= lowest.last - lowest.first + 1
            self.start = lowest.last + 1
            lowest = self._runs.first()
        if lowest is None:
            self.start = self.end

    def _run_added(self, run: Run[_Slot]) -> None:
        slot = run.value
        if slot.state is RecordState.AVAILABLE:
            if slot.ready_at is None:
                self._ready.add(run.first)
            else:
                heappush(self._delayed, (slot.ready_at, run.first))

    def _run_removed(self, run: Run[_Slot]) -> None:
        if run.value.state is RecordState.AVAILABLE and run.value.ready_at is None:
            self._ready.remove(run.first)

    def _delayed_run(self, ready_at: float, first: int) -> Run[_Slot] | None:
        """Return the run of a heap's entry; None: it is split, gone or delayed otherwise."""
        run = self._runs.at(first)
        if run is None or run.first != first or run.value.ready_at != ready_at:
            return None
        return run

    def _promote(self, now: float) -> None:
        """Make available what was delayed until now."""
        while self._delayed and self._delayed[0][0] <= now:
            run = self._delayed_run(*heappop(self._delayed))
            if run is not None:
                self._put(run.first, run.last, run.value._replace(ready_at=None))
