"""Coordinators move while brokers fail: clients find them again, and what they were told holds."""

import os
from collections import Counter

import pytest

from headrace.broker.waiters import CommitWaiters
from headrace.coordination.transactions.markers import Markers
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.shards import journal
from headrace.shards.journal import Journal
from headrace.testing.sim.stories import play
from tests.support.sim.broken import first_broken
from tests.support.sim.coordinated import SETTINGS, Told, coordinated_work

SEEDS = range(20) if os.environ.get("HEADRACE_LONG") else (0, 5)
"""Many of them: `make sim-moves`. Of seed 1 little comes but pauses."""
SEEDS_MAX = 40


def told(seed: int) -> Told:
    return play(coordinated_work, seed, SETTINGS)[0]


def test_transactions_are_whole_and_no_commit_is_lost_wherever_coordinators_move() -> None:
    counts: Counter[str] = Counter()
    moves = commits = generations = 0
    for seed in SEEDS:
        outcome = told(seed)
        counts += outcome.counts
        commits += outcome.commits
        generations += outcome.generations
        moves += sum(outcome.epochs.values())
    assert counts["committed"] > 5 * len(SEEDS)
    assert commits > 20 * len(SEEDS)
    assert generations >= len(SEEDS)
    assert moves > 5 * len(SEEDS)


def assert_found(first: int = 0) -> None:
    """`first`: a seed that showed it when this was written; then all others are tried."""
    assert first_broken(told, (first, *range(SEEDS_MAX))), "no history shows it"


def test_a_commit_that_is_acknowledged_before_followers_have_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = Journal._append

    def planted(
        self: Journal, entries: list[journal._Entry], producer_id: int = -1, epoch: int = -1
    ) -> None:
        append(self, entries, producer_id, epoch)
        if self._in_flight and self._in_flight[-1] is entries:
            done = [entry.done for entry in entries]
            entries[:] = [entry._replace(done=lambda _: None) for entry in entries]
            for callback in done:
                callback(None)

    monkeypatch.setattr(Journal, "_append", planted)
    assert_found(first=1)


def test_a_marker_that_is_given_up_when_its_broker_fails_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = Markers._written

    def planted(self: Markers, partition: TopicPartition, error: ApiError | None) -> None:
        lost = error is not None and error.code is ErrorCode.NETWORK_EXCEPTION
        written(self, partition, None if lost else error)

    monkeypatch.setattr(Markers, "_written", planted)
    assert_found(first=4)


def test_a_decision_that_is_answered_for_by_who_no_longer_leads_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever waits for followers is told that all is well when leadership goes."""
    refuse = CommitWaiters.refuse

    def planted(self: CommitWaiters, because: ErrorCode) -> None:
        waiting, self.waiting = self.waiting, None
        for _, callback, _ in waiting or ():
            callback(None)
        refuse(self, because)

    monkeypatch.setattr(CommitWaiters, "refuse", planted)
    assert_found(first=1)
