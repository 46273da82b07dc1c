"""What a cursor keeps for after a restart, what it gives up in two steps, and its list."""

import pytest

from headrace.delivery.cursor import Cursor
from headrace.delivery.cursor_state import CursorState, Delay, StateMap, in_order
from headrace.delivery.leases import Lease, Leases
from headrace.delivery.record_runs import DEAD_LETTERS
from headrace.delivery.record_states import (
    Cause,
    DeadLetter,
    NotHeld,
    Outcome,
    RecordState,
    StateBatch,
)

AVAILABLE, ACKNOWLEDGED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED


# Given up in two steps


def test_a_record_whose_tries_are_spent_is_wanted_until_its_dead_letter_is_stored() -> None:
    cursor = Cursor(0, deliveries_max=1, dead_letters=True)
    cursor.acquire(0, 1, "a", now=0.0)
    cursor.settle("a", 0, 0, Outcome.RELEASE)
    cursor.settle("a", 1, 1, Outcome.REJECT)
    assert cursor.take_dead() == [
        DeadLetter(0, 0, 1, Cause.TRIES_SPENT),
        DeadLetter(1, 1, 1, Cause.REJECTED),
    ]
    assert (cursor.start, cursor.out, cursor.take_dead()) == (0, 2, [])
    assert cursor.acquire(0, 1, "b", now=0.0) == []
    with pytest.raises(NotHeld):
        cursor.settle("a", 0, 0, Outcome.ACCEPT)
    cursor.settle(DEAD_LETTERS, 0, 1, Outcome.REJECT)
    assert (cursor.start, cursor.out) == (2, 0)


def test_after_a_kill_before_its_dead_letter_is_stored_a_record_is_given_up_again() -> None:
    cursor = Cursor(0, deliveries_max=2, dead_letters=True)
    kept = StateMap(CursorState(0))
    for _ in range(2):
        cursor.acquire(0, 0, "a", now=0.0)
        cursor.settle("a", 0, 0, Outcome.RELEASE)
    change = cursor.take_change()
    assert change is not None
    kept.lay_over(change)
    again = Cursor.restored(kept.state(), deliveries_max=2, dead_letters=True)
    assert again.take_dead() == [DeadLetter(0, 0, 2, Cause.TRIES_SPENT)]
    assert again.acquire(0, 0, "a", now=0.0) == []


def test_a_dead_letter_nobody_takes_has_its_record_handed_out_again() -> None:
    cursor = Cursor(0, deliveries_max=1, dead_letters=True)
    cursor.acquire(0, 0, "a", now=0.0)
    cursor.settle("a", 0, 0, Outcome.RELEASE)
    cursor.settle(DEAD_LETTERS, 0, 0, Outcome.RELEASE)
    assert [one.tries for one in cursor.acquire(0, 0, "a", now=0.0)] == [2]


@pytest.mark.parametrize("dead_letters", [False, True])
def test_what_has_expired_is_archived_at_once_only_without_dead_letters(dead_letters: bool) -> None:
    cursor = Cursor(0, dead_letters=dead_letters)
    cursor.acquire(0, 0, "a", now=0.0)
    cursor.give_up(0, 2, Cause.EXPIRED)
    expected = [DeadLetter(1, 2, 0, Cause.EXPIRED)] if dead_letters else []
    assert cursor.take_dead() == expected
    assert (cursor.end, cursor.settled) == (3, 0 if dead_letters else 2)


# How far records were handed out


def test_nothing_is_handed_out_before_a_durable_state_tells_of_it() -> None:
    cursor = Cursor(5, ahead=10)
    assert (cursor.room, cursor.acquire(5, 9, "a", now=0.0)) == (0, [])
    change = cursor.take_change()
    assert change == CursorState(5, (), 0, 15)
    assert cursor.room == 0
    cursor.kept(change)
    assert cursor.room == 10
    assert [one[:2] for one in cursor.acquire(5, 15, "a", now=0.0)] == [(5, 14)]


def test_the_next_change_is_due_while_half_of_what_was_told_is_left() -> None:
    cursor = Cursor(0, ahead=10)
    change = cursor.take_change()
    assert change is not None
    cursor.kept(change)
    cursor.acquire(0, 3, "a", now=0.0)
    assert (cursor.change_is_due, cursor.take_change()) == (False, None)
    cursor.acquire(4, 4, "a", now=0.0)
    assert cursor.change_is_due
    assert cursor.take_change() == CursorState(0, (), 0, 15)


def test_after_an_unclean_stop_what_may_have_been_handed_out_counts_as_redelivered() -> None:
    cursor = Cursor.restored(CursorState(2, (), 0, 12), ahead=10)
    assert (cursor.end, cursor.redelivered_below, cursor.room) == (2, 12, 10)
    assert cursor.state().handed_out == 12, "a clean stop forgets nothing of the unclean one"


def test_offsets_the_log_has_lost_are_not_told_of() -> None:
    state = CursorState(
        0,
        (StateBatch(1, 4, ACKNOWLEDGED, 1), StateBatch(6, 9, AVAILABLE, 1)),
        4,
        20,
        (Delay(6, 9, 1.0),),
    )
    assert state.below(7) == CursorState(
        0,
        (StateBatch(1, 4, ACKNOWLEDGED, 1), StateBatch(6, 6, AVAILABLE, 1)),
        4,
        7,
        (Delay(6, 6, 1.0),),
    )
    assert state.below(2) == CursorState(0, (StateBatch(1, 1, ACKNOWLEDGED, 1),), 1, 2)


# Delays


def test_a_delay_outlives_a_restart_and_ends_with_the_next_word_on_its_record() -> None:
    cursor = Cursor(0)
    kept = StateMap(CursorState(0))
    cursor.acquire(0, 2, "a", now=0.0)
    cursor.settle("a", 0, 2, Outcome.RELEASE, ready_at=9.0)
    change = cursor.take_change()
    assert change is not None
    kept.lay_over(change)
    again = Cursor.restored(kept.state())
    assert (again.next_offset(8.9), again.next_deadline()) == (3, 9.0)
    assert again.next_offset(9.0) == 0
    kept.lay_over(CursorState(0, (StateBatch(1, 1, AVAILABLE, 2),)))
    assert kept.state().delays == (Delay(0, 0, 9.0), Delay(2, 2, 9.0))
    kept.lay_over(CursorState(2, ()))
    assert kept.state().delays == (Delay(2, 2, 9.0),)


# The list of what went out lately


def test_settling_in_order_never_touches_the_map_of_runs() -> None:
    cursor = Cursor(0)
    for at in range(20_000):
        cursor.acquire(at, at, at % 3, now=0.0)
        if at >= 10:
            cursor.settle((at - 10) % 3, at - 10, at - 10, Outcome.ACCEPT)
        assert len(cursor._runs) == 0
    assert (cursor.start, cursor.end, cursor.out) == (19_990, 20_000, 10)
    assert len(cursor._runs.listed) <= 5000, "what is settled is forgotten"


def test_one_record_left_behind_does_not_keep_all_behind_it_listed() -> None:
    cursor = Cursor(0)
    for at in range(30_000):
        cursor.acquire(at, at, "a", now=0.0)
        if at:
            cursor.settle("a", at, at, Outcome.ACCEPT)
    assert len(cursor._runs.listed) <= Cursor.FOLDED_FROM + 1
    assert (cursor.start, cursor.settled, len(list(cursor._runs))) == (0, 29_999, 2)
    cursor.settle("a", 0, 0, Outcome.ACCEPT)
    assert (cursor.start, cursor.settled, cursor._runs.listed) == (30_000, 0, [])


def test_batches_noted_apart_are_joined_and_later_ones_win() -> None:
    noted = [StateBatch(at, at, ACKNOWLEDGED, 1) for at in (5, 3, 4, 9, 1)]
    assert in_order(noted, 4) == (
        StateBatch(4, 5, ACKNOWLEDGED, 1),
        StateBatch(9, 9, ACKNOWLEDGED, 1),
    )
    again = [StateBatch(3, 6, AVAILABLE, 1), StateBatch(5, 5, ACKNOWLEDGED, 2)]
    assert in_order(again, 0) == (
        StateBatch(3, 4, AVAILABLE, 1),
        StateBatch(5, 5, ACKNOWLEDGED, 2),
        StateBatch(6, 6, AVAILABLE, 1),
    )


def test_deadlines_of_leases_that_are_over_are_forgotten_long_before_their_time() -> None:
    leases = Leases()
    for at in range(1000):
        leases.less(leases.open(Lease("a", at, at, 1, 1800.0)), 1)
    kept = [leases.open(Lease("a", at, at, 1, 1800.0)) for at in range(100)]
    assert len(leases._heap) <= 256
    assert list(leases.overdue(1800.0)) == kept
