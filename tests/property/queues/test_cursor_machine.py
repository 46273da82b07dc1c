"""The cursor with holes against a dict of single offsets, with restarts in between."""

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.delivery.cursor import Cursor
from headrace.delivery.cursor_state import CursorState, StateMap
from headrace.delivery.record_runs import DEAD_LETTERS
from headrace.delivery.record_states import SETTLED, Cause, NotHeld, Outcome, RecordState
from headrace.delivery.rules import Rules
from tests.support.queues.cursor_model import FoldingCursor, Kept, Known, in_time, said

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED

holders = st.sampled_from(["a", "b", "c"])
DEAD = str(DEAD_LETTERS)
lengths = st.integers(1, 12)
steps = st.integers(-6, 30)


class CursorMachine(RuleBasedStateMachine):
    """Every offset by itself, looked at one by one."""

    @initialize(
        start=st.integers(0, 5),
        tries=st.sampled_from([None, 1, 2, 3]),
        window=st.sampled_from([None, 5, 20]),
        dead_letters=st.booleans(),
        ahead=st.sampled_from([None, 1, 8, 40]),
        kind=st.sampled_from([Cursor, FoldingCursor]),
    )
    def begin(
        self, kind: type[Cursor], start: int, tries: int | None, window: int | None,
        dead_letters: bool, ahead: int | None,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.tries, self.window, self.dead_letters, self.ahead = tries, window, dead_letters, ahead
        self.now = 100.0
        self.cursor = self.kind(start, **self.told_rules())
        self.durable = self.told = start
        self.delivered: set[int] = set()
        """Ever handed out, before restarts too."""
        self.model: dict[int, Known] = {}
        self.start = self.end = start
        self.kept = StateMap(CursorState(start))
        self.kept_model: dict[int, Kept] = {}
        self.kept_start = start
        self.noted: dict[int, Kept] = {}
        self.dead: set[int] = set()

    def told_rules(self) -> Rules:
        return Rules(
            deliveries_max=self.tries,
            window=self.window,
            dead_letters=self.dead_letters,
            ahead=self.ahead,
        )

    # the model's own words

    def ready(self, offset: int) -> bool:
        known = self.model[offset]
        return known.state is AVAILABLE and (known.ready_at is None or known.ready_at <= self.now)

    def grow(self, upto: int) -> None:
        for offset in range(self.end, upto):
            self.model[offset] = Known(AVAILABLE)
        self.end = max(self.end, upto)

    def advance(self) -> None:
        while self.start < self.end and self.model[self.start].state in SETTLED:
            del self.model[self.start]
            self.start += 1

    def bury(self, offset: int) -> None:
        count = self.model[offset].tries
        self.model[offset] = Known(ACQUIRED, count, DEAD)
        self.dead.add(offset)
        if count:
            self.noted[offset] = (AVAILABLE, count, None)

    def become(self, offset: int, outcome: Outcome, ready_at: float | None = None) -> None:
        known = self.model[offset]
        count = known.tries
        if outcome is Outcome.RETURN:
            self.model[offset] = Known(AVAILABLE, count - 1)
            if count == 1 and offset >= self.cursor.redelivered_below:
                self.delivered.discard(offset)
            return
        spent = self.tries is not None and count >= self.tries
        if outcome is Outcome.ACCEPT:
            self.model[offset] = Known(ACKNOWLEDGED)
        elif known.holder == DEAD and outcome is Outcome.RELEASE:
            self.model[offset] = Known(AVAILABLE, count)
        elif self.dead_letters and known.holder != DEAD and (outcome is Outcome.REJECT or spent):
            self.bury(offset)
            return
        elif outcome is Outcome.REJECT or (self.tries is not None and count >= self.tries):
            self.model[offset] = Known(ARCHIVED)
        else:
            self.model[offset] = Known(AVAILABLE, count, ready_at=ready_at)
        self.noted[offset] = (self.model[offset].state, count, self.model[offset].ready_at)

    # what is done

    @rule(step=steps, length=lengths, holder=holders, limit=st.none() | st.integers(0, 5),
          lease=st.none() | st.integers(1, 20))  # fmt: skip
    def acquire(
        self, step: int, length: int, holder: str, limit: int | None, lease: int | None
    ) -> None:
        first = max(self.cursor.next_offset(self.now) + step, 0)
        last = first + length - 1
        deadline = None if lease is None else self.now + lease
        given = self.cursor.acquire(
            first, last, holder, now=self.now, deadline=deadline, limit=limit
        )
        left = 1 << 30 if limit is None else limit
        expected: dict[int, int] = {}
        had_room = self.window is None or self.end - self.start < self.window
        if self.ahead is not None:
            last = min(last, self.durable - 1)
        for offset in range(first, min(last + 1, self.end)):
            if offset >= self.start and left and self.ready(offset):
                expected[offset] = self.model[offset].tries + 1
                left -= 1
        fresh = range(max(first, self.end), last + 1)
        if had_room and left and fresh:
            fresh = fresh[:left]
            self.grow(fresh[-1] + 1)
            expected.update(dict.fromkeys(fresh, 1))
        for offset, count in expected.items():
            self.model[offset] = Known(ACQUIRED, count, holder, deadline)
        below = self.cursor.redelivered_below
        again = {at for at, count in expected.items() if count > 1 or at < below}
        if self.ahead is not None:
            assert self.delivered & expected.keys() <= again, "handed out again as if for the first"
        self.delivered |= expected.keys()
        assert {
            offset: one.tries for one in given for offset in range(one.first, one.last + 1)
        } == expected

    @rule(data=st.data(), holder=holders, outcome=st.sampled_from(list(Outcome)),
          delay=st.none() | st.integers(1, 20))  # fmt: skip
    def settle(self, data: st.DataObject, holder: str, outcome: Outcome, delay: int | None) -> None:
        first = data.draw(st.integers(max(self.start - 3, 0), self.end + 1))
        last = first + data.draw(lengths) - 1
        mine = [
            offset in self.model and self.model[offset].holder == holder
            for offset in range(max(first, self.start), last + 1)
        ]
        ready_at = None if delay is None else self.now + delay
        if last >= self.end or not all(mine):
            with pytest.raises(NotHeld):
                self.cursor.settle(holder, first, last, outcome, ready_at=ready_at)
            return
        done = self.cursor.settle(holder, first, last, outcome, ready_at=ready_at)
        for offset in range(max(first, self.start), last + 1):
            self.become(offset, outcome, ready_at)
        for one in done:
            for offset in range(one.first, one.last + 1):
                assert self.model[offset].state is one.state
        self.advance()

    @rule(data=st.data(), holder=holders, lease=st.integers(1, 40))
    def renew(self, data: st.DataObject, holder: str, lease: int) -> None:
        out = [offset for offset, known in self.model.items() if known.holder == holder]
        if not out:
            return
        first = last = data.draw(st.sampled_from(sorted(out)))
        while last + 1 in out and data.draw(st.booleans()):
            last += 1
        self.cursor.renew(holder, first, last, self.now + lease)
        for offset in range(first, last + 1):
            self.model[offset] = self.model[offset]._replace(deadline=self.now + lease)

    @rule(holder=holders, outcome=st.sampled_from([Outcome.RELEASE, Outcome.RETURN]))
    def gone(self, holder: str, outcome: Outcome) -> None:
        self.cursor.release_holder(holder, outcome)
        for offset, known in list(self.model.items()):
            if known.holder == holder:
                self.become(offset, outcome)
        self.advance()

    @rule(seconds=st.integers(0, 25))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        self.cursor.expire(self.now)
        for offset, known in list(self.model.items()):
            if known.deadline is not None and known.deadline <= self.now:
                self.become(offset, Outcome.RELEASE)
        self.advance()

    @rule(step=steps, length=lengths, keep=st.booleans())
    def archive(self, step: int, length: int, keep: bool) -> None:
        first = max(self.start + step, 0)
        last = first + length - 1
        self.cursor.archive(first, last, keep=keep)
        if last < self.start:
            return
        self.grow(last + 1)
        for offset in range(max(first, self.start), last + 1):
            known = self.model[offset]
            if known.state is AVAILABLE:
                self.model[offset] = Known(ARCHIVED)
                if keep:
                    self.noted[offset] = (ARCHIVED, known.tries, None)
        self.advance()

    @rule(step=steps, length=lengths, cause=st.sampled_from([Cause.EXPIRED, Cause.DROPPED]))
    def give_up(self, step: int, length: int, cause: Cause) -> None:
        if not self.dead_letters:
            return
        first = max(self.start + step, 0)
        last = first + length - 1
        self.cursor.give_up(first, last, cause)
        if last < self.start:
            return
        self.grow(last + 1)
        for offset in range(max(first, self.start), last + 1):
            if self.model[offset].state is AVAILABLE:
                self.bury(offset)

    @rule()
    def take_dead(self) -> None:
        letters = self.cursor.take_dead()
        taken = {at for letter in letters for at in range(letter.first, letter.last + 1)}
        assert {at for at in taken if at >= self.start} == {
            at for at in self.dead if at >= self.start
        }
        self.dead = set()

    @rule(data=st.data(), stored=st.booleans())
    def dead_letter_is_stored(self, data: st.DataObject, stored: bool) -> None:
        waiting = [at for at, known in self.model.items() if known.holder == DEAD]
        if not waiting:
            return
        offset = data.draw(st.sampled_from(sorted(waiting)))
        outcome = Outcome.REJECT if stored else Outcome.RELEASE
        self.take_dead()
        self.cursor.settle(DEAD_LETTERS, offset, offset, outcome)
        self.become(offset, outcome)
        self.advance()

    @rule(step=st.integers(-2, 8))
    def log_starts_later(self, step: int) -> None:
        offset = self.start + step
        self.cursor.forget_below(offset)
        if offset <= self.start:
            return
        for lower in range(self.start, offset):
            self.model.pop(lower, None)
        self.start = offset
        self.end = max(self.end, offset)
        self.advance()

    @rule()
    def keep(self) -> None:
        due = self.ahead is not None and self.end + self.ahead // 2 >= self.told
        change = self.cursor.take_change()
        noted = {offset: one for offset, one in self.noted.items() if offset >= self.start}
        assert (change is None) == (not noted and self.start == self.kept_start and not due)
        if due and self.ahead is not None:
            self.told = self.end + self.ahead
        if change is not None:
            assert change.start == self.start
            assert change.handed_out == (0 if self.ahead is None else self.told)
            self.kept.lay_over(change)
            self.cursor.kept(change)
            self.durable = max(self.durable, change.handed_out)
        self.kept_start = self.start
        self.kept_model |= noted
        self.kept_model = {at: one for at, one in self.kept_model.items() if at >= self.start}
        self.noted = {}
        assert said(self.kept.state(), self.now) == in_time(self.kept_model, self.now)

    def begin_again(self, state: CursorState) -> None:
        self.cursor = self.kind.restored(state, **self.told_rules())
        self.noted, self.dead = {}, set()
        self.durable = self.told = max(state.handed_out, state.start)
        for offset, known in list(self.model.items()):
            spent = self.tries is not None and known.tries >= self.tries
            if self.dead_letters and known.state is AVAILABLE and spent:
                self.bury(offset)
        self.noted = {}
        self.advance()

    @rule()
    def restart(self) -> None:
        """What was kept counts; what was out, or settled since, is available again."""
        self.model = {}
        self.start = self.end = self.kept_start
        if self.kept_model:
            self.grow(max(self.kept_model) + 1)
        for offset, (state_kept, count, ready_at) in self.kept_model.items():
            settled = state_kept in SETTLED
            self.model[offset] = Known(state_kept, 0 if settled else count, ready_at=ready_at)
        self.begin_again(self.kept.state())

    @rule()
    def restart_from_all_of_it(self) -> None:
        """The whole state says what the model does; what is out is available again."""
        expected: dict[int, Kept] = {
            offset: (
                known.state if known.state in SETTLED else AVAILABLE,
                known.tries,
                known.ready_at,
            )
            for offset, known in self.model.items()
            if known.state in SETTLED or known.tries
        }
        whole = self.cursor.state()
        assert whole.start == self.start
        assert whole.settled == sum(state in SETTLED for state, _, _ in expected.values())
        assert said(whole, self.now) == in_time(expected, self.now)
        self.kept, self.kept_model, self.kept_start = StateMap(whole), expected, self.start
        # What was never out at the end need not be known of.
        self.end = max(expected, default=self.start - 1) + 1
        self.model = {
            offset: Known(state, tries, ready_at=ready_at)
            for offset in range(self.start, self.end)
            for state, tries, ready_at in [expected.get(offset, (AVAILABLE, 0, None))]
        }
        self.begin_again(whole)

    # what always holds

    @invariant()
    def alike(self) -> None:
        cursor = self.cursor
        assert (cursor.start, cursor.end) == (self.start, self.end)
        found = {}
        for run in cursor._runs:
            slot = run.value
            for offset in range(run.first, run.last + 1):
                lease = slot.lease
                found[offset] = Known(
                    slot.state,
                    slot.tries,
                    None if lease is None else str(lease.holder),
                    None if lease is None else lease.deadline,
                    slot.ready_at,
                )
        if self.end > self.start:
            assert self._promoted(found) == self._promoted(self.model)
        assert cursor.out == sum(one.state is ACQUIRED for one in self.model.values())
        assert cursor.settled == sum(one.state in SETTLED for one in self.model.values())
        for holder in "abc":
            mine = sum(one.holder == holder for one in self.model.values())
            assert cursor.holds(holder) == mine

    def _promoted(self, known: dict[int, Known]) -> dict[int, Known]:
        return {
            offset: one._replace(ready_at=None)
            if one.ready_at is not None and one.ready_at <= self.now
            else one
            for offset, one in known.items()
        }

    @invariant()
    def the_next_is_the_lowest(self) -> None:
        ready = [offset for offset in self.model if self.ready(offset)]
        assert self.cursor.next_offset(self.now) == min(ready, default=self.end)

    @invariant()
    def somebody_is_woken_in_time(self) -> None:
        times = [
            time
            for one in self.model.values()
            for time in (one.deadline, one.ready_at)
            if time is not None and time > self.now
        ]
        assert self.cursor.next_deadline() == min(times, default=None)

    @invariant()
    def equal_neighbours_are_one_run(self) -> None:
        runs = list(self.cursor._runs)
        for one, other in pairwise(runs):
            assert one.last + 1 == other.first, "a hole without a state"
            assert one.value != other.value


CursorMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=40)
TestCursor = CursorMachine.TestCase
