"""Faults planted in a cluster's queues: their story finds each of them.

Rare ones need faults of some kinds, which the story then has only. Others of ADRs 77 to 79 are
found by `test_replicated_queues`, `test_leading_right` and `test_remote_planted` in tests/property.
"""

import os

import pytest

from headrace.testing.sim.stories import Story, play
from tests.support.sim.broken import first_broken
from tests.support.sim.queues.late_frames import LateFrames
from tests.support.sim.queues.planted import (
    Plant,
    batches_have_new_sequences,
    confirm_before_the_isr,
    former_openings_stay,
    held_positions_are_not_named,
    older_frames_are_accepted,
    queues_are_not_paused,
    raised_credit_is_not_sent_again,
    settlements_are_not_repeated,
)
from tests.support.sim.queues.story import Told, queue_work, work_with

SEEDS_MAX = 200 if os.environ.get("HEADRACE_LONG") else 10
"""Each change of timing changes what a seed does: the first one that finds the bug is enough."""
MOVES = work_with("kills", "restarts", "elections asked for", tracks=(1,))
LOST_CALLS = work_with("cut links", "false resets", "slow links")
LATE_FRAMES = work_with("elections asked for", tracks=(1,), requests=LateFrames)
ENDED_RIGHTS = work_with("pauses", "brokers cut off", "lost touch", tracks=(1,))


def assert_found(
    plant: Plant, patch: pytest.MonkeyPatch, story: Story[Told] = queue_work, first: int = 0
) -> None:
    """Play a story with a planted bug until a seed finds it; fail if none does."""
    plant(patch)
    seeds = range(first, first + SEEDS_MAX)
    found = first_broken(lambda seed: play(story, seed), seeds, errors=(Exception,))
    assert found, "no story finds it"


def test_two_leaders_that_deliver_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(queues_are_not_paused, monkeypatch, ENDED_RIGHTS, first=1)


def test_held_positions_that_are_not_named_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_found(held_positions_are_not_named, monkeypatch, MOVES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (confirm_before_the_isr, queue_work),
        (batches_have_new_sequences, queue_work),
        (settlements_are_not_repeated, queue_work),
        (former_openings_stay, queue_work),
        (older_frames_are_accepted, LATE_FRAMES),
        (raised_credit_is_not_sent_again, LOST_CALLS),
    ],
)
def test_planted_bug_is_found(
    plant: Plant, story: Story[Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_found(plant, monkeypatch, story)


@pytest.mark.slow
def test_frames_of_a_former_leader_change_nothing() -> None:
    """The story in which the planted bug "older frames are accepted" is found."""
    for seed in range(SEEDS_MAX):
        play(LATE_FRAMES, seed)
