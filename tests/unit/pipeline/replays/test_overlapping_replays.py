"""Several replays of the same days: each row once, whichever is applied or undone."""

from dataclasses import replace

import pytest

from headrace.pipeline.replays.replay import OutdatedDiffError, ReplayError, ReplayState
from headrace.pipeline.replays.steps import apply_replay, discard_replay, undo_replay
from headrace.spark.tables.delta_parts.partition_range import PartitionRange
from tests.support.spark.replays import FIRST, NEW, NOW_MS, OLD, Shop, expected

BOTH_DAYS = PartitionRange("timestamp_day", "1970-01-01", "1970-01-03")
SECOND_DAY = PartitionRange("timestamp_day", "1970-01-02", "1970-01-03")
SECOND = [1, 3, 5, 7]
EMPTIED = dict.fromkeys(SECOND, NEW)
"""Rows of a shop whose first day has none since r1."""


@pytest.fixture
def emptied(shop: Shop) -> Shop:
    """A shop whose replay r1 of both days is applied, and has no rows of the first day."""
    apply_replay(shop.store, shop.build(SECOND, BOTH_DAYS).id, NOW_MS)
    assert shop.rows() == EMPTIED
    return shop


def test_undo_beneath_a_later_replay_of_an_empty_day_is_refused(emptied: Shop) -> None:
    """No file of r1 is replaced by r2, so files alone would let both days have old rows again."""
    apply_replay(emptied.store, emptied.build(FIRST).id, NOW_MS)
    rows = EMPTIED | dict.fromkeys(FIRST, NEW)
    assert emptied.rows() == rows
    with pytest.raises(ReplayError, match=r"r1 cannot be undone: r2, .*; undo r2 first"):
        undo_replay(emptied.store, "r1")
    assert emptied.rows() == rows
    assert emptied.store.load("r1").state is ReplayState.APPLIED
    undo_replay(emptied.store, "r2")
    assert emptied.rows() == EMPTIED
    undo_replay(emptied.store, "r1")
    assert emptied.rows() == expected(OLD)


def test_replays_are_undone_in_reverse_order(shop: Shop) -> None:
    """The files of r1 are in the table again after the undo of r2."""
    apply_replay(shop.store, shop.build([0, 2]).id, NOW_MS)
    apply_replay(shop.store, shop.build(FIRST).id, NOW_MS)
    with pytest.raises(ReplayError, match="undo r2 first"):
        undo_replay(shop.store, "r1")
    undo_replay(shop.store, "r2")
    assert sorted(shop.rows()) == [0, 1, 2, 3, 5, 7]
    undo_replay(shop.store, "r1")
    assert shop.rows() == expected(OLD)


def test_replays_of_other_days_do_not_hinder_each_other(shop: Shop) -> None:
    first, second = shop.build(FIRST), shop.build(SECOND, SECOND_DAY)
    apply_replay(shop.store, first.id, NOW_MS)
    apply_replay(shop.store, second.id, NOW_MS)
    assert set(shop.rows().values()) == {NEW}
    undo_replay(shop.store, first.id)
    assert shop.rows() == expected(OLD, more=dict.fromkeys(SECOND, NEW))


def test_of_two_replays_of_an_empty_day_one_is_applied(emptied: Shop) -> None:
    second, third = emptied.build(FIRST), emptied.build(FIRST)
    assert second.removed == third.removed == frozenset()
    apply_replay(emptied.store, second.id, NOW_MS)
    with pytest.raises(OutdatedDiffError, match=r"r2 is applied, which .* since r3 was computed"):
        apply_replay(emptied.store, third.id, NOW_MS)
    assert emptied.rows() == EMPTIED | dict.fromkeys(FIRST, NEW)
    assert emptied.store.load(third.id).state is ReplayState.DIFFED


@pytest.mark.parametrize("discarded", [False, True])
def test_replay_of_an_empty_day_is_outdated_by_an_undo(emptied: Shop, discarded: bool) -> None:
    """The undo brought rows back that r2 was not compared with."""
    second = emptied.build(FIRST)
    undo_replay(emptied.store, "r1")
    if discarded:
        discard_replay(emptied.store, "r1")
    with pytest.raises(OutdatedDiffError, match="since r2 was computed: discard r2"):
        apply_replay(emptied.store, second.id, NOW_MS)
    assert emptied.rows() == expected(OLD)
    apply_replay(emptied.store, emptied.build(FIRST).id, NOW_MS)
    assert emptied.rows() == expected(NEW)


def test_replay_that_was_undone_before_hinders_none(shop: Shop) -> None:
    apply_replay(shop.store, shop.build([0, 2]).id, NOW_MS)
    undone = undo_replay(shop.store, "r1")
    assert undone.undone_version is not None
    # As a release stored it that did not know the version.
    shop.store.save(replace(undone, undone_version=None))
    apply_replay(shop.store, shop.build(FIRST).id, NOW_MS)
    assert shop.rows() == expected(NEW)


def test_interrupted_apply_hinders_others_until_it_is_complete(emptied: Shop) -> None:
    second, third = emptied.build(FIRST), emptied.build(FIRST)
    emptied.store.save(replace(second, state=ReplayState.APPLYING))
    with pytest.raises(OutdatedDiffError, match="r2 is applying"):
        apply_replay(emptied.store, third.id, NOW_MS)
    with pytest.raises(ReplayError, match="undo r2 first"):
        undo_replay(emptied.store, "r1")
    apply_replay(emptied.store, second.id, NOW_MS)
    assert emptied.rows() == EMPTIED | dict.fromkeys(FIRST, NEW)
