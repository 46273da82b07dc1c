"""Unacknowledged positions against a dict, added and settled one by one and in runs."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.queue_stores.unacked_positions import BLOCK_POSITIONS, HandedOut
from tests.support.examples import examples

lengths = st.sampled_from([1, 7, 8, 9, BLOCK_POSITIONS - 1, BLOCK_POSITIONS, 300, 600])
steps = st.lists(
    st.tuples(lengths, st.sampled_from([1, 1, 1, 2, 300]), st.integers(0, 900), lengths),
    min_size=1,
    max_size=6,
)
"""Positions to add: their number and the distance of neighbours; then a run to settle."""


@settings(max_examples=examples(150))
@given(steps, st.randoms(use_true_random=False))
def test_positions_are_those_of_a_dict(
    changes: list[tuple[int, int, int, int]], draw: Random
) -> None:
    out, model, end = HandedOut(), dict[int, int](), 5
    for count, distance, begin, settled in changes:
        positions = [*range(end, end + count * distance, distance)]
        end = positions[-1] + draw.choice([1, 1, 40])
        sizes = [draw.randrange(1000) for _ in positions]
        out.add(positions, sizes)
        model.update(zip(positions, sizes, strict=True))
        asked = [*range(begin, begin + settled)]
        if draw.random() < 0.3:
            draw.shuffle(asked)
        expected = [position for position in asked if position in model]
        assert [*out.settle_all(asked)] == expected
        for position in expected:
            del model[position]
        assert [*out.positions()] == [*model]
        assert (out.count, out.bytes) == (len(model), sum(model.values()))
        assert out.lowest() == next(iter(model), None)
