"""Runs of numbers: as even as can be, the first ones one more."""

import pytest

from headrace.model.ranges import split_into_ranges


@pytest.mark.parametrize(
    ("count", "among", "runs"),
    [
        (7, "abc", [("a", 0, 3), ("b", 3, 5), ("c", 5, 7)]),
        (6, "abc", [("a", 0, 2), ("b", 2, 4), ("c", 4, 6)]),
        (2, "abc", [("a", 0, 1), ("b", 1, 2)]),
        (0, "abc", []),
    ],
)
def test_the_first_ones_get_one_more_and_who_gets_nothing_is_not_named(
    count: int, among: str, runs: list[tuple[str, int, int]]
) -> None:
    assert [(who, run.start, run.stop) for who, run in split_into_ranges(count, among)] == runs
