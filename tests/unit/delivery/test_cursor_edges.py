"""The cursor at the edges of its ranges and times, and the runs it is made of."""

import pytest

from headrace.delivery.cursor import Cursor
from headrace.delivery.cursor_state import CursorState, StateMap, in_order
from headrace.delivery.offset_runs import Run, RunMap
from headrace.delivery.record_states import Acquired, NotHeld, Outcome, RecordState, StateBatch


def with_all_out(count: int, *, deadline: float | None = None) -> Cursor:
    """A cursor of offsets from 0, all out with `a`."""
    cursor = Cursor(0)
    cursor.acquire(0, count - 1, "a", now=0.0, deadline=deadline)
    return cursor


# Runs


def test_runs_that_come_and_go_are_told_of_one_by_one() -> None:
    there: list[Run[str]] = []
    runs: RunMap[str] = RunMap(there.append, there.remove)
    runs.assign(5, 9, "a")
    runs.assign(0, 4, "a")
    assert there == list(runs) == [Run(0, 9, "a")]
    runs.assign(10, 12, "a")
    assert there == list(runs) == [Run(0, 12, "a")]
    runs.assign(4, 6, "b")
    assert sorted(there) == list(runs)
    runs.assign(4, 6, "a")
    assert there == list(runs) == [Run(0, 12, "a")]
    runs.clear(8, 12)
    assert there == list(runs) == [Run(0, 7, "a")]
    runs.clear(0, 3)
    assert there == list(runs) == [Run(4, 7, "a")]
    runs.clear(5, 6)
    assert sorted(there) == list(runs) == [Run(4, 4, "a"), Run(7, 7, "a")]
    runs.clear_below(7)
    assert there == list(runs) == [Run(7, 7, "a")]
    runs.clear_below(7)
    assert there == [Run(7, 7, "a")]
    runs.clear_below(8)
    assert there == []
    assert runs.first() is None


def test_a_run_holds_its_first_and_last_offset_and_none_beside() -> None:
    runs: RunMap[str] = RunMap()
    runs.assign(3, 5, "a")
    held = [runs.at(offset) for offset in range(2, 7)]
    assert held == [None, *[Run(3, 5, "a")] * 3, None]
    assert runs.between(0, 2) == []
    assert runs.between(6, 9) == []
    assert runs.between(5, 9) == [Run(5, 5, "a")]
    assert runs.between(0, 3) == [Run(3, 3, "a")]
    assert runs.between(4, 4) == [Run(4, 4, "a")]


# Handing out


def test_the_lowest_of_what_came_back_is_next() -> None:
    cursor = with_all_out(6)
    cursor.settle("a", 3, 3, Outcome.RELEASE)
    cursor.settle("a", 1, 1, Outcome.RELEASE)
    cursor.settle("a", 5, 5, Outcome.RELEASE)
    assert cursor.next_offset(0.0) == 1


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_of_what_came_back_no_more_goes_out_than_asked_for(limit: int) -> None:
    cursor = with_all_out(6)
    cursor.settle("a", 0, 1, Outcome.RELEASE)
    cursor.settle("a", 3, 5, Outcome.RELEASE)
    expected = [Acquired(0, min(limit, 2) - 1, 2)]
    if limit > 2:
        expected.append(Acquired(3, min(limit, 5), 2))
    if limit > 5:
        expected.append(Acquired(6, 6, 1))
    assert cursor.acquire(0, 6, "b", now=0.0, limit=limit) == expected
    assert cursor.holds("b") == limit
    assert cursor.holds("a") == 1
    assert cursor.out == limit + 1


def test_nothing_is_handed_out_above_what_was_asked_for() -> None:
    cursor = with_all_out(4)
    cursor.settle("a", 0, 3, Outcome.RELEASE)
    assert cursor.acquire(1, 2, "b", now=0.0) == [Acquired(1, 2, 2)]
    assert cursor.acquire(4, 3, "b", now=0.0) == []
    assert cursor.acquire(3, 3, "b", now=0.0) == [Acquired(3, 3, 2)]
    assert cursor.end == 4
    assert cursor.acquire(4, 4, "b", now=0.0) == [Acquired(4, 4, 1)]
    assert cursor.end == 5


def test_what_is_passed_over_stays_to_be_handed_out() -> None:
    cursor = Cursor(0)
    assert cursor.acquire(2, 3, "a", now=0.0) == [Acquired(2, 3, 1)]
    assert cursor.next_offset(0.0) == 0
    assert cursor.acquire(0, 9, "b", now=0.0, limit=2) == [Acquired(0, 1, 1)]


@pytest.mark.parametrize(("out", "room"), [(0, 3), (2, 1), (3, 0)])
def test_the_window_counts_from_the_first_that_is_wanted(out: int, room: int) -> None:
    cursor = Cursor(10, window=3)
    if out:
        cursor.acquire(10, 9 + out, "a", now=0.0)
    assert cursor.room == room
    assert cursor.can_acquire(0.0) == (room > 0)
    assert bool(cursor.acquire(10 + out, 10 + out, "b", now=0.0)) == (room > 0)


def test_a_full_window_still_gives_what_came_back() -> None:
    cursor = Cursor(0, window=3)
    cursor.acquire(0, 2, "a", now=0.0)
    assert not cursor.can_acquire(0.0)
    cursor.settle("a", 1, 1, Outcome.RELEASE, ready_at=4.0)
    assert not cursor.can_acquire(3.9)
    assert cursor.can_acquire(4.0)
    assert cursor.acquire(0, 5, "b", now=4.0) == [Acquired(1, 1, 2)]
    cursor.settle("a", 0, 0, Outcome.ACCEPT)
    assert cursor.room == 1


# What holders say


def test_what_is_returned_was_not_delivered() -> None:
    cursor = with_all_out(6)
    done = cursor.settle("a", 2, 4, Outcome.RETURN)
    assert done == [StateBatch(2, 4, RecordState.AVAILABLE, 0)]
    assert cursor.out == 3
    assert cursor.take_change() is None, "nothing that must be kept"
    assert cursor.acquire(2, 4, "b", now=0.0) == [Acquired(2, 4, 1)]
    cursor.settle("b", 2, 4, Outcome.RELEASE)
    cursor.acquire(2, 4, "b", now=0.0)
    (done_again,) = cursor.settle("b", 2, 4, Outcome.RETURN)
    assert (done_again.state, done_again.tries) == (RecordState.AVAILABLE, 1)


def test_a_renewal_of_what_is_not_held_throughout_changes_nothing() -> None:
    cursor = with_all_out(6, deadline=5.0)
    cursor.settle("a", 3, 3, Outcome.RELEASE)
    with pytest.raises(NotHeld, match="offset 3 is out with nobody"):
        cursor.renew("a", 0, 5, 9.0)
    assert cursor.next_deadline() == 5.0
    with pytest.raises(NotHeld, match="offset 0 is out with another"):
        cursor.renew("b", 0, 2, 9.0)
    with pytest.raises(NotHeld, match="offset 6 was never handed out"):
        cursor.renew("a", 4, 6, 9.0)
    cursor.renew("a", 4, 5, 9.0)
    assert [tuple(done)[:2] for done in cursor.expire(5.0)] == [(0, 2)]
    assert cursor.holds("a") == 2
    assert cursor.next_deadline() == 9.0


def test_a_renewal_below_the_start_is_none() -> None:
    cursor = with_all_out(4, deadline=5.0)
    cursor.settle("a", 0, 1, Outcome.ACCEPT)
    cursor.renew("a", 0, 1, 9.0)
    assert cursor.holds("a") == 2
    cursor.renew("a", 0, 2, 9.0)
    assert cursor.holds("a") == 2
    assert [tuple(done)[:2] for done in cursor.expire(5.0)] == [(3, 3)]


@pytest.mark.parametrize(
    ("lease", "delay", "next_one"), [(5.0, 7.0, 5.0), (7.0, 5.0, 5.0), (None, 7.0, 7.0)]
)
def test_the_next_deadline_is_the_sooner_of_a_lease_and_a_delay(
    lease: float | None, delay: float, next_one: float
) -> None:
    cursor = with_all_out(3, deadline=lease)
    assert cursor.next_deadline() == lease
    cursor.settle("a", 1, 1, Outcome.RELEASE, ready_at=delay)
    assert cursor.next_deadline() == next_one
    cursor.release_holder("a")
    assert cursor.next_deadline() == delay
    cursor.archive(1, 1)
    assert cursor.next_deadline() is None


def test_a_delay_of_what_the_log_forgot_is_no_deadline() -> None:
    cursor = with_all_out(3)
    cursor.settle("a", 0, 1, Outcome.RELEASE, ready_at=7.0)
    cursor.forget_below(2)
    assert cursor.next_deadline() is None


def test_a_delay_of_what_was_archived_behind_something_wanted_is_no_deadline() -> None:
    cursor = with_all_out(3)
    cursor.settle("a", 1, 2, Outcome.RELEASE, ready_at=7.0)
    cursor.archive(1, 2)
    assert cursor.start == 0
    assert cursor.next_deadline() is None


@pytest.mark.parametrize(("tries", "state"), [(1, "AVAILABLE"), (2, "ARCHIVED")])
def test_a_record_is_archived_with_its_last_delivery(tries: int, state: str) -> None:
    cursor = Cursor(0, deliveries_max=2)
    cursor.acquire(0, 3, "a", now=0.0)
    for _ in range(tries - 1):
        cursor.settle("a", 1, 1, Outcome.RELEASE)
        cursor.acquire(1, 1, "a", now=0.0)
    assert cursor.settle("a", 1, 1, Outcome.RELEASE) == [
        StateBatch(1, 1, RecordState[state], tries)
    ]
    assert cursor.settled == (state == "ARCHIVED")


def test_the_soonest_of_several_delays_is_next_and_what_is_over_is_handed_out() -> None:
    cursor = with_all_out(6)
    for offset, ready_at in ((1, 7.0), (3, 5.0), (5, 9.0)):
        cursor.settle("a", offset, offset, Outcome.RELEASE, ready_at=ready_at)
    assert cursor.next_deadline() == 5.0
    cursor.archive(3, 3)
    assert cursor.next_deadline() == 7.0
    assert cursor.acquire(0, 5, "b", now=6.9) == []
    assert cursor.acquire(0, 5, "b", now=9.0) == [Acquired(1, 1, 2), Acquired(5, 5, 2)]


def test_a_renewal_of_several_runs_is_of_all_of_them() -> None:
    cursor = with_all_out(6, deadline=5.0)
    cursor.settle("a", 2, 2, Outcome.RELEASE)
    cursor.acquire(2, 2, "a", now=0.0, deadline=5.0)
    cursor.renew("a", 0, 5, 9.0)
    assert cursor.expire(8.9) == []
    assert [tuple(done)[:2] for done in cursor.expire(9.0)] == [(0, 1), (2, 2), (3, 5)]
    assert (cursor.out, cursor.holds("a")) == (0, 0)


def test_what_a_holder_that_went_had_for_the_last_time_is_behind_the_start() -> None:
    cursor = Cursor(0, deliveries_max=1, window=2)
    cursor.acquire(0, 4, "a", now=0.0)
    assert cursor.room == 0, "more are out than the window has"
    assert cursor.release_holder("b") == []
    assert cursor.release_holder("a") == [StateBatch(0, 4, RecordState.ARCHIVED, 1)]
    assert (cursor.start, cursor.settled, cursor.room) == (5, 0, 2)


# What is done without a holder


def test_what_is_archived_is_counted_and_kept_unless_the_log_tells_it_again() -> None:
    cursor = with_all_out(6)
    cursor.settle("a", 2, 3, Outcome.RELEASE)
    cursor.take_change()
    cursor.archive(1, 2)
    assert cursor.settled == 1, "what is out stays out"
    assert cursor.take_change() == CursorState(0, (StateBatch(2, 2, RecordState.ARCHIVED, 1),), 1)
    cursor.archive(3, 3, keep=False)
    assert cursor.settled == 2
    assert cursor.take_change() is None
    cursor.archive(3, 3)
    assert (cursor.settled, cursor.take_change()) == (2, None)


def test_what_lies_ahead_is_archived_with_what_is_between_left_to_be_handed_out() -> None:
    cursor = Cursor(5)
    cursor.archive(7, 8)
    assert (cursor.start, cursor.end, cursor.settled) == (5, 9, 2)
    assert cursor.acquire(5, 9, "a", now=0.0) == [Acquired(5, 6, 1), Acquired(9, 9, 1)]
    cursor.archive(10, 9)
    assert cursor.end == 10
    cursor.archive(10, 10)
    assert cursor.end == 11
    cursor.archive(12, 11)
    assert cursor.end == 11, "there is nothing between 12 and 11"


def test_what_is_below_the_start_is_not_archived_again() -> None:
    cursor = with_all_out(4)
    cursor.settle("a", 0, 1, Outcome.ACCEPT)
    cursor.settle("a", 2, 2, Outcome.RELEASE)
    cursor.archive(0, 2)
    assert (cursor.start, cursor.settled, cursor.out) == (3, 0, 1)


def test_what_the_log_forgot_is_counted_out() -> None:
    cursor = with_all_out(6)
    cursor.settle("a", 1, 2, Outcome.ACCEPT)
    cursor.forget_below(0)
    assert (cursor.start, cursor.settled, cursor.out) == (0, 2, 4)
    cursor.forget_below(2)
    assert (cursor.start, cursor.settled, cursor.out) == (3, 0, 3)
    cursor.forget_below(5)
    assert (cursor.start, cursor.out, cursor.holds("a")) == (5, 1, 1)
    cursor.forget_below(20)
    assert (cursor.start, cursor.end, cursor.out, cursor.holds("a")) == (20, 20, 0, 0)


# What is kept


def test_all_that_is_kept_are_ranges_of_what_is_settled_and_what_was_out() -> None:
    cursor = with_all_out(6)
    cursor.archive(8, 9)
    cursor.settle("a", 2, 4, Outcome.ACCEPT)
    assert cursor.state() == CursorState(
        0,
        (
            StateBatch(0, 1, RecordState.AVAILABLE, 1),
            StateBatch(2, 4, RecordState.ACKNOWLEDGED, 0),
            StateBatch(5, 5, RecordState.AVAILABLE, 1),
            StateBatch(8, 9, RecordState.ARCHIVED, 0),
        ),
        5,
    )
    cursor.take_change()
    cursor.settle("a", 0, 1, Outcome.RELEASE)
    cursor.take_change()
    cursor.archive(0, 1)
    assert cursor.start == 5
    assert cursor.take_change() == CursorState(5, (), 2)
    cursor.archive(6, 7)
    change = cursor.take_change()
    assert change is not None
    assert change.batches == (StateBatch(6, 7, RecordState.ARCHIVED, 0),)


def test_a_cursor_restored_has_what_was_between_and_what_was_settled() -> None:
    state = CursorState(
        2,
        (
            StateBatch(4, 5, RecordState.AVAILABLE, 3),
            StateBatch(6, 7, RecordState.ACKNOWLEDGED, 1),
        ),
        2,
    )
    cursor = Cursor.restored(state, deliveries_max=4, window=9)
    assert (cursor.start, cursor.end, cursor.settled, cursor.room) == (2, 8, 2, 3)
    assert cursor.take_change() is None
    assert cursor.acquire(0, 8, "a", now=0.0) == [
        Acquired(2, 3, 1),
        Acquired(4, 5, 4),
        Acquired(8, 8, 1),
    ]
    assert cursor.settle("a", 4, 4, Outcome.RELEASE)[0].state is RecordState.ARCHIVED


def test_a_restored_cursor_whose_front_is_settled_begins_behind_it() -> None:
    state = CursorState(2, (StateBatch(2, 4, RecordState.ACKNOWLEDGED, 1),), 3)
    cursor = Cursor.restored(state)
    assert (cursor.start, cursor.end, cursor.settled) == (5, 5, 0)
    assert cursor.take_change() == CursorState(5, (), 0)
    assert cursor.take_change() is None


def test_of_what_was_noted_what_reaches_to_the_start_counts_and_no_more() -> None:
    notes = [StateBatch(0, 4, RecordState.AVAILABLE, 2), StateBatch(6, 7, RecordState.ARCHIVED, 1)]
    kept = StateMap(CursorState(4, tuple(notes)))
    assert kept.batches() == in_order(notes, 4)
    assert kept.batches() == (StateBatch(4, 4, RecordState.AVAILABLE, 2), notes[1])
    assert in_order(notes, 5) == (notes[1],)
    kept.lay_over(CursorState(-1, (StateBatch(7, 8, RecordState.AVAILABLE, 3),)))
    assert (kept.start, len(kept)) == (4, 3)
    kept.lay_over(CursorState(5))
    assert (kept.start, len(kept)) == (5, 2)
