"""Runs of settled positions: what they hold, cut, laid together, written and read."""

import tracemalloc
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.delivery.settled_runs import (
    NO_RUNS,
    Runs,
    pack_runs,
    runs_of,
    union,
    unpack_runs,
)

POSITIONS = st.integers(0, 40)
PAIRS = st.lists(
    st.tuples(POSITIONS, st.integers(0, 4)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=8,
)


def covered(runs: Runs) -> set[int]:
    return {
        position for first, last in zip(*runs, strict=True) for position in range(first, last + 1)
    }


@given(st.lists(PAIRS, max_size=5))
def test_all_that_is_in_one_is_in_their_union_as_ascending_runs_that_do_not_touch(
    parts: list[list[tuple[int, int]]],
) -> None:
    found = union([runs_of(pairs) for pairs in parts])
    assert covered(found) == {
        position for pairs in parts for first, last in pairs for position in range(first, last + 1)
    }
    ends = list(zip(*found, strict=True))
    assert all(before[1] + 1 < after[0] for before, after in pairwise(ends))


@given(PAIRS, st.integers(-1, 50))
def test_a_cut_leaves_what_lies_on_its_side_and_a_position_is_held_or_not(
    pairs: list[tuple[int, int]], at: int
) -> None:
    runs = runs_of(pairs)
    positions = covered(runs)
    assert covered(runs.below(at)) == {position for position in positions if position < at}
    assert covered(runs.above(at)) == {position for position in positions if position >= at}
    assert runs.holds(at) is (at in positions)
    assert covered(runs) == positions, "it is another that was cut"


@given(PAIRS)
def test_runs_are_read_as_they_were_written(pairs: list[tuple[int, int]]) -> None:
    runs = runs_of(pairs)
    packed = pack_runs(runs)
    assert unpack_runs(packed) == runs
    assert packed == b"".join(
        end.to_bytes(8, "big") for ends in zip(*runs, strict=True) for end in ends
    )


def test_a_hole_takes_sixteen_bytes_also_while_many_frames_are_laid_together() -> None:
    parts = [
        runs_of((at, at) for at in range(first, first + 2000, 2))
        for first in range(0, 200_000, 2000)
    ]
    tracemalloc.start()
    found = union(parts)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.firsts) == 100_000
    assert kept < 20 * 100_000
    assert most < 40 * 100_000
    assert union([]) == NO_RUNS
