"""Classic groups: what a member that goes, or is refused, leaves behind for the others."""

from typing import Any

from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.messages import Leaver
from headrace.model.errors import ErrorCode
from tests.support.coordination.groups_kit import Room, Settings

S = GroupState
OTHER = (("range", b"other"),)


def test_who_left_while_waiting_is_not_counted_among_those_who_came() -> None:
    room = Room()
    (leader, one, other), generation = room.stable(3)
    room.join(leader)
    room.groups.leave("g", [Leaver(leader)])
    assert room.group().awaiting_join == 0
    first = room.join(one, protocols=OTHER)
    assert first == []
    room.join(other)
    assert first[0].generation == generation + 1


def test_a_member_refused_for_want_of_room_was_the_last_one_waited_for() -> None:
    room = Room(Settings(group_max_size=2))
    (leader, follower), generation = room.stable(2)
    answers = room.join(leader)
    room.settings = Settings(group_max_size=1)
    (refused,) = room.join(follower)
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert answers[0].generation == generation + 1


def test_a_group_may_be_as_large_as_the_limit_and_no_larger() -> None:
    room = Room(Settings(group_max_size=2))
    members, _ = room.stable(1)
    newcomer, waiting = room.new_member()
    room.join(members[0])
    assert waiting[0].error is ErrorCode.NONE
    assert room.join()[0].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert sorted(room.group().members) == sorted([*members, newcomer])


def test_one_who_waits_already_keeps_its_place_when_it_asks_again() -> None:
    room = Room(Settings(group_max_size=2))
    (leader, _), _ = room.stable(2)
    room.join(leader)
    room.settings = Settings(group_max_size=1)
    assert room.join(leader) == []


def test_a_generation_given_up_before_its_assignment_tells_no_former_one() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    room.join(leader)
    room.join(follower)
    waiting = room.sync(follower, generation + 1)
    room.join(leader, protocols=OTHER)
    assert waiting[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert (waiting[0].assignment, waiting[0].protocol_name) == (b"", None)
    assert {one.assignment for one in room.group().members.values()} == {b""}


def test_an_assignment_that_was_not_written_is_nobodys_not_even_the_former_one() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    room.join(leader)
    room.join(follower)
    waiting = room.sync(follower, generation + 1)
    room.partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    (mine,) = room.sync(leader, generation + 1, {leader: b"new"})
    assert (mine.assignment, waiting[0].assignment) == (b"", b"")
    assert mine.error is waiting[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_each_who_leaves_is_named_in_its_answer() -> None:
    room = Room()
    answers = room.groups.leave("nobody", [Leaver("m", "i"), Leaver("n")])
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert answers == [("m", "i", unknown), ("n", None, unknown)]
    (member,), _ = room.stable()
    answers = room.groups.leave("g", [Leaver("m", "i"), Leaver("", "i"), Leaver(member)])
    assert answers == [("m", "i", unknown), ("", "i", unknown), (member, None, ErrorCode.NONE)]


def test_leaving_that_took_nobody_out_disturbs_nobody() -> None:
    room = Room()
    (_, follower), generation = room.stable(2)
    room.groups.leave("g", [Leaver("stranger")])
    assert room.beat(follower, generation) is ErrorCode.NONE
    assert room.group().state is S.STABLE


def test_an_id_given_out_that_leaves_an_empty_group_begins_no_rebalance() -> None:
    room = Room()
    (given,) = room.join()
    room.groups.leave("g", [Leaver(given.member_id)])
    assert (room.group().state, room.group().generation) == (S.EMPTY, 0)


def test_the_next_in_the_order_of_joining_leads_after_the_leader() -> None:
    room = Room()
    (leader, second, third), _ = room.stable(3)
    room.groups.leave("g", [Leaver(leader)])
    answers = [room.join(third), room.join(second)]
    assert [got[0].leader for got in answers] == [second, second]
    assert [len(got[0].members) for got in answers] == [0, 2]


def test_a_leader_that_is_here_leads_on_whoever_came_first() -> None:
    room = Room()
    (leader, follower), _ = room.stable(2)
    answers = [room.join(follower, protocols=OTHER), room.join(leader)]
    assert [got[0].leader for got in answers] == [leader, leader]


def test_the_last_one_left_of_a_rebalance_empties_the_group_for_the_log_too() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    room.join(leader)
    room.groups.leave("g", [Leaver(leader), Leaver(follower)])
    group = room.restart().group()
    assert (group.state, group.generation, dict(group.members)) == (S.EMPTY, generation + 1, {})
    assert (group.protocol_name, room.group().protocol_name) == (None, None)


def test_a_waiting_sync_of_a_member_that_leaves_is_answered() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    room.join(leader)
    room.join(follower)
    waiting = room.sync(follower, generation + 1)
    room.groups.leave("g", [Leaver(follower)])
    assert [one.error for one in waiting] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_the_session_of_a_member_that_left_ends_nothing() -> None:
    room = Room()
    (leader, follower), _ = room.stable(2, session_ms=60_000)
    room.groups.leave("g", [Leaver(follower)])
    generation = room.rejoined([leader])
    for _ in range(9):
        room.clock.advance(8)
        assert room.beat(leader, generation) is ErrorCode.NONE


def test_the_session_of_a_static_member_ends_nothing_for_who_took_its_place() -> None:
    room = Room()
    former = room.join(instance="i", session_ms=60_000)
    room.clock.advance()
    room.sync(former[0].member_id, 1, {former[0].member_id: b"A"}, instance="i")
    room.clock.advance(40)
    (back,) = room.join(instance="i", session_ms=60_000)
    room.clock.advance(40)
    assert room.beat(back.member_id, 1, instance="i") is ErrorCode.NONE


def test_a_member_that_left_while_the_assignment_was_due_is_not_waited_for_again() -> None:
    room = Room()
    asked: dict[str, Any] = {"session_ms": 1_800_000, "rebalance_ms": 60_000}
    leader, _ = room.new_member(**asked)
    silent, _ = room.new_member(**asked)
    room.clock.advance()
    room.groups.leave("g", [Leaver(silent)])
    room.join(leader, rebalance_ms=60_000, session_ms=1_800_000)
    room.sync(leader, 2, {leader: b"L"})
    room.clock.advance(61)
    assert (room.group().state, room.group().generation) == (S.STABLE, 2)


def test_a_member_that_dies_in_a_rebalance_does_not_end_the_wait_for_the_others() -> None:
    room = Room()
    asked: dict[str, Any] = {"session_ms": 30_000, "rebalance_ms": 300_000}
    (leader, dying, slow), generation = room.stable(3, **asked)
    answers = room.join(leader, **asked)
    for _ in range(4):
        room.clock.advance(10)
        room.beat(slow, generation)
    assert sorted(room.group().members) == sorted([leader, slow])
    assert (room.group().state, answers) == (S.PREPARING_REBALANCE, [])
    assert dying not in room.group().members
    room.join(slow, **asked)
    assert answers[0].generation == generation + 1


def test_whoever_waits_is_sent_away_when_the_coordinator_goes() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    room.join(leader)
    room.join(follower)
    syncing = room.sync(follower, generation + 1)
    (other,), _ = room.stable(1, group="h")
    newcomer, joining = room.new_member(group="h")
    room.groups.close()
    assert [one.error for one in syncing] == [ErrorCode.NOT_COORDINATOR]
    assert [(one.error, one.member_id) for one in joining] == [
        (ErrorCode.NOT_COORDINATOR, newcomer)
    ]
    assert room.groups.heartbeat("h", other, None, 1) is ErrorCode.NOT_COORDINATOR


def test_who_was_elected_leads_on_when_the_first_one_is_back() -> None:
    room = Room()
    asked: dict[str, Any] = {"session_ms": 1_800_000, "rebalance_ms": 60_000}
    joining = [room.join(instance=name, **asked) for name in ("away", "here")]
    room.clock.advance()
    away, here = (answers[0].member_id for answers in joining)
    room.sync(away, 1, {}, instance="away")
    room.sync(here, 1, instance="here")
    elected = room.join(here, instance="here", protocols=OTHER, **asked)
    room.clock.advance(61)
    assert elected[0].leader == here
    room.sync(here, 2, {}, instance="here")
    back = room.join(away, instance="away", protocols=OTHER, **asked)
    room.join(here, instance="here", protocols=OTHER, **asked)
    assert (back[0].generation, back[0].leader) == (3, here)
