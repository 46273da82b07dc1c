"""Queues of a simulated cluster while brokers, links and the store fail: see `judge`.

Many seeds: `make sim-queues`.
"""

import logging
import os
from collections import Counter

import pytest

from headrace.testing.sim.stories import Story, play
from tests.support.sim.queues.story import Told, calm_work, moved_work, queue_work, single_work

SEEDS = range(200) if os.environ.get("HEADRACE_LONG") else (12, 15)


def told(story: Story[Told], caplog: pytest.LogCaptureFixture, *seeds: int) -> Counter[str]:
    """Play a story with seeds; return the counts of all.

    Log records are dropped after each: their exceptions reference the whole simulated cluster.
    """
    counts: Counter[str] = Counter()
    for seed in seeds:
        outcome = play(story, seed)[0]
        counts += outcome.counts
        counts["firm"] += outcome.firm
        counts["epochs"] += outcome.epochs
        for handler in logging.getLogger().handlers:
            if isinstance(handler, type(caplog.handler)):
                handler.clear()
    return counts


def test_queues_of_three_brokers_keep_their_promises() -> None:
    (outcome, first), (_, again) = (play(calm_work, 1) for _ in range(2))
    assert first.digest() == again.digest(), "objects' addresses in memory order something"
    counts = outcome.counts + Counter(firm=outcome.firm)
    assert counts["firm"] > 300
    assert counts["Answered"] == counts["Published"]


def test_queues_keep_their_promises_while_brokers_fail(caplog: pytest.LogCaptureFixture) -> None:
    counts = told(queue_work, caplog, *SEEDS)
    assert counts["Answered"] > 500 * len(SEEDS)
    assert counts["firm"] > 20 * len(SEEDS)
    assert counts["epochs"] > 10 * len(SEEDS)


def test_acknowledgements_stay_while_leaders_change_without_a_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seeds = SEEDS[:100] if len(SEEDS) > 2 else (1,)
    counts = told(moved_work, caplog, *seeds)
    assert counts["firm"] > 200 * len(seeds)
    assert counts["epochs"] > 20 * len(seeds)


def test_queues_of_a_broker_without_others_keep_their_promises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counts = told(single_work, caplog, 1, 5)
    assert counts["firm"] > 30
