"""The index of times: in order, ties by arrival, some bytes for an entry."""

import random
import tracemalloc

import pytest

from headrace.held.offset_set import OffsetSet
from headrace.held.time_index import MINUTE_MS, DueOffset, TimeIndex


def index_of(*entries: tuple[int, int]) -> TimeIndex:
    """Return an index with entries (time, offset)."""
    made = TimeIndex()
    for due_ms, offset in entries:
        made.add(due_ms, offset)
    return made


def test_offsets_are_taken_in_the_order_of_their_times() -> None:
    chance = random.Random(20261129)
    entries = [(chance.randrange(5 * MINUTE_MS), offset) for offset in range(2000)]
    index = index_of(*entries)
    taken: list[DueOffset] = []
    for now_ms in range(0, 5 * MINUTE_MS + 1, 777):
        while some := index.take(now_ms, 7):
            assert len(some) <= 7
            assert all(due_ms <= now_ms for due_ms, _ in some)
            taken += some
        waiting = len(entries) - len(taken)
        assert len(index) == waiting
        assert all(due_ms > now_ms for due_ms, _ in sorted(entries)[len(taken) :])
    taken += index.take(5 * MINUTE_MS, 10_000)
    assert taken == sorted(entries)
    assert (len(index), index.first_ms()) == (0, None)


def test_offsets_of_one_millisecond_keep_the_order_of_arrival() -> None:
    index = index_of((70_000, 1), (70_000, 2), (69_999, 3), (70_000, 4))
    assert index.take(70_000, 2) == [(69_999, 3), (70_000, 1)]
    index.add(70_000, 1)  # it comes back
    assert index.take(70_000, 9) == [(70_000, 1), (70_000, 2), (70_000, 4)]


def test_an_index_whose_last_offsets_are_taken_is_empty() -> None:
    index = index_of((5, 1), (5, 2))
    assert index.take(5, 2) == [(5, 1), (5, 2)]
    assert (len(index), index.first_ms()) == (0, None)


def test_a_time_in_a_minute_that_has_begun_is_in_order_too() -> None:
    index = index_of((MINUTE_MS + 500, 1))
    assert index.take(MINUTE_MS, 9) == []
    index.add(MINUTE_MS + 499, 2)
    index.add(3, 3)  # the clock has jumped back
    assert index.first_ms() == 3
    assert index.take(2, 9) == []
    assert index.take(MINUTE_MS + 500, 9) == [(3, 3), (MINUTE_MS + 499, 2), (MINUTE_MS + 500, 1)]


def test_first_ms_is_never_later_than_an_offset_is_due() -> None:
    index = index_of((3 * MINUTE_MS + 5, 1), (2 * MINUTE_MS + 7, 2))
    assert index.first_ms() == 2 * MINUTE_MS
    assert index.take(2 * MINUTE_MS, 1) == []
    assert index.first_ms() == 2 * MINUTE_MS + 7


def test_at_and_remove_find_an_offset_by_its_time() -> None:
    for begun in (False, True):
        index = index_of((MINUTE_MS + 5, 1), (MINUTE_MS + 5, 2), (MINUTE_MS + 6, 3))
        if begun:
            assert index.take(MINUTE_MS, 1) == []
        assert index.at(MINUTE_MS + 5) == [1, 2]
        assert index.at(MINUTE_MS + 4) == []
        assert not index.remove(MINUTE_MS + 5, 3)
        assert not index.remove(9 * MINUTE_MS, 1)
        assert index.remove(MINUTE_MS + 5, 1)
        assert not index.remove(MINUTE_MS + 5, 1)
        assert len(index) == 2
        assert index.take(2 * MINUTE_MS, 9) == [(MINUTE_MS + 5, 2), (MINUTE_MS + 6, 3)]


def test_keep_removes_the_others_from_begun_and_later_minutes() -> None:
    index = index_of((5, 1), (5, 2), (MINUTE_MS, 3), (MINUTE_MS, 4), (2 * MINUTE_MS, 5))
    assert index.take(0, 1) == []
    index.keep(lambda offset: offset in {2, 3})
    assert len(index) == 2
    assert index.take(9 * MINUTE_MS, 9) == [(5, 2), (MINUTE_MS, 3)]


@pytest.mark.parametrize(("due_ms", "offset"), [(-1, 0), (0, -1), (0, 1 << 40)])
def test_an_offset_or_time_that_does_not_fit_is_refused(due_ms: int, offset: int) -> None:
    with pytest.raises(ValueError, match="offset"):
        TimeIndex().add(due_ms, offset)


def test_a_waiting_message_takes_ten_bytes() -> None:
    index = TimeIndex()
    count = 200_000
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for offset in range(count):
        index.add(1_795_861_093_630 + offset * 37 % (3600 * 1000), offset)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (used - before) / count < 10


def test_an_offset_set_is_a_set() -> None:
    chance = random.Random(1)
    found, model = OffsetSet(), set[int]()
    for _ in range(5000):
        offset = chance.choice((chance.randrange(40), chance.randrange(1 << 20)))
        if chance.random() < 0.6:
            found.add(offset)
            model.add(offset)
        else:
            assert found.remove(offset) == (offset in model)
            model.discard(offset)
        assert (offset in found) == (offset in model)
        assert len(found) == len(model)
