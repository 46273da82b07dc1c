"""Records near their delivery limit are delivered in smaller numbers, and alone on the last try."""

import pytest

from headrace.delivery.cursor import Cursor
from headrace.delivery.limits import most_together
from headrace.delivery.record_states import Outcome
from tests.unit.delivery.test_partition_delivery import Place

ME = "a"
"""The consumer that acquires records in `Place`."""


@pytest.mark.parametrize(
    ("limit", "together"),
    [
        (1, [None]),
        (2, [None, None]),
        (3, [None, None, 1]),
        (4, [None, None, 50, 1]),
        (5, [None, None, None, 50, 1]),
        (6, [None, None, None, 50, 25, 1]),
        (10, [None, None, None, None, None, 50, 25, 12, 6, 1]),
    ],
)
def test_records_together_by_deliveries_are_as_in_kafka(
    limit: int, together: list[int | None]
) -> None:
    assert [most_together(100, tries, limit) for tries in range(limit)] == together
    assert most_together(1, limit - 1, limit) in (None, 1)


@pytest.mark.parametrize("limit", [3, 4, 5, 7, 10])
@pytest.mark.parametrize("bad", [{0}, {4}, {9}, {3, 4}, {0, 5, 9}])
def test_a_bad_record_takes_no_good_one_along(limit: int, bad: set[int]) -> None:
    place = Place(Cursor(0, deliveries_max=limit))
    place.partition.committed = 10
    done: set[int] = set()
    crashes = 0
    while taken := place.take():
        for offset in taken:
            if offset in bad:
                crashes += 1
                place.delivery.cursor.release_holder(ME)
                break
            place.delivery.cursor.settle(ME, offset, offset, Outcome.ACCEPT)
            done.add(offset)
        assert crashes < 100
    assert done == set(range(10)) - bad
    assert place.delivery.cursor.start == 10, "the bad ones are given up"


def test_the_last_try_is_alone_and_new_records_wait_for_the_next_fetch() -> None:
    place = Place(Cursor(0, deliveries_max=3))
    for _ in range(2):
        assert place.take() == [0, 1, 2, 3, 4]
        place.delivery.cursor.release_holder(ME)
    place.partition.committed = 8
    assert place.take() == [0]
    assert place.take() == [1], "for another member, at once"
    place.delivery.cursor.settle(ME, 0, 1, Outcome.ACCEPT)
    assert [place.take() for _ in range(4)] == [[2], [3], [4], [5, 6, 7]]


def test_records_before_a_spared_one_go_without_it() -> None:
    place = Place(Cursor(0, deliveries_max=4))
    assert place.take() == [0, 1, 2, 3, 4]
    cursor = place.delivery.cursor
    cursor.settle(ME, 0, 1, Outcome.RETURN)
    cursor.settle(ME, 4, 4, Outcome.ACCEPT)
    for _ in range(2):
        cursor.release_holder(ME)
        cursor.acquire(2, 3, ME, now=0.0)
    cursor.release_holder(ME)
    place.partition.committed = 10
    assert place.take() == [0, 1]
    assert place.take() == [2]
    assert place.take() == [3]
    assert place.take() == [5, 6, 7, 8, 9]


def test_without_a_limit_all_are_delivered_together_always() -> None:
    place = Place(Cursor(0))
    for _ in range(20):
        assert place.take() == [0, 1, 2, 3, 4]
        place.delivery.cursor.release_holder(ME)


def test_a_limit_that_is_lowered_spares_what_came_back_before() -> None:
    place = Place(Cursor(0, deliveries_max=10))
    for _ in range(4):
        assert place.take() == [0, 1, 2, 3, 4]
        place.delivery.cursor.release_holder(ME)
    place.delivery.cursor.deliveries_max = 5
    assert place.take() == [0]


def test_a_delay_that_is_over_is_spared_as_well() -> None:
    place = Place(Cursor(0, deliveries_max=3))
    for _ in range(2):
        assert place.take() == [0, 1, 2, 3, 4]
        for offset in range(5):
            ready_at = place.clock.monotonic() + 1
            place.delivery.cursor.settle(ME, offset, offset, Outcome.RELEASE, ready_at=ready_at)
        assert place.take() == []
        place.clock.advance(2)
    assert place.take() == [0]
