"""Positions that came back: the lowest next, few or many at a time."""

import tracemalloc
from random import Random

import pytest

from headrace.queues.engine import requeued_positions
from headrace.queues.engine.requeued_positions import ReturnedPositions


@pytest.mark.parametrize("seed", range(10))
def test_the_lowest_is_next_however_many_came_together(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requeued_positions, "FEW", 4)
    random = Random(seed)
    left = list(range(300))
    random.shuffle(left)
    here, model = ReturnedPositions(), set[int]()
    while left or model:
        if left and random.random() < 0.3:
            some = [left.pop() for _ in range(min(len(left), random.randint(1, 12)))]
            here.add(some)
            model.update(some)
        elif model:
            assert here.lowest == min(model)
            assert here.pop() == min(model)
            model.remove(min(model))
        assert len(here) == len(model)
        if len(model) > 60 and seed % 2:
            assert list(here.take_all()) == sorted(model)
            model.clear()
            assert not here


def test_many_that_come_together_take_eight_bytes_each() -> None:
    here = ReturnedPositions()
    positions = list(range(1 << 40, (1 << 40) + 100_000))
    tracemalloc.start()
    here.add(positions)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 9 * 100_000
