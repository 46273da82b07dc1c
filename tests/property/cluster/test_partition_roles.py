"""Three replicas through leaders, kills and lost messages keep what was acknowledged (G1 G3 G6 G7
G12); and each rule of replication that is left out is found by the same histories."""

import pytest

from headrace.broker.replica.leader_term import LeaderTerm
from tests.support.cluster.planted_isr import ask_for_without_union, join_below_the_start
from tests.support.cluster.three_replicas import ThreeReplicas, Violation, run

STEPS = 600
SEEDS = 100
SEEDS_MAX = 1500


@pytest.mark.parametrize("block", range(4))
def test_what_was_acknowledged_and_shown_holds_through_every_change_of_role(block: int) -> None:
    clusters = [run(block * SEEDS + seed, STEPS) for seed in range(SEEDS)]
    assert sum(len(cluster.acked) for cluster in clusters) > 3 * SEEDS
    assert sum(cluster.controller.epoch for cluster in clusters) > 4 * SEEDS
    assert sum(cluster.cuts for cluster in clusters) > SEEDS / 2


def assert_found(kind: type[ThreeReplicas] = ThreeReplicas) -> None:
    for seed in range(SEEDS_MAX):
        try:
            run(seed, STEPS, kind)
        except Violation:
            return
    pytest.fail("no history shows it")


def test_a_follower_that_begins_by_cutting_to_its_high_watermark_is_found() -> None:
    class Planted(ThreeReplicas):
        truncates_to_high_watermark = True

    assert_found(Planted)


def test_a_cut_below_the_high_watermark_is_found() -> None:
    class Planted(ThreeReplicas):
        cuts_below_high_watermark = True

    assert_found(Planted)


def test_an_acknowledgement_before_a_shrink_is_committed_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_for_without_union(monkeypatch, joins=False)
    assert_found()


def test_a_high_watermark_beyond_a_pending_joiner_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask_for_without_union(monkeypatch, joins=True)
    assert_found()


def test_a_join_below_the_start_of_the_term_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    join_below_the_start(monkeypatch)
    assert_found()


def test_an_end_told_before_the_high_watermark_reached_the_term_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LeaderTerm, "knows_end", True)
    assert_found()
