"""Three brokers hold all of a topic while power, links, time and sessions fail them: what was
acknowledged is not lost, and all replicas are equal. Rules of replication left out are found."""

from collections import Counter

import pytest

from headrace.broker.follower import Follower
from headrace.broker.in_sync_replicas import InSyncReplicas
from headrace.cluster import elections
from headrace.cluster.cluster_facts import ClusterFacts
from headrace.cluster.stored_topic import StoredTopic
from headrace.cluster.znodes import PartitionState
from headrace.model.nouns import LeaderEpoch, Offset
from headrace.testing.sim.before_epochs import cut_to_high_watermark
from headrace.testing.sim.loop import Standstill
from headrace.testing.sim.replica_watch import Broken
from headrace.testing.sim.replicated import Told, replicated_work
from headrace.testing.sim.stories import play
from tests.support.planted_isr import ask_for_without_union

SEEDS = 12
SEEDS_MAX = 200


def told(seed: int) -> Told:
    return play(replicated_work, seed)[0]


def test_what_was_acknowledged_is_on_all_replicas_whatever_fails_meanwhile() -> None:
    counts: Counter[str] = Counter()
    elections = acknowledged = 0
    for seed in range(SEEDS):
        outcome = told(seed)
        counts += outcome.counts
        elections += outcome.elections
        acknowledged += outcome.acknowledged
    assert set(counts) >= {
        "power cuts", "restarts", "cut links", "slow links", "pauses", "lost touch",
        "expired sessions", "elections asked for", "deletions",
        "toppled", "blackouts", "shrinks", "joins", "logs cut",
    }  # fmt: skip
    assert elections > 3 * SEEDS
    assert acknowledged > 50 * SEEDS


def assert_found() -> None:
    for seed in range(SEEDS_MAX):
        try:
            told(seed)
        except (Broken, Standstill):
            return
    pytest.fail("no history shows it")


def test_a_follower_that_begins_by_cutting_to_its_high_watermark_is_found() -> None:
    with cut_to_high_watermark():
        assert_found()


def test_a_cut_below_the_high_watermark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    offset_to_cut = Follower.offset_to_cut

    def planted(self: Follower, epoch: LeaderEpoch, end: Offset) -> Offset | None:
        self.unclean = True
        found = offset_to_cut(self, epoch, end)
        return found if found is None else Offset(max(found - 3, 0))

    monkeypatch.setattr(Follower, "offset_to_cut", planted)
    assert_found()


def test_an_acknowledgement_before_a_shrink_is_committed_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_for_without_union(monkeypatch, joins=False)
    assert_found()


@pytest.mark.skip(
    reason="no history of 200 seeds shows it since orders take their way over the network;"
    " tests/property/test_partition_roles.py does"
)
def test_a_high_watermark_beyond_a_pending_joiner_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_for_without_union(monkeypatch, joins=True)
    assert_found()


def test_a_leader_that_takes_silence_for_consent_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deposed perhaps, it acknowledges alone what its successor does not have."""

    def planted(self: InSyncReplicas) -> None:
        if self.pending is not None:
            self.in_sync = self.maximal = frozenset(member for member, _ in self.pending.in_sync)

    monkeypatch.setattr(InSyncReplicas, "answer_lost", planted)
    assert_found()


def test_a_leader_that_does_not_begin_an_epoch_of_its_own_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    preferred = elections.preferred

    def planted(facts: ClusterFacts, topic: StoredTopic, index: int) -> PartitionState | None:
        found = preferred(facts, topic, index)
        if found is None:
            return None
        return found._replace(leader_epoch=LeaderEpoch(found.leader_epoch - 1))

    monkeypatch.setattr(elections, "preferred", planted)
    assert_found()


def test_a_follower_that_is_never_let_in_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InSyncReplicas, "join", lambda *_, **__: None)
    assert_found()
