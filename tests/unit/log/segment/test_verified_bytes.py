"""What needs no second look: never more than was seen and stayed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.segment.verified_bytes import READ_AHEAD_BYTES, Sound

SIZE_MAX = 40


def test_what_is_appended_is_known_from_the_start() -> None:
    sound = Sound()
    assert not sound.covers(0, 10)
    sound.appended_from(0)
    assert sound.covers(0, 10)
    assert sound.covers(7, 1 << 40)


def test_what_one_reader_looked_at_the_next_need_not() -> None:
    sound = Sound()
    for start in range(0, 100, 10):
        sound.add(start, start + 10)
        assert sound.covers(0, start + 10)
        assert not sound.covers(0, start + 11)


def test_read_bytes_and_appended_ones_join() -> None:
    sound = Sound()
    sound.appended_from(100)
    sound.add(20, 90)
    assert not sound.covers(20, 110)
    sound.add(90, 100)
    assert sound.covers(20, 110)
    assert not sound.covers(19, 110)


def test_what_left_the_cache_is_forgotten_with_what_is_read_in_beside_it() -> None:
    sound = Sound()
    sound.appended_from(0)
    sound.evicted(60, 40)
    assert sound.covers(0, 60)
    assert not sound.covers(0, 61)
    assert not sound.covers(60 + READ_AHEAD_BYTES, 61 + READ_AHEAD_BYTES)
    assert sound.covers(100 + READ_AHEAD_BYTES, 1 << 40)


steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "see", "lose"]), st.integers(0, SIZE_MAX), st.integers(1, 12)
    ),
    max_size=40,
)


@pytest.mark.parametrize("ours", [True, False])
@given(steps=steps, loaded=st.integers(0, 20))
def test_nothing_is_known_that_was_not_seen_or_was_lost_since(
    ours: bool, steps: list[tuple[str, int, int]], loaded: int
) -> None:
    sound, seen = Sound(), set[int]()
    size = 0 if ours else loaded
    if ours:
        sound.appended_from(0)
    for what, start, length in steps:
        if what == "append":
            seen |= set(range(size, size + length))
            size += length
        elif what == "see" and start < size:
            end = min(start + length, size)
            sound.add(start, end)
            seen |= set(range(start, end))
        elif what == "lose":
            sound.lost(start, start + length)
            seen -= set(range(start, start + length))
        for first in range(size):
            for end in (first + 1, (first + size + 1) // 2, size):
                if first < end and sound.covers(first, end):
                    assert set(range(first, end)) <= seen


@given(steps=steps)
def test_what_was_seen_last_in_one_go_is_known(steps: list[tuple[str, int, int]]) -> None:
    sound = Sound()
    for what, start, length in steps:
        if what == "lose":
            sound.lost(start, start + length)
        else:
            sound.add(start, start + length)
    sound.add(0, 2 * SIZE_MAX)
    assert sound.covers(0, 2 * SIZE_MAX)
