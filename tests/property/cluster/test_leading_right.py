"""At most one broker has the right to lead a partition, whatever is late, lost or restarted."""

from collections import Counter
from typing import Any

import pytest

from headrace.broker.replica import leading_right
from headrace.broker.replica.held_rights import HeldRights
from headrace.broker.replica.leading_right import (
    GRANT_SECONDS,
    WAIT_SECONDS,
    Grants,
    KnownEpochs,
    Leaderships,
    Leading,
    Ping,
)
from headrace.broker.replica.leading_rights import LeadingRights
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from tests.support.cluster.rights_broker import KEY, PARTITION
from tests.support.cluster.rights_model import RightsModel

SEEDS = 60
SECONDS = 30
X, Y = BrokerId(1), BrokerId(2)


def first_seed(seeds: int, **planted: bool) -> int | None:
    """The first seed in which two brokers had the right at once; None: none of `seeds`."""
    return next((seed for seed in range(seeds) if RightsModel(seed, **planted).run(SECONDS)), None)


def test_no_two_brokers_have_the_right_at_once() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        model = RightsModel(seed)
        assert model.run(SECONDS) == [], f"seed {seed}: {model.state}"
        counts += model.counts
    # Otherwise it says nothing: rights were held, moved, and moved without an answer.
    assert counts["held"] > 100_000
    assert counts["elections"] > 500
    assert counts["early elections"] > 500
    assert counts["fenced"] > 50
    assert counts["restarts"] > 200


def test_leader_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading_right, "WAIT_SECONDS", 0.0)
    assert first_seed(20) is not None


def test_grant_by_a_broker_that_knows_a_later_epoch_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = Grants.given

    def planted(self: Grants, brokers: Any, key: Any, epoch: int, now: float) -> bool:
        return given(self, brokers, key, LeaderEpoch(1 << 40), now)

    monkeypatch.setattr(Grants, "given", planted)
    assert first_seed(100) is not None


def test_election_of_a_broker_outside_of_the_isr_is_found() -> None:
    assert first_seed(200, early_outside=True) is not None


def test_fence_answered_by_a_broker_without_a_right_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Leaderships, "gave_up", lambda *_: True)
    assert first_seed(20) is not None


def test_former_leader_that_answers_a_fence_and_goes_on_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LeadingRights, "_give_up", lambda self, key, epoch: key in self.led)
    assert first_seed(20) is not None


@pytest.mark.parametrize("forgotten", ["_end_grants", "look", "_look_at_alone"])
def test_right_that_is_not_ended_in_time_is_found(
    forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = getattr(HeldRights, forgotten)

    def once(self: HeldRights, *args: TopicPartition) -> None:
        """Report what begins, and nothing that ends."""
        if not self.reported.get(PARTITION):
            planted(self, *args)

    monkeypatch.setattr(HeldRights, forgotten, once)
    with pytest.raises(AssertionError, match="acts without a right"):
        first_seed(20)


# Bugs that random faults find too seldom


def granted(known: KnownEpochs, grants: Grants, sent_at: float) -> None:
    """Have `Y` answer a ping of `sent_at`."""
    grants.answered(Y, sent_at, known.answer(grants.ping(Y)))


def leader(lease: bool = True) -> tuple[Grants, Leaderships]:
    grants = Grants()
    leaderships = Leaderships(grants, lambda _: lease)
    leaderships.lead(KEY, LeaderEpoch(5), 0.0)
    return grants, leaderships


def with_y(epoch: int = 5) -> Leading:
    return Leading(KEY, LeaderEpoch(epoch), frozenset((Y,)), 2, 3)


def test_grant_counts_from_the_sending_of_its_ping() -> None:
    grants, leaderships = leader()
    known = KnownEpochs(1)
    known.learn(KEY, LeaderEpoch(5))
    granted(known, grants, 9.0)
    assert leaderships.holds(with_y(), 9.0 + GRANT_SECONDS * 0.99)
    assert not leaderships.holds(with_y(), 9.0 + GRANT_SECONDS * 1.01)
    granted(known, grants, 8.0)  # an answer that was overtaken
    assert not leaderships.holds(with_y(), 9.0 + GRANT_SECONDS * 1.01)


def test_restarted_broker_grants_nothing_before_its_orders() -> None:
    grants, leaderships = leader()
    known = KnownEpochs(1)
    known.learn(KEY, LeaderEpoch(6))
    granted(known, grants, 9.0)
    assert not leaderships.holds(with_y(), 9.0)
    again = KnownEpochs(2)
    granted(again, grants, 9.1)
    assert not leaderships.holds(with_y(), 9.1)
    again.learn(KEY, LeaderEpoch(5))
    granted(again, grants, 9.2)
    assert leaderships.holds(with_y(), 9.2)
    granted(known, grants, 9.3)  # of the former process, late
    assert leaderships.holds(with_y(), 9.3)


def test_answer_has_all_changes_that_the_ping_does_not_know() -> None:
    known = KnownEpochs(7)
    keys = [(bytes(16), number) for number in range(3)]
    for key in keys:
        known.learn(key, LeaderEpoch(1))
    known.learn(keys[0], LeaderEpoch(2))
    known.learn(keys[1], LeaderEpoch(0))  # an order that was overtaken
    assert known.answer(Ping(7, 3)).epochs == {keys[0]: 2}
    assert known.answer(Ping(7, 0)).epochs == {keys[0]: 2, keys[1]: 1, keys[2]: 1}
    assert known.answer(Ping(6, 3)) == known.answer(Ping(-1, 0))
    known.forget(keys[2])
    assert keys[2] not in known.answer(Ping(7, 0)).epochs
    assert known.of(keys[2]) == -1


def test_leader_alone_in_the_isr_needs_the_lease_of_the_session() -> None:
    alone = Leading(KEY, LeaderEpoch(5), frozenset(), 1, 3)
    assert leader()[1].holds(alone, 9.0)
    _, leaderships = leader(lease=False)
    assert not leaderships.holds(alone, 9.0)
    assert leaderships.holds(alone._replace(replicas=1), 9.0)


def test_leader_begins_when_the_former_one_gave_its_right_up() -> None:
    _, former = leader()
    _, following = leader()
    former.end(KEY, LeaderEpoch(6), 9.0)
    assert former.gave_up(KEY, LeaderEpoch(6))
    assert not former.gave_up(KEY, LeaderEpoch(7))
    following.lead(KEY, LeaderEpoch(7), 9.0)
    following.former_gave_up(KEY, LeaderEpoch(6), 9.1)  # of another election
    assert not following.begun(KEY, LeaderEpoch(7), 9.1)
    following.former_gave_up(KEY, LeaderEpoch(7), 9.1)
    assert following.begun(KEY, LeaderEpoch(7), 9.1)


def test_leader_that_had_not_begun_gives_no_right_up() -> None:
    _, former = leader()
    former.end(KEY, LeaderEpoch(6), WAIT_SECONDS / 2)
    assert not former.gave_up(KEY, LeaderEpoch(6))


def test_leader_of_the_epoch_before_goes_on_without_a_wait() -> None:
    _, leaderships = leader()
    leaderships.lead(KEY, LeaderEpoch(6), 9.0)
    assert leaderships.begun(KEY, LeaderEpoch(6), 9.0)
    leaderships.lead(KEY, LeaderEpoch(8), 9.1)
    assert not leaderships.begun(KEY, LeaderEpoch(8), 9.1)
    assert leaderships.begun(KEY, LeaderEpoch(8), 9.1 + WAIT_SECONDS)


def test_forgotten_broker_grants_nothing() -> None:
    grants, leaderships = leader()
    known = KnownEpochs(1)
    known.learn(KEY, LeaderEpoch(5))
    granted(known, grants, 9.0)
    assert leaderships.holds(with_y(), 9.0)
    grants.forget(Y)
    assert not leaderships.holds(with_y(), 9.0)
