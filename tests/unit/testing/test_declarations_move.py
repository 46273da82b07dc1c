"""Declarations of AMQP while the brokers that coordinate them fail: all brokers have the same."""

import os
from collections.abc import Mapping, Sequence

import pytest

from headrace.model.errors import ApiError
from headrace.model.nouns import Offset
from headrace.ports.callbacks import Done, ignore_result
from headrace.shards.journal import KeyValue
from headrace.testing.sim.history import Broken
from headrace.testing.sim.stories import play
from headrace.vhosts.declarations import coordinator
from headrace.vhosts.declarations.confirmations import Confirmations
from headrace.vhosts.declarations.coordinator import Coordinator
from headrace.vhosts.declarations.coordinator_shard import CoordinatorShard
from headrace.vhosts.declarations.followed_table import FollowedTable, Held
from headrace.vhosts.declarations.new_records import Deleted
from headrace.vhosts.declarations.queue_deletions import QueueDeletions
from tests.support.sim.broken import first_broken
from tests.support.sim.declared import SETTINGS, Told, declared_by_many
from tests.support.sim.declared_policies import policies_of_many

SEEDS = 20 if os.environ.get("HEADRACE_LONG") else 2
"""Many of them: `make sim-moves`."""


def told(seed: int) -> Told:
    return play(declared_by_many, seed, SETTINGS)[0]


def test_brokers_have_the_same_declarations_and_those_that_were_answered() -> None:
    answered = moves = 0
    for seed in range(SEEDS):
        outcome = told(seed)
        answered += outcome.answered
        moves += outcome.epochs
    assert answered > 30 * SEEDS
    assert moves > 8 * SEEDS


def test_brokers_have_the_same_policies_and_those_that_were_answered() -> None:
    answered = 0
    for seed in range(SEEDS):
        answered += play(policies_of_many, seed, SETTINGS)[0].answered
    assert answered > 30 * SEEDS


def assert_found(first: int = 0) -> None:
    """Fail unless one of the histories from seed `first` on is broken."""
    seeds = range(first, first + 40)
    assert first_broken(told, seeds, errors=(Broken,)), "no history shows it"


def test_answer_before_the_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    append = CoordinatorShard.append

    def planted(
        self: CoordinatorShard,
        held: Held,
        records: Sequence[KeyValue],
        done: Done[Offset | ApiError],
    ) -> None:
        append(self, held, records, ignore_result)
        done(self.committed)

    monkeypatch.setattr(CoordinatorShard, "append", planted)
    assert_found()


def test_answer_before_the_polls_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(self: Confirmations, offset: Offset, done: Done[ApiError | None]) -> None:
        done(None)

    monkeypatch.setattr(Confirmations, "when_confirmed", planted)
    assert_found()


def test_uncommitted_change_that_stays_after_a_resignation_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def planted(self: FollowedTable) -> None:
        self._held.clear()

    monkeypatch.setattr(FollowedTable, "undo", planted)
    assert_found(first=49)


def test_transient_queue_that_outlives_its_broker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coordinator, "_delete_ended", lambda self, shard: None)
    assert_found()


def test_tombstone_before_the_topic_is_deleted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def planted(
        self: QueueDeletions, queues: Mapping[bytes, Deleted]
    ) -> dict[bytes, Deleted | None]:
        return dict.fromkeys(queues)

    monkeypatch.setattr(QueueDeletions, "_deleted", planted)
    assert_found()


def test_declaration_that_does_not_wait_for_a_deletion_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator, "_queue_being_deleted", lambda command, table: None)
    assert_found(first=3)


def test_deletion_that_the_next_coordinator_does_not_continue_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FollowedTable, "deleted", lambda self: {})
    assert_found(first=13)
