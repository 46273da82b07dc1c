"""JoinGroup: who is let in, who waits for whom, and which protocol is chosen."""

import pytest

from headrace.coordination.groups.classic.states import GroupState
from headrace.model.errors import ErrorCode
from tests.support.coordination.groups_kit import RANGE, Room, Settings

S = GroupState


def test_a_new_dynamic_member_is_given_an_id_first_and_counted_on_its_second_call() -> None:
    room = Room()
    (first,) = room.join()
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("client-")
    assert room.group().state is S.EMPTY
    second = room.join(first.member_id)
    assert second == []
    assert room.group().state is S.PREPARING_REBALANCE
    room.clock.advance()
    assert (second[0].generation, second[0].leader) == (1, first.member_id)


def test_an_old_client_joins_without_knowing_its_id() -> None:
    room = Room()
    answers = room.join(version=3)
    room.clock.advance()
    assert answers[0].error is ErrorCode.NONE
    assert answers[0].generation == 1


def test_an_unknown_member_id_is_refused_in_a_known_and_in_an_unknown_group() -> None:
    room = Room()
    assert room.join("who")[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    room.stable()
    assert room.join("who")[0].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_id_is_invalid() -> None:
    assert Room().join(group="")[0].error is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(session_ms: int) -> None:
    answer = Room().join(session_ms=session_ms)[0]
    assert answer.error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_only_the_leader_learns_of_the_members_and_their_subscriptions() -> None:
    room = Room()
    one, first = room.new_member(protocols=(("range", b"one"),))
    two, second = room.new_member(protocols=(("range", b"two"),))
    room.clock.advance()
    assert first[0].leader == second[0].leader == one
    assert [(m.member_id, m.metadata) for m in first[0].members] == [(one, b"one"), (two, b"two")]
    assert second[0].members == ()


def test_the_protocol_most_members_want_among_those_all_know_is_chosen() -> None:
    room = Room()
    a, b, c = ("a", b""), ("b", b""), ("c", b"")
    _, first = room.new_member(protocols=(a, b, c))
    room.new_member(protocols=(b, a))
    room.new_member(protocols=(b, a, c))
    room.clock.advance()
    assert first[0].protocol_name == "b"


@pytest.mark.parametrize(
    ("kind", "protocols"),
    [("consumer", (("other", b""),)), ("connect", RANGE), ("consumer", ()), ("", RANGE)],
)
def test_a_member_that_nobody_could_assign_with_is_refused(
    kind: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    room = Room()
    room.stable()
    answer = room.join(kind=kind, protocols=protocols)[0]
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_takes_any_protocol_but_none() -> None:
    room = Room()
    assert room.join(protocols=())[0].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.join(kind="")[0].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.join(kind="connect")[0].error is ErrorCode.MEMBER_ID_REQUIRED


def test_a_full_group_refuses_newcomers_and_keeps_its_members() -> None:
    room = Room(Settings(group_max_size=2))
    members, _ = room.stable(2)
    newcomer = room.join()[0]
    assert newcomer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    room.rejoined(members)


def test_while_a_rebalance_is_prepared_places_go_to_those_who_have_joined() -> None:
    room = Room(Settings(group_max_size=2))
    (leader, follower), _ = room.stable(2)
    room.join(leader)
    room.settings = Settings(group_max_size=1)
    assert room.join(follower)[0].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert follower not in room.group().members


def test_groups_max_bounds_how_many_groups_a_stranger_can_invent() -> None:
    room = Room(Settings(groups_max=2))
    for name in "ab":
        assert room.join(group=name)[0].error is ErrorCode.MEMBER_ID_REQUIRED
    assert room.join(group="c")[0].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert room.commit(group="c") == [ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_the_first_generation_waits_for_the_initial_delay() -> None:
    room = Room(Settings(group_initial_rebalance_delay_ms=3000))
    _, answers = room.new_member()
    room.clock.advance(2.9)
    assert answers == []
    room.clock.advance(0.2)
    assert answers[0].generation == 1


def test_a_newcomer_extends_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    room = Room(Settings(group_initial_rebalance_delay_ms=3000))
    _, answers = room.new_member(rebalance_ms=7000)
    for _ in range(3):
        room.clock.advance(2)
        room.new_member(rebalance_ms=7000)
    assert answers == []
    room.clock.advance(1.1)  # 7 seconds are over
    assert answers[0].generation == 1
    assert len(answers[0].members) == 4


def test_without_newcomers_the_delay_is_not_extended() -> None:
    room = Room(Settings(group_initial_rebalance_delay_ms=3000))
    _, answers = room.new_member(rebalance_ms=60_000)
    room.clock.advance(3.1)
    assert len(answers) == 1


def test_a_newcomer_makes_a_stable_group_rebalance_and_waits_for_all() -> None:
    room = Room()
    (member,), generation = room.stable()
    newcomer, answers = room.new_member()
    assert room.group().state is S.PREPARING_REBALANCE
    assert room.beat(member, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    again = room.join(member)
    assert again[0].generation == answers[0].generation == generation + 1
    assert answers[0].leader == member
    assert room.group().state is S.COMPLETING_REBALANCE
    assert newcomer in room.group().members


def test_members_that_do_not_come_within_the_rebalance_timeout_are_out() -> None:
    room = Room()
    (leader, follower), _ = room.stable(2, session_ms=60_000, rebalance_ms=20_000)
    answers = room.join(leader, session_ms=60_000)
    room.clock.advance(19.9)
    assert answers == []
    room.clock.advance(0.2)
    assert [m.member_id for m in answers[0].members] == [leader]
    assert follower not in room.group().members


def test_a_leader_that_does_not_come_is_replaced() -> None:
    room = Room()
    (leader, follower), _ = room.stable(2, session_ms=60_000)
    answers = room.join(follower, protocols=(("range", b"new"),), session_ms=60_000)
    room.clock.advance(21)
    assert answers[0].leader == follower
    assert leader not in room.group().members


def test_a_leader_that_rejoins_makes_the_group_rebalance() -> None:
    room = Room()
    (leader, _), _ = room.stable(2)
    assert room.join(leader) == []
    assert room.group().state is S.PREPARING_REBALANCE


def test_a_follower_that_rejoins_unchanged_is_told_the_present_generation() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    (answer,) = room.join(follower)
    assert (answer.generation, answer.leader, answer.members) == (generation, leader, ())
    assert room.group().state is S.STABLE


def test_a_follower_with_a_new_subscription_makes_the_group_rebalance() -> None:
    room = Room()
    (_, follower), _ = room.stable(2)
    assert room.join(follower, protocols=(("range", b"more"),)) == []
    assert room.group().state is S.PREPARING_REBALANCE


def test_a_lost_join_answer_is_given_again_before_the_assignment_is_there() -> None:
    room = Room()
    member, answers = room.new_member()
    room.clock.advance()
    (again,) = room.join(member)
    assert again == answers[0]
    assert room.group().state is S.COMPLETING_REBALANCE


def test_a_new_subscription_before_the_assignment_is_there_starts_over() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    room.join(leader)
    room.join(follower)
    waiting = room.sync(follower, generation + 1)
    room.join(leader, protocols=(("range", b"more"),))
    assert waiting[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert room.group().state is S.PREPARING_REBALANCE


def test_an_id_given_out_is_waited_for_and_forgotten_after_its_session() -> None:
    room = Room()
    (member,), _ = room.stable(session_ms=60_000)
    room.join(session_ms=10_000)  # never comes back with its id
    rejoined = room.join(member, session_ms=60_000)
    assert rejoined == []
    room.clock.advance(10.1)
    assert len(rejoined) == 1
    assert room.group().pending_joins == {}


def test_a_member_that_never_saw_a_generation_is_out_after_five_minutes() -> None:
    room = Room()
    room.stable(2, session_ms=1_800_000, rebalance_ms=1_800_000)
    newcomer, answers = room.new_member(session_ms=1_800_000, rebalance_ms=1_800_000)
    room.clock.advance(301)
    assert answers[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert newcomer not in room.group().members


def test_a_repeated_join_replaces_the_one_that_waits() -> None:
    room = Room()
    (leader, _), _ = room.stable(2)
    first = room.join(leader)
    second = room.join(leader)
    assert first[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second == []
    assert room.group().awaiting_join == 1


def test_a_group_that_cannot_be_written_is_not_founded() -> None:
    room = Room()
    room.partition.refusal = ErrorCode.KAFKA_STORAGE_ERROR
    assert room.join()[0].error is ErrorCode.NOT_COORDINATOR
    assert room.groups.list_groups() == []


def test_ids_given_out_to_members_that_never_come_back_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Room()
    room.join()
    shard = room.groups.shard("g")
    monkeypatch.setattr(shard.limits, "pending_joins_max", 2)
    assert room.join()[0].error is ErrorCode.MEMBER_ID_REQUIRED
    assert room.join()[0].error is ErrorCode.GROUP_MAX_SIZE_REACHED
