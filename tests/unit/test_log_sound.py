"""What needs no second look: never more than was seen and stayed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.sound import Sound

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


def test_what_left_the_cache_takes_all_behind_it_along_but_not_what_is_appended_later() -> None:
    sound = Sound()
    sound.appended_from(0)
    sound.lost(60, 100)
    assert sound.covers(0, 60)
    assert not sound.covers(0, 61)
    assert not sound.covers(99, 100)
    assert sound.covers(100, 200)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 8)),
        st.tuples(st.just("see"), st.integers(0, SIZE_MAX), st.integers(1, 12)),
        st.tuples(st.just("lose"), st.integers(0, SIZE_MAX)),
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
    for step in steps:
        if step[0] == "append":
            seen |= set(range(size, size + step[1]))
            size += step[1]
        elif step[0] == "see":
            end = min(step[1] + step[2], size)
            if step[1] < end:
                sound.add(step[1], end)
                seen |= set(range(step[1], end))
        else:
            sound.lost(min(step[1], size), size)
            seen -= set(range(step[1], size))
        for start in range(size):
            for end in (start + 1, (start + size + 1) // 2, size):
                if start < end and sound.covers(start, end):
                    assert set(range(start, end)) <= seen
