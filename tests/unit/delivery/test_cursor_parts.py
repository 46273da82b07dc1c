"""Runs of offsets, and the cursor where the machine of properties does not look."""

import pytest

from headrace.delivery.cursor import Cursor
from headrace.delivery.cursor_state import CursorState, StateMap
from headrace.delivery.leases import Lease, Leases
from headrace.delivery.offset_runs import Run, RunMap
from headrace.delivery.record_states import NotHeld, Outcome, RecordState, StateBatch

DEEP = 1_000_000


def test_equal_neighbours_become_one_run_and_a_hole_makes_two() -> None:
    runs: RunMap[str] = RunMap()
    runs.assign(0, 4, "a")
    runs.assign(5, 9, "a")
    assert list(runs) == [Run(0, 9, "a")]
    runs.assign(3, 5, "b")
    assert list(runs) == [Run(0, 2, "a"), Run(3, 5, "b"), Run(6, 9, "a")]
    runs.clear(2, 6)
    assert list(runs) == [Run(0, 1, "a"), Run(7, 9, "a")]
    assert runs.at(2) is None
    assert runs.between(1, 7) == [Run(1, 1, "a"), Run(7, 7, "a")]
    runs.clear_below(8)
    assert list(runs) == [Run(8, 9, "a")]


def test_a_queue_a_million_deep_costs_what_is_out_of_it() -> None:
    cursor = Cursor(0)
    cursor.acquire(0, DEEP - 1, "all", now=0.0)
    cursor.settle("all", 1, DEEP - 2, Outcome.ACCEPT)
    assert (cursor.start, cursor.end, cursor.out, cursor.settled) == (0, DEEP, 2, DEEP - 2)
    assert len(cursor._runs) == 3
    assert cursor.start == 0
    cursor.settle("all", 0, 0, Outcome.REJECT)
    assert cursor.start == DEEP - 1
    assert len(cursor._runs) == 1


def test_what_comes_back_is_handed_out_before_what_is_new_but_not_before_its_time() -> None:
    cursor = Cursor(0)
    cursor.acquire(0, 5, "a", now=0.0)
    cursor.settle("a", 1, 1, Outcome.RELEASE)
    cursor.settle("a", 3, 3, Outcome.RELEASE, ready_at=7.0)
    assert cursor.next_offset(6.9) == 1
    assert [one.first for one in cursor.acquire(0, 9, "b", now=6.9, limit=2)] == [1, 6]
    assert cursor.next_deadline() == 7.0
    assert cursor.next_offset(7.0) == 3


def test_what_was_never_looked_at_keeps_its_count_and_is_not_kept() -> None:
    cursor = Cursor(0, deliveries_max=1)
    cursor.acquire(0, 0, "a", now=0.0)
    cursor.release_holder("a", Outcome.RETURN)
    assert cursor.take_change() is None
    assert cursor.acquire(0, 0, "a", now=0.0)[0].tries == 1
    assert cursor.release_holder("a") == [StateBatch(0, 0, RecordState.ARCHIVED, 1)]


def test_a_record_settled_twice_below_the_start_is_no_error_above_it_is() -> None:
    cursor = Cursor(0)
    cursor.acquire(0, 4, "a", now=0.0)
    cursor.settle("a", 0, 1, Outcome.ACCEPT)
    assert cursor.settle("a", 0, 1, Outcome.ACCEPT) == []
    cursor.settle("a", 3, 3, Outcome.ACCEPT)
    with pytest.raises(NotHeld, match="offset 3 is out with nobody"):
        cursor.settle("a", 2, 4, Outcome.ACCEPT)
    with pytest.raises(NotHeld, match="offset 2 is out with another"):
        cursor.settle("b", 2, 2, Outcome.ACCEPT)
    with pytest.raises(NotHeld, match="offset 9 was never handed out"):
        cursor.settle("a", 4, 9, Outcome.ACCEPT)


def test_a_state_takes_the_newest_word_on_each_offset() -> None:
    state = StateMap(CursorState(0, (StateBatch(0, 9, RecordState.AVAILABLE, 1),)))
    state.lay_over(CursorState(2, (StateBatch(4, 5, RecordState.ACKNOWLEDGED, 2),)))
    state.lay_over(CursorState(-1, (StateBatch(1, 2, RecordState.ARCHIVED, 1),)))
    assert state.start == 2
    assert state.batches() == (
        StateBatch(2, 2, RecordState.ARCHIVED, 1),
        StateBatch(3, 3, RecordState.AVAILABLE, 1),
        StateBatch(4, 5, RecordState.ACKNOWLEDGED, 2),
        StateBatch(6, 9, RecordState.AVAILABLE, 1),
    )


def _mixed() -> Cursor:
    """From 10 on: out, accepted, released, untouched, rejected, out for the second time, new."""
    cursor = Cursor(10)
    cursor.acquire(10, 12, "a", now=0.0)
    cursor.settle("a", 11, 11, Outcome.ACCEPT)
    cursor.settle("a", 12, 12, Outcome.RELEASE)
    cursor.acquire(14, 15, "b", now=0.0)
    cursor.settle("b", 14, 14, Outcome.REJECT)
    cursor.settle("b", 15, 15, Outcome.RELEASE)
    cursor.acquire(15, 16, "b", now=0.0)
    return cursor


def test_the_whole_state_counts_each_delivery_the_first_one_too() -> None:
    state = _mixed().state()
    assert state == CursorState(
        10,
        (
            StateBatch(10, 10, RecordState.AVAILABLE, 1),
            StateBatch(11, 11, RecordState.ACKNOWLEDGED, 0),
            StateBatch(12, 12, RecordState.AVAILABLE, 1),
            StateBatch(14, 14, RecordState.ARCHIVED, 0),
            StateBatch(15, 15, RecordState.AVAILABLE, 2),
            StateBatch(16, 16, RecordState.AVAILABLE, 1),
        ),
        2,
    )


def test_a_cursor_of_a_whole_state_goes_on_where_it_was() -> None:
    cursor = Cursor.restored(_mixed().state(), deliveries_max=2)
    assert (cursor.start, cursor.end, cursor.out, cursor.settled) == (10, 17, 0, 2)
    assert cursor.take_change() is None, "nothing has changed since"
    given = cursor.acquire(10, 17, "c", now=0.0)
    assert [tuple(one) for one in given] == [
        (10, 10, 2), (12, 12, 2), (13, 13, 1), (15, 15, 3), (16, 16, 2), (17, 17, 1),
    ]  # fmt: skip
    back = cursor.release_holder("c")
    assert [one.first for one in back if one.state is RecordState.ARCHIVED] == [10, 12, 15, 16]


def test_a_change_counts_the_first_delivery() -> None:
    cursor = Cursor(0)
    cursor.acquire(0, 1, "a", now=0.0)
    cursor.settle("a", 1, 1, Outcome.RELEASE)
    assert cursor.take_change() == CursorState(0, (StateBatch(1, 1, RecordState.AVAILABLE, 1),), 0)
    assert cursor.take_change() is None


def test_a_lease_ends_when_its_time_has_come_and_not_before() -> None:
    cursor = Cursor(0)
    cursor.acquire(0, 3, "a", now=1.0, deadline=5.0)
    cursor.acquire(4, 5, "b", now=1.0, deadline=9.0)
    cursor.settle("a", 0, 0, Outcome.ACCEPT)
    assert cursor.expire(4.999) == []
    assert cursor.next_deadline() == 5.0
    assert cursor.expire(5.0) == [StateBatch(1, 3, RecordState.AVAILABLE, 1)]
    assert (cursor.next_deadline(), cursor.holds("a"), cursor.holds("b")) == (9.0, 0, 2)


def test_a_renewal_of_the_middle_leaves_both_ends_to_their_time() -> None:
    cursor = Cursor(0)
    cursor.acquire(0, 4, "a", now=0.0, deadline=5.0)
    cursor.renew("a", 1, 3, 8.0)
    assert cursor.holds("a") == 5
    assert [(one.first, one.last) for one in cursor.expire(5.0)] == [(0, 0), (4, 4)]
    assert cursor.next_deadline() == 8.0
    assert [(one.first, one.last) for one in cursor.expire(8.0)] == [(1, 3)]
    assert cursor.next_deadline() is None
    with pytest.raises(NotHeld):
        cursor.renew("a", 1, 1, 20.0)


def test_a_lease_is_kept_while_something_is_left_of_it_and_no_longer() -> None:
    leases = Leases()
    first, second = (leases.open(Lease("a", at, at + 1, 2, 5.0)) for at in (0, 2))
    leases.less(first, 1)
    assert leases.of("a") == (first, second)
    leases.less(first, 1)
    assert leases.of("a") == (second,)
    leases.less(second, 2)
    assert leases.by_holder == {}, "who holds nothing is not remembered"
    assert (leases.next_deadline(), list(leases.overdue(9.0))) == (None, [])


def test_leases_of_two_holders_that_end_at_once_are_released_together() -> None:
    cursor = Cursor(0)
    for offset, holder in enumerate("abc"):
        cursor.acquire(offset, offset, holder, now=0.0, deadline=4.0 + offset // 2)
    assert [tuple(done)[:2] for done in cursor.expire(4.0)] == [(0, 0), (1, 1)]
    assert (cursor.out, cursor.next_deadline()) == (1, 5.0)
