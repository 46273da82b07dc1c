"""Which queues grow, shrink and change leaders, by RabbitMQ's rules."""

import pytest

from headrace.client.admin.queue_moves import Queue, QueueMove, critical, grown, rebalanced, shrunk


def queue(name: str, *members: int, **changed: object) -> Queue:
    majority = len(members) // 2 + 1
    found = Queue("/", name, "quorum", "topic", members[0], members, members, majority)
    return found._replace(**changed)  # type: ignore[arg-type]


A, B = queue("a", 1, 2, 3), queue("b", 1, 2)


def test_a_broker_becomes_the_last_member_of_the_queues_that_it_is_not_in() -> None:
    assert [(move.queue.name, move.members) for move in grown([A, B], 3)] == [("b", (1, 2, 3))]
    assert [move.members for move in grown([A, B], 4)] == [(1, 2, 3, 4), (1, 2, 4)]


def test_strategy_even_leaves_queues_with_an_odd_number_of_members() -> None:
    assert [move.queue.name for move in grown([A, B], 4, even=True)] == ["b"]


def test_a_move_that_was_interrupted_before_its_last_part_is_completed() -> None:
    late = queue("late", 1, 2, 3, min_in_sync=1)
    assert [move.members for move in grown([late, A], 3)] == [(1, 2, 3)]
    unused = late._replace(topic=None)
    assert list(grown([unused], 3)) == []


def test_a_broker_leaves_its_queues_but_never_as_the_last_member() -> None:
    alone = queue("alone", 1)
    moves = list(shrunk([A, B, alone, queue("other", 2, 3)], 1))
    assert [(move.queue.name, move.members) for move in moves] == [
        ("a", (2, 3)), ("b", (2,)), ("alone", (1,)),
    ]  # fmt: skip
    assert [move.problem for move in moves] == ["", "", "broker 1 is its last member"]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"in_sync": (1,)}, "it has no majority: 1 of 3 members are in sync"),
        ({"leader": None}, "it has no leader"),
        ({"has_priorities": True}, "it has priorities, so it has one member"),
        ({"in_sync": (1, 2)}, ""),
    ],
)
def test_a_queue_that_cannot_move_is_refused_in_words(
    changed: dict[str, object], problem: str
) -> None:
    at = queue("a", 1, 2, 3, **changed)
    assert [move.problem for move in grown([at], 4)] == [problem]
    assert [move.problem for move in shrunk([at], 3)] == [problem]


def test_the_last_member_in_sync_does_not_leave() -> None:
    at = queue("a", 1, 2, in_sync=(1,), min_in_sync=1)
    assert next(shrunk([at], 1)).problem.startswith("it has no majority")


def led(moves: list[QueueMove]) -> dict[str, int]:
    return {move.queue.name: move.members[0] for move in moves}


def test_leaders_are_balanced_over_the_members_in_sync() -> None:
    queues = [queue(f"q{number}", 1, 2, 3) for number in range(9)]
    moves = rebalanced(queues, [1, 2, 3])
    assert sorted(move.members[0] for move in moves) == [2, 2, 2, 3, 3, 3]
    assert all(sorted(move.members) == [1, 2, 3] and move.leads for move in moves)
    assert rebalanced([queue("q", 1, 2, 3), queue("r", 2, 3, 1)], [1, 2, 3]) == []


def test_leaders_do_not_move_to_members_out_of_sync_or_to_other_brokers() -> None:
    queues = [queue(f"q{number}", 1, 2, 3, in_sync=(1, 3)) for number in range(4)]
    assert set(led(rebalanced(queues, [1, 2, 3])).values()) == {3}
    assert rebalanced(queues, [1, 2]) == []


def test_leaders_leave_brokers_that_may_not_lead() -> None:
    queues = [queue(f"q{number}", 1, 2, 3) for number in range(4)]
    assert sorted(led(rebalanced(queues, [2, 3])).values()) == [2, 2, 3, 3]


def test_queues_without_a_majority_stay_and_count() -> None:
    stuck = queue("stuck", 1, 2, 3, in_sync=(1,))
    moves = rebalanced([stuck, queue("a", 1, 2, 3), queue("b", 1, 2, 3)], [1, 2, 3])
    assert led(moves) == {"a": 2, "b": 3}


def test_a_leader_that_stays_becomes_the_preferred_one() -> None:
    at = queue("a", 1, 2, 3, leader=2)
    assert led(rebalanced([at], [1, 2, 3])) == {"a": 2}


def test_a_queue_at_the_edge_of_its_quorum_is_critical() -> None:
    edge = queue("edge", 1, 2, 3, in_sync=(1, 2))
    found = list(critical([A, edge, queue("unused", 1, topic=None), queue("one", 3)]))
    assert [(found.name, broker) for found, broker in found] == [
        ("edge", 1), ("edge", 2), ("one", 3),
    ]  # fmt: skip
    assert [found.name for found, _ in critical([A, edge], 3)] == []
    assert [found.name for found, _ in critical([A, edge], 2)] == ["edge"]
