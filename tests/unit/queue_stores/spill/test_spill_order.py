"""Whose messages are written first."""

from headrace.queue_stores.memory.spill_extent import Extent
from headrace.queue_stores.memory.spill_order import SpillOrder


class Sized:
    """A store of so many bytes."""

    def __init__(self, size: int) -> None:
        self.bytes = size

    def cut(self, size: int) -> list[Extent]:
        """Give out nothing."""
        return []


def order_of(*stores: Sized) -> SpillOrder:
    """The order of stores with at least 5 bytes."""
    order = SpillOrder(list, 5)
    for store in stores:
        order.put(store)
    return order


def test_the_largest_is_next_and_those_with_too_little_never() -> None:
    small, middle, large = Sized(4), Sized(5), Sized(20)
    order = order_of(middle, small, large)
    assert [order.take(), order.take(), order.take()] == [large, middle, None]


def test_a_store_that_has_doubled_goes_to_its_place_once() -> None:
    first, second = Sized(10), Sized(15)
    order = order_of(first, second)
    first.bytes = 19
    order.put(first)
    first.bytes = 20
    order.put(first)
    assert [order.take(), order.take(), order.take()] == [first, second, None]


def test_a_store_that_was_taken_comes_back_with_what_it_has_then() -> None:
    first, second = Sized(10), Sized(7)
    order = order_of(first, second)
    first.bytes = 20
    order.put(first)
    assert order.take() is first
    first.bytes = 6
    order.put(first)
    assert [order.take(), order.take(), order.take()] == [second, first, None]


def test_at_the_end_all_are_forgotten() -> None:
    first = Sized(10)
    order = order_of(first)
    order.end()
    assert order.take() is None
    order.put(first)
    assert order.take() is first
