"""What share groups stand on moves: nothing accepted comes again, and nothing is lost."""

import os
from collections import Counter

from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from headrace.testing.sim.stories import play
from tests.support.sim.shared import SETTINGS, TOPIC, Told, shared_records

SEEDS = 20 if os.environ.get("HEADRACE_LONG") else 2
"""Many of them: `make sim-moves`."""


def told(seed: int) -> Told:
    return play(shared_records, seed, SETTINGS)[0]


def test_nothing_accepted_comes_again_and_nothing_is_lost_wherever_all_of_it_moves() -> None:
    moves: Counter[str] = Counter()
    accepted = written = 0
    for seed in range(SEEDS):
        outcome = told(seed)
        moves += Counter(outcome.epochs)
        accepted += outcome.accepted
        written += outcome.written
    assert min(moves[topic] for topic in (TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC)) > SEEDS
    assert accepted > 10 * SEEDS
    assert accepted > written / 2
