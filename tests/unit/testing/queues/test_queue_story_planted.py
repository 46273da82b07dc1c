"""Faults planted in a cluster's queues: their story finds each of them."""

from collections.abc import Callable, Iterable

import pytest

from headrace.queue_stores.log.log_writing import LogWriting
from headrace.record.record_parts import NO_PRODUCER
from headrace.remote_queues.home.publish_batches import PublishBatch, PublishSequence
from headrace.remote_queues.home.remote_settlements import RemoteSettlements
from headrace.remote_queues.leader.leader_session import LeaderSession
from headrace.testing.sim.stories import play
from tests.support.sim.broken import first_broken
from tests.support.sim.queues.story import queue_work

SEEDS_MAX = 200
Plant = Callable[[pytest.MonkeyPatch], None]


def confirm_before_the_isr(patch: pytest.MonkeyPatch) -> None:
    """The leader confirms what it has appended."""
    append = LogWriting._append

    def planted(self: LogWriting, *args: object, **named: object) -> bool:
        appended = append(self, *args, **named)  # type: ignore[arg-type]
        self._listener.confirmed(self.appended_to)
        return appended

    patch.setattr(LogWriting, "_append", planted)


def batches_have_new_sequences(patch: pytest.MonkeyPatch) -> None:
    """The log does not recognise a batch that is sent again."""
    lost = PublishSequence.lost

    def planted(self: PublishSequence, batches: Iterable[PublishBatch]) -> None:
        lost(self, batches)
        for batch in self.waiting:
            batch.producer = NO_PRODUCER

    patch.setattr(PublishSequence, "lost", planted)


def settlements_are_not_repeated(patch: pytest.MonkeyPatch) -> None:
    """The next leader does not learn of settlements that the former one had not copied."""
    patch.setattr(RemoteSettlements, "repeat", lambda _: None)


def former_openings_stay(patch: pytest.MonkeyPatch) -> None:
    """A leader that is elected again keeps the consumers of before next to the new ones."""
    patch.setattr(LeaderSession, "_numbers_of", lambda self, name: [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (confirm_before_the_isr, 2),
        (batches_have_new_sequences, 1),
        (settlements_are_not_repeated, 2),
        (former_openings_stay, 1),
    ],
)
def test_planted_bug_is_found(plant: Plant, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`first`: a seed whose story found it when this was written; then others are tried."""
    plant(monkeypatch)
    seeds = (first, *range(SEEDS_MAX))
    assert first_broken(lambda seed: play(queue_work, seed), seeds), "no story finds it"
