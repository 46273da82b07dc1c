"""The engine: one partition's records between those who want them.

From `start` to `end` every offset has a state; below `start` all is settled, from `end` on nobody
has asked for anything yet. The lowest available offset goes out first, so what came back is ahead
of what is new, unless it is not to be handed out before some time.

With `dead_letters` a record that is given up goes nowhere by itself: it is out with DEAD_LETTERS,
and whoever drives the cursor archives it by `settle` once its dead letter is stored. A restart in
between has it given up again, or handed out again where it was rejected: never lost.

With `ahead` a record is handed out only when a state that tells of it is durable: what lies below
`redelivered_below` may have been handed out before an unclean stop.

Times are monotonic seconds, the caller's. Whoever drives a cursor calls `expire` when
`next_deadline` has come, and keeps what `take_change` gives: a change counts once it is durable.
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
    """What is wanted of one partition, by everybody who shares it."""

    FOLDED_FROM = 8192
    """Offsets listed one by one before those left behind are folded into runs, if few are out."""

    def __init__(self, start: int, **rules: Unpack[Rules]) -> None:
        """Want everything from `start` on."""
        self.end = start
        """Nothing from here on was ever handed out."""
        self.deliveries_max = rules.get("deliveries_max")
        self.window = rules.get("window")
        self.dead_letters = rules.get("dead_letters", False)
        self.redelivered_below = start
        """What is handed out below it may have been before, though its tries do not tell."""
        self.out = 0
        """Records out with somebody."""
        self.settled = 0
        """Offsets from `start` on that are settled."""
        self._runs = RecordRuns(start)
        self._leases = Leases()
        self._dead: list[DeadLetter] = []
        self._ahead = rules.get("ahead")
        self._changes = Changes(start, start, self._ahead)

    @classmethod
    def restored(cls, state: CursorState, **rules: Unpack[Rules]) -> "Cursor":
        """Return the cursor that `state` was taken of; what was out is available again."""
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

    # What there is

    @property
    def start(self) -> int:
        """The lowest offset still wanted."""
        return self._runs.start

    @property
    def room(self) -> int:
        """How many new offsets the window has room for."""
        room = self._changes.durable_below - self.end
        if self.window is not None:
            room = min(room, self.window - (self.end - self.start))
        return max(room, 0)

    def next_offset(self, now: float) -> int:
        """Return where the next record to hand out lies, or would lie if there is none yet."""
        ready = self._runs.next_ready(now)
        return self.end if ready is None else ready

    def can_acquire(self, now: float) -> bool:
        """Tell whether anything may be handed out, as far as the log has it."""
        return self.room > 0 or self.next_offset(now) < self.end

    def next_deadline(self) -> float | None:
        """Return when `expire` or a delay's end may change something, None: not by itself."""
        lease = self._leases.next_deadline()
        delay = self._runs.next_time()
        if lease is None or delay is None:
            return lease if delay is None else delay
        return min(lease, delay)

    def holds(self, holder: Hashable) -> int:
        """Return how many records are out with `holder`."""
        return sum(lease.left for lease in self._leases.of(holder))

    # Handing out

    def last_together(self, first: int, last: int, *, others: bool) -> int | None:
        """Return the last offset that may be acquired together within `first` and `last`, with
        `others` acquired before; None: all. What is near its delivery limit is to be spared."""
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
        """Hand out what is available within `first` and `last`, `limit` records at most.

        New offsets go out only while the window has room, and then as far as `last`: who must not
        exceed the window asks for no more than `room`.
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
        """Hand out from `end` on, where nothing before it is available: the usual case."""
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

    # What holders say

    def check_held(self, holder: Hashable, first: int, last: int) -> None:
        """Raise NotHeld unless `first` to `last` is with `holder`, except below `start`."""
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
        """Do with `first` to `last` what their holder says; returns what became of them.

        `ready_at`: a released record is not handed out before then. NotHeld: then nothing is done.
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
        """Accept what went out lately and together; None: it is another case, nothing is done."""
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
            self._runs.assign(piece.first, piece.last, piece.value._replace(lease=lease))

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
        for run in self._available(first, last):
            self._runs.assign(run.first, run.last, ARCHIVED)
            self.settled += run.last - run.first + 1
            if keep:
                self._changes.note(run.first, run.last, RecordState.ARCHIVED, run.value.tries)
        self._advance()

    def give_up(self, first: int, last: int, cause: Cause) -> None:
        """Give up what is available within `first` and `last`: it has expired, or has no room."""
        if not self.dead_letters:
            self.archive(first, last)
            return
        for run in self._available(first, last):
            self._bury(run, cause)

    def take_dead(self) -> list[DeadLetter]:
        """Take what was given up since this was asked last, to be settled as DEAD_LETTERS.

        REJECT archives it; RELEASE has it handed out again, whatever its tries.
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
        self.end = max(self.end, offset)
        self._advance()

    # What is kept

    def take_change(self) -> CursorState | None:
        """Take what is new since this was asked last; None: nothing must be kept."""
        return self._changes.take(self._runs, self.settled)

    @property
    def change_is_due(self) -> bool:
        """Whether a change is wanted so that more may be handed out, now or soon."""
        return self._changes.is_due(self.end)

    def kept(self, change: CursorState) -> None:
        """Note that `change` is durable: as far as it tells, records may be handed out."""
        self._changes.kept(change)

    def state(self) -> CursorState:
        """Return all of it. What is out is kept as available, its tries counted."""
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
        """End one run of held records: let it become what `outcome` makes of it."""
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
        """Have what is out with nobody be out with DEAD_LETTERS."""
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
        """Move the start past all that is settled."""
        self.settled -= self._runs.advance()
