"""Runs of offsets, and the cursor where the machine of properties does not look."""

import pytest

from headrace.broker.cursor.cursor import Cursor
from headrace.broker.cursor.runs import Run, RunMap
from headrace.broker.cursor.state import CursorState, StateMap
from headrace.broker.cursor.states import NotHeld, Outcome, RecordState, StateBatch

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
    assert cursor.hold() == 0
    cursor.settle("all", 0, 0, Outcome.REJECT)
    assert cursor.hold() == DEEP - 1
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
