"""Faults planted in the change of a queue's leader: the story without other faults finds them."""

from collections.abc import Callable

import pytest

from headrace.queues.engine.dead_letter_publishing import DeadLetterPublishing
from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.queues.port import NOT_SETTLED
from headrace.testing.sim.stories import play
from tests.support.sim.broken import first_broken
from tests.support.sim.queues.story import moved_work

SEEDS_MAX = 200
Plant = Callable[[pytest.MonkeyPatch], None]


def last_settlements_are_not_sent(patch: pytest.MonkeyPatch) -> None:
    """A leader that resigns keeps the settlements that it has not copied to itself."""
    patch.setattr(HostedQueue, "uncopied", lambda _: NOT_SETTLED)


def lost_dead_letters_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A dead letter whose target has not stored it is neither settled nor published again."""
    wait = DeadLetterPublishing._wait

    def planted(self: DeadLetterPublishing, queue: object, refused: object) -> None:
        if not refused.lost:  # type: ignore[attr-defined]
            wait(self, queue, refused)  # type: ignore[arg-type]

    patch.setattr(DeadLetterPublishing, "_wait", planted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "first"), [(last_settlements_are_not_sent, 1), (lost_dead_letters_are_forgotten, 1)]
)
def test_planted_bug_is_found(plant: Plant, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`first`: a seed whose story found it when this was written; then others are tried."""
    plant(monkeypatch)
    seeds = (first, *range(SEEDS_MAX))
    assert first_broken(lambda seed: play(moved_work, seed), seeds), "no story finds it"
