"""Faults planted in the change of a queue's leader: the story without other faults finds them."""

from collections.abc import Callable

import pytest

from headrace.queues.engine.hosted_queue import HostedQueue
from headrace.remote_queues.home.remote_consumers import RemoteConsumers
from headrace.testing.sim.stories import play
from tests.support.sim.broken import first_broken
from tests.support.sim.queues.story import moved_work

SEEDS_MAX = 200
Plant = Callable[[pytest.MonkeyPatch], None]


def last_settlements_are_not_sent(patch: pytest.MonkeyPatch) -> None:
    """A leader that resigns keeps the settlements that it has not copied to itself."""
    handover = HostedQueue.handover
    patch.setattr(HostedQueue, "handover", lambda self: handover(self)._replace(settled={}))


def active_consumers_are_not_named(patch: pytest.MonkeyPatch) -> None:
    """The next leader does not learn which consumer is the single active one."""
    patch.setattr(RemoteConsumers, "chosen", lambda *_, **__: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "first"), [(last_settlements_are_not_sent, 4), (active_consumers_are_not_named, 3)]
)
def test_planted_bug_is_found(plant: Plant, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`first`: a seed whose story found it when this was written; then others are tried."""
    plant(monkeypatch)
    seeds = (first, *range(SEEDS_MAX))
    assert first_broken(lambda seed: play(moved_work, seed), seeds), "no story finds it"
