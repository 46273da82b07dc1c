"""Three brokers hold all of a topic while power, disks, links, time and sessions fail them.

What was acknowledged is not lost, and all replicas are equal. Rules of
replication that are left out are found.
"""

from collections import Counter
from collections.abc import Callable

import pytest

from headrace.broker.replica import replica_reads
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.in_sync_replicas import InSyncReplicas, ReplicaFetch
from headrace.cluster.decisions import elections
from headrace.cluster.decisions.facts import ClusterFacts
from headrace.cluster.membership.directory_doubts import OwnDoubts
from headrace.cluster.membership.lease import Lease
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.store.znodes import PartitionState
from headrace.model.nouns import LeaderEpoch, Offset, TopicPartition
from headrace.testing.sim.disk import LoopDisk
from headrace.testing.sim.faults.swarm import ELECTIONS_MIN
from headrace.testing.sim.history import Broken
from headrace.testing.sim.replicated import ACKNOWLEDGED_MIN, Told, replicated_work
from headrace.testing.sim.stories import play
from headrace.testing.sim.textbook.before_epochs import cut_to_high_watermark
from tests.support.cluster.planted_isr import ask_for_without_union, join_below_the_start
from tests.support.sim.broken import first_broken

SEEDS = 3
SEEDS_MAX = 200


def told(seed: int) -> Told:
    return play(replicated_work, seed)[0]


def test_what_was_acknowledged_is_on_all_replicas_whatever_fails_meanwhile() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = told(seed)
        counts += outcome.counts
        assert outcome.elections >= ELECTIONS_MIN
        assert outcome.acknowledged >= ACKNOWLEDGED_MIN
    assert set(counts) >= {"power cuts", "ISR shrinks", "ISR expansions", "logs cut"}


def assert_found(first: int = 0) -> None:
    """`first`: a seed that shows it, so that the others need not be played."""
    assert first_broken(told, (first, *range(SEEDS_MAX))), "no history shows it"


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


def test_a_high_watermark_beyond_a_pending_joiner_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_for_without_union(monkeypatch, joins=True)
    assert_found(first=1)


def test_a_leader_that_takes_silence_for_consent_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deposed perhaps, it acknowledges alone what its successor does not have."""

    def planted(self: InSyncReplicas) -> None:
        if self.pending is not None:
            self.in_sync = self.maximal = frozenset(member for member, _ in self.pending.in_sync)

    monkeypatch.setattr(InSyncReplicas, "answer_lost", planted)
    assert_found(first=7)


def test_a_join_below_the_start_of_a_term_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    join_below_the_start(monkeypatch)
    assert_found(first=22)


def test_a_stale_leader_that_acknowledges_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone in sync it goes on though its session is over, and another was elected uncleanly."""
    monkeypatch.setattr(Lease, "_lives", lambda _: True)
    assert_found(first=4)


def test_a_flush_that_saves_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(self: LoopDisk, _: object, done: Callable[[OSError | None], None]) -> None:
        self._hand_over(lambda: done(None), flush=True)

    monkeypatch.setattr(LoopDisk, "flush", planted)
    assert_found()


def test_a_replica_with_an_empty_disk_that_is_elected_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that is told to lead makes an empty log, whatever was there before."""

    def no_doubt(*_: object) -> None:
        """Doubt nothing of what is gone."""

    def may_make(self: OwnDoubts, key: TopicPartition) -> bool:
        return True

    monkeypatch.setattr(OwnDoubts, "_doubt", no_doubt)
    monkeypatch.setattr(OwnDoubts, "may_make", may_make)
    assert_found(first=1)


def test_a_fetch_of_an_earlier_registration_that_is_believed_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says what the broker had before its disk was replaced; the controller believes it too."""
    note_fetch = replica_reads.note_fetch

    def planted(*args: object, registered: int, **keywords: object) -> None:
        fetch = args[2]
        assert isinstance(fetch, ReplicaFetch)
        now_known = (*args[:2], fetch._replace(replica_epoch=registered), *args[3:])
        note_fetch(*now_known, registered=registered, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(replica_reads, "note_fetch", planted)
    monkeypatch.setattr(ClusterFacts, "is_registered_as", lambda *_: True)
    assert_found(first=32)


def test_an_error_that_a_broker_survives_fails_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged with its trace, and would be overlooked."""

    def planted(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(replica_reads, "diverging", planted)
    monkeypatch.setattr("headrace.testing.sim.replicated.FAULT_SECONDS", 0.1)
    with pytest.raises((ZeroDivisionError, Broken)):
        told(0)


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
    assert_found(first=3)


def test_a_follower_that_is_never_let_in_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InSyncReplicas, "join", lambda *_, **__: None)
    assert_found()
