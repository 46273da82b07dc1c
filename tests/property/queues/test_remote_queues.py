"""A queue on another broker over a network that delays, repeats and loses messages."""

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from tests.support.examples import examples
from tests.support.queues.remote_history import OPERATIONS, RemoteHistory, Step, played
from tests.support.queues.remote_pair import RemotePlace

SEEDS = 60
SEEDS_OF_MOVES = 30
STEPS = 250
steps = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 63), st.integers(0, 63)), max_size=80
)


@hypothesis_settings(max_examples=examples(80))
@given(steps=steps, prefetch=st.sampled_from((0, 1, 3)), durable=st.booleans())
def test_no_promise_is_broken_by_a_bad_network(
    steps: list[Step], prefetch: int, durable: bool
) -> None:
    history = RemoteHistory(RemotePlace(durable=durable), prefetch=prefetch)
    for step in steps:
        history.step(step)
    history.finish()


def test_long_histories_keep_the_promises() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        counts += played(seed, STEPS, durable=seed % 4 == 0)
    # Otherwise it says nothing: messages came, were repeated and lost, and sessions ended.
    assert counts["delivered"] > 10 * SEEDS
    assert counts["repeated"] > SEEDS
    assert counts["Recalled"] > 0
    assert counts["sessions"] > SEEDS / 10


def test_consumers_keep_what_they_hold_when_leaders_change() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS_OF_MOVES):
        counts += played(seed, STEPS, moves=True)
    assert counts["delivered"] > 10 * SEEDS_OF_MOVES
    assert counts["move"] > SEEDS_OF_MOVES
    assert counts["sessions"] > SEEDS_OF_MOVES
    assert counts["Room"] > 0
    assert counts["Copied"] > SEEDS_OF_MOVES
