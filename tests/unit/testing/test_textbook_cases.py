"""The textbook cases of replication, step by step with HW and LEO of each replica: what loses or
forks records by a truncation to the high watermark does not by leader epochs."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.testing.sim.textbook.before_epochs import cut_to_high_watermark
from headrace.testing.sim.textbook.cases import CASES, play_case
from headrace.testing.sim.textbook.cluster import A, B, TextbookCluster
from tests.support.cluster.planted_isr import ask_for_without_union, join_below_the_start

Marks = tuple[tuple[int, int] | None, ...]
"""(HW, LEO) of each replica; None: down."""
every_seed = pytest.mark.parametrize("seed", range(3))


def played(name: str, seed: int = 0) -> TextbookCluster:
    """Play a case; a test that fails shows its steps."""
    found = play_case(CASES[name], seed)
    for row in found.trace.rows():
        print(*row, sep="\t")
    return found


def table(case: TextbookCluster) -> list[Marks]:
    """HW and LEO of all replicas, each time one of them has changed."""
    found: list[Marks] = []
    for step in case.trace.steps:
        if not found or found[-1] != step.seen.replicas:
            found.append(step.seen.replicas)
    return found


def assert_in_order(found: Sequence[object], wanted: Sequence[object]) -> None:
    """All of `wanted` is in `found` in that order, with whatever between."""
    left = iter(found)
    for each in wanted:
        assert each in left, f"not there, or not in order: {each}"


def told(case: TextbookCluster) -> str:
    return "\n".join(step.told for step in case.trace.steps)


def assert_all_hold(case: TextbookCluster, *messages: bytes) -> None:
    for broker in case.replicas:
        assert case.values(broker) == list(messages)


# --- high watermark and ISR -----------------------------------------------------------------------


@every_seed
@pytest.mark.parametrize("name", ["high-watermark", "high-watermark-waiting-fetch"])
def test_a_message_is_committed_by_the_fetch_after_the_one_that_brought_it(
    name: str, seed: int
) -> None:
    case = played(name, seed)
    assert table(case) == [
        ((0, 0), (0, 0)),
        ((0, 1), (0, 0)),
        ((0, 1), (0, 1)),
        ((1, 1), (0, 1)),
        ((1, 1), (1, 1)),
    ]
    remote = [dict(step.seen.remote)["B"] for step in case.trace.steps]
    assert remote == sorted(remote)
    appended = next(step for step in case.trace.steps if step.seen.replicas[1] == (0, 1))
    assert dict(appended.seen.remote) == {"B": 0}, "the leader learns it with the next Fetch"


def test_a_fetch_that_waits_is_answered_as_the_message_comes() -> None:
    def seconds(name: str) -> float:
        steps: dict[Marks, float] = {
            step.seen.replicas: step.seconds for step in reversed(played(name).trace.steps)
        }
        return steps[(0, 1), (0, 1)] - steps[(0, 1), (0, 0)]

    waiting, later = seconds("high-watermark-waiting-fetch"), seconds("high-watermark")
    assert waiting < later


@every_seed
def test_a_slow_follower_holds_the_high_watermark_until_it_has_left_the_isr(seed: int) -> None:
    case = played("isr-shrink", seed)
    steps = [(step.seen.isr, step.seen.replicas) for step in case.trace.steps]
    everybody = ("A", "B", "C")
    assert_in_order(
        steps,
        [
            (everybody, ((2, 4), (2, 3), (2, 2))),
            (("A", "B"), ((3, 4), (2, 3), (2, 2))),
            (everybody, ((4, 4), (4, 4), (4, 4))),
        ],
    )


@every_seed
def test_what_too_few_would_hold_is_refused_and_what_was_appended_is_not_lost(seed: int) -> None:
    case = played("min-insync-replicas", seed)
    assert '"message 1" is refused: NOT_ENOUGH_REPLICAS_AFTER_APPEND' in told(case)
    assert '"message 2" is refused: NOT_ENOUGH_REPLICAS' in told(case)
    alone = [step.seen for step in case.trace.steps if step.seen.isr == ("A",)]
    assert alone
    assert {seen.replicas[0] for seen in alone} == {(1, 2)}, "the high watermark stands still"
    assert_all_hold(case, b"message 0", b"message 1")


@every_seed
def test_f_plus_one_replicas_survive_f_failures(seed: int) -> None:
    case = played("f-failures", seed)
    leaders = [(step.seen.leader, step.seen.epoch) for step in case.trace.steps]
    assert_in_order(leaders, [("A", 0), ("B", 1), ("C", 2)])
    assert_in_order(table(case), [(None, None, (2, 2)), (None, None, (3, 3))])
    assert_all_hold(case, b"message 0", b"message 1", b"message 2")


# --- loss and divergence --------------------------------------------------------------------------

KNOWS_LESS = ((2, 2), (1, 2))
"""Message 1 is acknowledged, and B's high watermark is still 1."""


@every_seed
def test_the_loss_by_a_truncation_to_the_high_watermark_does_not_happen(seed: int) -> None:
    case = played("loss", seed)
    assert_in_order(table(case), [KNOWS_LESS, (None, (1, 2)), (None, (3, 3)), ((3, 3), (3, 3))])
    assert "truncates" not in told(case)
    assert_all_hold(case, b"message 0", b"message 1", b"message 2")


@every_seed
def test_the_loss_happens_where_a_follower_begins_by_cutting_to_its_high_watermark(
    seed: int,
) -> None:
    case = played("loss-before-epochs", seed)
    assert_in_order(table(case), [KNOWS_LESS, ((2, 2), (1, 1)), (None, (1, 1)), (None, (2, 2))])
    assert "B truncates its log from 2 to 1" in told(case)
    assert_all_hold(case, b"message 0", b"message 2")


def test_the_cut_to_the_high_watermark_alone_loses_it() -> None:
    with cut_to_high_watermark():
        case = played("loss")
    assert_all_hold(case, b"message 0", b"message 2")


@every_seed
def test_the_divergence_behind_the_high_watermark_does_not_happen(seed: int) -> None:
    case = played("divergence", seed)
    assert_in_order(table(case), [KNOWS_LESS, (None, (3, 3)), ((2, 2), (3, 3)), ((3, 3), (3, 3))])
    assert_all_hold(case, b"message 0", b"message 1", b"message 2")


@every_seed
def test_the_divergence_happens_where_nobody_looks_at_leader_epochs(seed: int) -> None:
    case = played("divergence-before-epochs", seed)
    assert_in_order(table(case), [KNOWS_LESS, ((2, 2), (1, 1)), (None, (2, 2)), ((2, 2), (2, 2))])
    assert case.values(A) == [b"message 0", b"message 1"]
    assert case.values(B) == [b"message 0", b"message 2"]
    assert "the replicas differ" in case.trace.steps[-1].told


@every_seed
def test_an_old_leader_cuts_what_it_alone_has_and_takes_its_successors(seed: int) -> None:
    case = played("old-leader-truncates", seed)
    assert_in_order(table(case), [((2, 3), (2, 2)), (None, (3, 3)), ((3, 3), (3, 3))])
    assert '"A\'s own" is acknowledged, acks=1' in told(case)
    assert "A truncates its log from 3 to 2" in told(case)
    assert_all_hold(case, b"message 0", b"message 1", b"B's own")
    assert case.log(A).truncations == 1


def test_who_has_more_than_its_leader_and_nothing_else_learns_what_is_committed() -> None:
    """Of the high watermark the leader has told with the answer that said where to cut."""
    case = played("old-leader-only-truncates")
    assert_all_hold(case, b"message 0", b"message 1")
    assert case.log(A).truncations == 1


# --- elections ------------------------------------------------------------------------------------


@every_seed
def test_nobody_leads_until_the_last_in_sync_is_back(seed: int) -> None:
    case = played("all-isr-down", seed)
    leaders = [step.seen.leader for step in case.trace.steps]
    assert_in_order(leaders, ["A", None, "A"])
    assert "B" not in leaders
    assert_all_hold(case, b"message 0", b"message 1")


@every_seed
def test_an_unclean_election_loses_what_the_new_leader_lacks(seed: int) -> None:
    case = played("unclean-election", seed)
    assert '"message 1" is acknowledged, acks=all' in told(case)
    assert_in_order(table(case), [((2, 2), (1, 1)), (None, (1, 1)), (None, (2, 2))])
    assert "A truncates its log from 2 to 1" in told(case)
    assert_all_hold(case, b"message 0", b"message 2")


@every_seed
def test_a_leader_that_stood_still_acknowledges_nothing_once_another_leads(seed: int) -> None:
    case = played("zombie-leader", seed)
    assert "A goes on, and believes that it leads" in told(case)
    assert '"message 1" is refused: NOT_LEADER_OR_FOLLOWER' in told(case)
    assert_in_order(table(case), [((1, 2), (1, 1)), ((1, 2), (2, 2)), ((2, 2), (2, 2))])
    assert_all_hold(case, b"message 0", b"message 2")


def test_a_leader_whose_shrink_counts_at_once_acknowledges_when_another_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted; else the test above would see nothing."""
    ask_for_without_union(monkeypatch, joins=False)
    found = [played("zombie-leader", seed) for seed in range(8)]
    assert any('"message 1" is acknowledged' in told(case) for case in found)
    assert any("the replicas differ" in told(case) for case in found)


@every_seed
def test_who_lags_behind_the_start_of_a_term_does_not_join_and_nothing_is_lost(seed: int) -> None:
    case = played("lagging-join", seed)
    assert_all_hold(case, b"message 0", b"message 1")


def test_a_join_below_the_start_of_a_term_loses_what_was_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted; else the test above would see nothing."""
    join_below_the_start(monkeypatch)
    ends = [played("lagging-join", seed).trace.steps[-1].told for seed in range(8)]
    assert any(told.endswith("all replicas hold: message 0") for told in ends)


@every_seed
def test_async_master_loses_a_message_that_had_send_ok(seed: int) -> None:
    case = played("async-master", seed)
    assert_all_hold(case, b"message 0")
    assert '"message 1" is acknowledged, acks=1' in told(case)


@every_seed
def test_sync_master_stores_a_message_twice_whose_answer_is_lost(seed: int) -> None:
    case = played("sync-master", seed)
    assert_all_hold(case, b"message 0", b"message 0")
    assert told(case).count("is acknowledged") == 1


def test_async_flush_may_lose_a_message_that_had_send_ok() -> None:
    found = [played("async-flush", seed) for seed in range(6)]
    assert all('"message 0" is acknowledged' in told(case) for case in found)
    assert {len(case.values(A)) for case in found} == {0, 1}


def test_each_case_has_a_test_of_its_table() -> None:
    text = Path(__file__).read_text()
    assert not [name for name in CASES if f'"{name}"' not in text]


def test_the_same_seed_plays_the_same_steps() -> None:
    assert played("old-leader-truncates", 5).trace.rows() == (
        played("old-leader-truncates", 5).trace.rows()
    )
