"""`Cursor`: the delivery state of one partition's records among the consumers that share it.

From `start` to `end` each offset has a state; below `start` all are settled, from `end` on none was
delivered. The lowest available offset is delivered first, so released records precede new ones,
except while they are delayed.

With `dead_letters` a given-up record is held by DEAD_LETTERS until the caller has stored its dead
letter and archives it by `settle`. A restart in between gives it up again, or delivers it again.

With `ahead` a record is delivered only once a durable state covers it: records below
`redelivered_below` may have been delivered before an unclean stop.

Times are monotonic seconds, passed by the caller. It calls `expire` at `next_deadline`, and stores
what `take_change` returns: a change counts once it is durable.
"""

from collections.abc import Hashable
from typing import Unpack

from headrace.delivery.changes import NO_BOUND, Changes
from headrace.delivery.cursor_state import CursorState
from headrace.delivery.leases import Lease, Leases
from headrace.delivery.limits import last_together, state_after
from headrace.delivery.offset_runs import Run
from headrace.delivery.recent_runs import LISTED_MAX
from headrace.delivery.record_runs import (
    ACKNOWLEDGED,
    ARCHIVED,
    DEAD_LETTERS,
    ENDS,
    NEVER_OUT,
    RecordRuns,
    Slot,
    is_available,
)
from headrace.delivery.record_states import (
    SETTLED,
    Acquired,
    Cause,
    DeadLetter,
    Outcome,
    RecordState,
    StateBatch,
)
from headrace.delivery.rules import Rules

_new = tuple.__new__


class Cursor:
    """The delivery state of one partition's records, shared by several holders. Pure."""

    FOLDED_FROM = 8192
    """Offsets in the list from which on older ones are folded into runs, if few are acquired."""

    def __init__(self, start: int, **rules: Unpack[Rules]) -> None:
        """Create a cursor for which all records from `start` on are new. `rules`: see `Rules`."""
        self.end = start
        """Offset from which on no record was ever delivered."""
        self.deliveries_max = rules.get("deliveries_max")
        self.window = rules.get("window")
        self.dead_letters = rules.get("dead_letters", False)
        self.redelivered_below = start
        """Offset below which a record may have been delivered before, though its count is 0."""
        self.out = 0
        """Records acquired now, dead letters included."""
        self.settled = 0
        """Settled offsets above `start`."""
        self._runs = RecordRuns(start)
        self._leases = Leases()
        self._dead: list[DeadLetter] = []
        self._ahead = rules.get("ahead")
        self._changes = Changes(start, start, self._ahead)

    @classmethod
    def restored(cls, state: CursorState, **rules: Unpack[Rules]) -> "Cursor":
        """Return the cursor of a stored state; records that were acquired are available again."""
        cursor = cls(state.start, **rules)
        cursor.settled = cursor._runs.lay(state)
        cursor.end = cursor._runs.end
        cursor.redelivered_below = max(state.handed_out, state.start)
        if cursor.dead_letters and cursor.deliveries_max is not None:
            for run in [*cursor._runs]:
                if is_available(run.value) and run.value.tries >= cursor.deliveries_max:
                    cursor._bury(run, Cause.TRIES_SPENT)
        cursor._advance()
        cursor._changes = Changes(state.start, cursor.redelivered_below, cursor._ahead)
        return cursor

    # Properties

    @property
    def start(self) -> int:
        """The lowest offset that is not settled."""
        return self._runs.start

    @property
    def room(self) -> int:
        """How many new offsets may be delivered now."""
        room = self._changes.durable_below - self.end
        if self.window is not None:
            room = min(room, self.window - (self.end - self.start))
        return max(room, 0)

    def next_offset(self, now: float) -> int:
        """Return the lowest offset that may be delivered: an available one, or `end`."""
        ready = self._runs.next_ready(now)
        return self.end if ready is None else ready

    def can_acquire(self, now: float) -> bool:
        """Return whether a record may be acquired, provided that the log has it."""
        return self.room > 0 or self.next_offset(now) < self.end

    def next_deadline(self) -> float | None:
        """Return the next end of a lease or a delay in monotonic seconds, or None."""
        lease = self._leases.next_deadline()
        delay = self._runs.next_time()
        if lease is None or delay is None:
            return lease if delay is None else delay
        return min(lease, delay)

    def holds(self, holder: Hashable) -> int:
        """Return the number of records that `holder` has acquired."""
        return sum(lease.left for lease in self._leases.of(holder))

    # Acquiring

    def last_together(self, first: int, last: int, *, others: bool) -> int | None:
        """Return the last offset in `first` to `last` that may be acquired together; None: all.
        Records near their limit go alone. `others`: some records are acquired already."""
        if self.deliveries_max is None or first >= self.end:
            return None
        runs = self._runs.between(max(first, self.start), min(last, self.end - 1))
        return last_together(runs, self.deliveries_max, others=others)

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
        """Acquire the available records within `first` and `last` for `holder`, `limit` at most.

        New offsets are acquired as far as `last` if the window has room for any: a caller that must
        not exceed the window passes a `last` within `room`.
        """
        if self._runs.next_ready(now) is None and first <= self.end:
            return self._acquire_new(last, holder, deadline, limit)
        left = NO_BOUND if limit is None else limit
        last = min(last, self._changes.durable_below - 1)
        taken = self._runs.ready_within(first, min(last, self.end - 1), left)
        left -= sum(run.last - run.first + 1 for run in taken)
        fresh = max(first, self.end)
        if last >= fresh and left > 0 and self.room > 0:
            upto = min(last, fresh + left - 1)
            self._runs.assign(self.end, upto, NEVER_OUT)
            taken.append(Run(fresh, upto, NEVER_OUT))
            self.end = upto + 1
        if not taken:
            return []
        count = sum(run.last - run.first + 1 for run in taken)
        lease = self._leases.open(Lease(holder, taken[0].first, taken[-1].last, count, deadline))
        self.out += count
        acquired: list[Acquired] = []
        for run in taken:
            tries = run.value.tries + 1
            self._runs.assign(run.first, run.last, Slot(RecordState.ACQUIRED, tries, lease))
            acquired.append(Acquired(run.first, run.last, tries))
        return acquired

    def _acquire_new(
        self, last: int, holder: Hashable, deadline: float | None, limit: int | None
    ) -> list[Acquired]:
        """Acquire offsets from `end` to `last`, none before being available: the common case."""
        first = self.end
        if limit is not None and first + limit - 1 < last:
            last = first + limit - 1
        if last >= self._changes.durable_below:
            last = self._changes.durable_below - 1
        if last < first or (self.window is not None and first - self.start >= self.window):
            return []
        size = last - first + 1
        lease = self._leases.open(Lease(holder, first, last, size, deadline))
        slot = Slot(RecordState.ACQUIRED, 1, lease)
        listed = self._runs.listed
        if size == 1:
            listed.append(slot)
        elif size <= LISTED_MAX:
            listed += [slot] * size
        else:
            self._runs.assign(first, last, slot)
        self.end = last + 1
        self.out += size
        if len(listed) > self.FOLDED_FROM and len(listed) > 4 * self.out:
            self._runs.clear_below(self.start)
            self._runs.fold(self.end - self.FOLDED_FROM // 2)
        return [Acquired(first, last, 1)]

    # Requests of holders

    def check_held(self, holder: Hashable, first: int, last: int) -> None:
        """Raise NotHeld unless `holder` has all of `first` to `last` that is not below `start`."""
        self._runs.check_held(holder, first, last)

    def settle(
        self,
        holder: Hashable,
        first: int,
        last: int,
        outcome: Outcome,
        *,
        ready_at: float | None = None,
    ) -> list[StateBatch]:
        """Apply `outcome` to acquired records `first` to `last`; return their new states.

        `ready_at`: time before which released ones are not available. NotHeld: nothing was changed.
        """
        if outcome is Outcome.ACCEPT:
            done = self._accept_recent(holder, first, last)
            if done is not None:
                return done
        self.check_held(holder, first, last)
        pieces = self._runs.between(max(first, self.start), last)
        done = [self._end_lease(piece, outcome, ready_at) for piece in pieces]
        self._advance()
        return done

    def _accept_recent(self, holder: Hashable, first: int, last: int) -> list[StateBatch] | None:
        """Accept listed records of one lease; None: another case, and nothing was changed."""
        runs = self._runs
        slot = runs.listed_slot(first, last)
        lease = None if slot is None else slot.lease
        if slot is None or lease is None or lease.holder != holder or holder is DEAD_LETTERS:
            return None
        size = last - first + 1
        self._leases.less(lease, size)
        self.out -= size
        done: StateBatch = _new(StateBatch, (first, last, RecordState.ACKNOWLEDGED, slot.tries))
        if first > runs.start:
            at = first - runs.base
            runs.listed[at : at + size] = [ACKNOWLEDGED] * size
            self.settled += size
            self._changes.add(done)
        else:
            runs.start = last + 1
            self.settled -= runs.advance()
        return [done]

    def renew(self, holder: Hashable, first: int, last: int, deadline: float | None) -> None:
        """Replace the deadline of acquired records; None: until the holder leaves.

        Raises NotHeld.
        """
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
            self._runs.assign(piece.first, piece.last, piece.value._replace(lease=lease))

    def release_holder(
        self, holder: Hashable, outcome: Outcome = Outcome.RELEASE
    ) -> list[StateBatch]:
        """End all leases of a holder that has left; return the records' new states."""
        return self._end_leases(self._leases.of(holder), outcome)

    def expire(self, now: float) -> list[StateBatch]:
        """Release the records of leases whose deadline has come; return their new states."""
        return self._end_leases(tuple(self._leases.overdue(now)), Outcome.RELEASE)

    # Changes without a holder

    def archive(self, first: int, last: int, *, keep: bool = True) -> None:
        """Archive available records within `first` and `last`: they are never delivered.

        `keep=False`: not stored, as a reader of the log finds the same again (markers, gaps).
        """
        for run in self._available(first, last):
            self._runs.assign(run.first, run.last, ARCHIVED)
            self.settled += run.last - run.first + 1
            if keep:
                self._changes.note(run.first, run.last, RecordState.ARCHIVED, run.value.tries)
        self._advance()

    def give_up(self, first: int, last: int, cause: Cause) -> None:
        """Archive available records within `first` and `last`, or make them dead letters."""
        if not self.dead_letters:
            self.archive(first, last)
            return
        for run in self._available(first, last):
            self._bury(run, cause)

    def take_dead(self) -> list[DeadLetter]:
        """Return the new dead letters, which the caller settles with holder DEAD_LETTERS.

        REJECT archives such a record; RELEASE has it delivered again, whatever its count.
        """
        dead, self._dead = self._dead, []
        return dead

    def _available(self, first: int, last: int) -> list[Run[Slot]]:
        first = max(first, self.start)
        if last >= self.end and last >= first:
            self._runs.assign(self.end, last, NEVER_OUT)
            self.end = last + 1
        return [run for run in self._runs.between(first, last) if is_available(run.value)]

    def forget_below(self, offset: int) -> None:
        """Advance the start to `offset`, the log's first; drop acquired records below it."""
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
        self.end = max(self.end, offset)
        self._advance()

    # Changes to store

    def take_change(self) -> CursorState | None:
        """Return the changes since the last call, to be stored; None: nothing must be stored."""
        return self._changes.take(self._runs, self.settled)

    @property
    def change_is_due(self) -> bool:
        """Whether a change must be written to the log, so that more records can be delivered."""
        return self._changes.is_due(self.end)

    def kept(self, change: CursorState) -> None:
        """Note that `change` is durable, so that the records it covers may be delivered."""
        self._changes.kept(change)

    def state(self) -> CursorState:
        """Return the whole state, for a store. Acquired records are available in it."""
        batches = self._runs.batches()
        told = 0 if self._ahead is None else self.redelivered_below
        return CursorState(self.start, batches, self.settled, told, self._runs.delays(batches))

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

    def _end_lease(self, run: Run[Slot], outcome: Outcome, ready_at: float | None) -> StateBatch:
        """Apply `outcome` to one run of acquired records."""
        first, last, slot = run
        size = last - first + 1
        if slot.lease is not None:
            self._leases.less(slot.lease, size)
        self.out -= size
        if outcome is Outcome.RETURN:
            self._runs.assign(first, last, Slot(RecordState.AVAILABLE, slot.tries - 1))
            return StateBatch(first, last, RecordState.AVAILABLE, slot.tries - 1)
        state = state_after(slot, outcome, self.deliveries_max, dead_letters=self.dead_letters)
        if isinstance(state, Cause):
            return self._bury(run, state)
        if state in SETTLED:
            self._runs.assign(first, last, ENDS[state])
            self.settled += size
        else:
            self._runs.assign(first, last, Slot(state, slot.tries, None, ready_at))
        return self._changes.note(first, last, state, slot.tries)

    def _bury(self, run: Run[Slot], cause: Cause) -> StateBatch:
        """Make records dead letters, held by DEAD_LETTERS."""
        first, last, slot = run
        size = last - first + 1
        lease = self._leases.open(Lease(DEAD_LETTERS, first, last, size, None))
        self._runs.assign(first, last, Slot(RecordState.ACQUIRED, slot.tries, lease))
        self.out += size
        self._dead.append(DeadLetter(first, last, slot.tries, cause))
        if slot.tries:
            self._changes.note(first, last, RecordState.AVAILABLE, slot.tries)
        return StateBatch(first, last, RecordState.ACQUIRED, slot.tries)

    def _advance(self) -> None:
        """Advance the start past settled offsets."""
        self.settled -= self._runs.advance()
