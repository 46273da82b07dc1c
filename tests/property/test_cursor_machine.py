"""The cursor with holes against a dict of single offsets, with restarts in between."""

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.coordination.delivery.cursor import Cursor
from headrace.coordination.delivery.cursor_state import CursorState, StateMap
from headrace.coordination.delivery.record_states import SETTLED, NotHeld, Outcome, RecordState

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED

holders = st.sampled_from(["a", "b", "c"])
lengths = st.integers(1, 12)
steps = st.integers(-6, 30)


class Known(NamedTuple):
    """One offset in the model."""

    state: RecordState
    tries: int = 0
    holder: str | None = None
    deadline: float | None = None
    ready_at: float | None = None


class CursorMachine(RuleBasedStateMachine):
    """Every offset by itself, looked at one by one."""

    @initialize(
        start=st.integers(0, 5),
        tries=st.sampled_from([None, 1, 2, 3]),
        window=st.sampled_from([None, 5, 20]),
    )
    def begin(self, start: int, tries: int | None, window: int | None) -> None:
        self.tries, self.window = tries, window
        self.now = 100.0
        self.cursor = Cursor(start, deliveries_max=tries, window=window)
        self.model: dict[int, Known] = {}
        self.start = self.end = start
        self.kept = StateMap(CursorState(start))
        self.kept_model: dict[int, tuple[RecordState, int]] = {}
        self.kept_start = start
        self.noted: dict[int, tuple[RecordState, int]] = {}

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

    def become(self, offset: int, outcome: Outcome, ready_at: float | None = None) -> None:
        count = self.model[offset].tries
        if outcome is Outcome.RETURN:
            self.model[offset] = Known(AVAILABLE, count - 1)
            return
        if outcome is Outcome.ACCEPT:
            self.model[offset] = Known(ACKNOWLEDGED)
        elif outcome is Outcome.REJECT or (self.tries is not None and count >= self.tries):
            self.model[offset] = Known(ARCHIVED)
        else:
            self.model[offset] = Known(AVAILABLE, count, ready_at=ready_at)
        self.noted[offset] = (self.model[offset].state, count)

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
                    self.noted[offset] = (ARCHIVED, known.tries)
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
        change = self.cursor.take_change()
        noted = {offset: one for offset, one in self.noted.items() if offset >= self.start}
        assert (change is None) == (not noted and self.start == self.kept_start)
        if change is not None:
            assert change.start == self.start
            self.kept.lay_over(change)
        self.kept_start = self.start
        self.kept_model |= noted
        self.kept_model = {at: one for at, one in self.kept_model.items() if at >= self.start}
        self.noted = {}
        assert self.kept_model == {
            offset: (one.state, one.tries)
            for one in self.kept.batches()
            for offset in range(one.first, one.last + 1)
        }

    @rule()
    def restart(self) -> None:
        """What was kept counts; what was out, or settled since, is available again."""
        state = CursorState(self.kept.start, self.kept.batches())
        self.cursor = Cursor.restored(state, deliveries_max=self.tries, window=self.window)
        self.noted = {}
        self.model = {}
        self.start = self.end = self.kept_start
        if self.kept_model:
            self.grow(max(self.kept_model) + 1)
        for offset, (state_kept, count) in self.kept_model.items():
            settled = state_kept in SETTLED
            self.model[offset] = Known(state_kept, 0 if settled else count)
        self.advance()

    @rule()
    def restart_from_all_of_it(self) -> None:
        """The whole state says what the model does; what is out is available again."""
        expected = {
            offset: (known.state if known.state in SETTLED else AVAILABLE, known.tries)
            for offset, known in self.model.items()
            if known.state in SETTLED or known.tries
        }
        whole = self.cursor.state()
        assert whole.start == self.start
        assert whole.settled == sum(state in SETTLED for state, _ in expected.values())
        assert expected == {
            offset: (one.state, one.tries)
            for one in whole.batches
            for offset in range(one.first, one.last + 1)
        }
        self.cursor = Cursor.restored(whole, deliveries_max=self.tries, window=self.window)
        self.kept, self.kept_model = StateMap(whole), expected
        self.kept_start, self.noted = self.start, {}
        # Delays are not kept, and what was never out at the end need not be known of.
        self.end = max(expected, default=self.start - 1) + 1
        self.model = {
            offset: Known(*expected.get(offset, (AVAILABLE, 0)))
            for offset in range(self.start, self.end)
        }

    # what always holds

    @invariant()
    def alike(self) -> None:
        cursor = self.cursor
        assert (cursor.start, cursor.end) == (self.start, self.end)
        assert cursor.hold() == self.start
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
