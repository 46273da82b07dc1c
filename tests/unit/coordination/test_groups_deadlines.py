"""Classic groups and time: each of their waits ends when its own time is reached, and not before.

Between "not yet" and "over" lie ten milliseconds, of waits of half a minute and more.
"""

from collections.abc import Callable
from typing import Any

from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.messages import Leaver
from headrace.model.errors import ErrorCode
from tests.support.coordination.groups_kit import Room, Settings

S = GroupState
OTHER = (("range", b"other"),)


def comes_after(room: Room, seconds: float, happened: Callable[[], bool]) -> None:
    """Let time pass: `happened` is not so before `seconds` are over, and is so right after."""
    room.clock.advance(seconds - 0.005)
    assert not happened()
    room.clock.advance(0.01)
    assert happened()


def test_a_session_ends_so_long_after_the_last_heartbeat() -> None:
    room = Room()
    (member,), generation = room.stable(session_ms=60_000)
    room.clock.advance(31)
    assert room.beat(member, generation) is ErrorCode.NONE
    comes_after(room, 60, lambda: member not in room.group().members)


def test_a_session_begins_with_the_generation_whatever_was_waited_before() -> None:
    room = Room()
    (leader, other), generation = room.stable(2, session_ms=60_000, rebalance_ms=300_000)
    room.join(leader, session_ms=60_000, rebalance_ms=300_000)
    room.clock.advance(50)
    room.beat(other, generation)
    room.clock.advance(45)  # the leader's own session is over, but for its waiting
    room.join(other, session_ms=60_000, rebalance_ms=300_000)
    assert room.group().state is S.COMPLETING_REBALANCE
    comes_after(room, 60, lambda: leader not in room.group().members)


def test_a_member_that_never_synced_gains_no_time_by_the_leaders_assignment() -> None:
    room = Room()
    leader, _ = room.new_member(session_ms=60_000, rebalance_ms=600_000)
    silent, _ = room.new_member(session_ms=60_000, rebalance_ms=600_000)
    room.clock.advance()
    room.clock.advance(30)
    room.sync(leader, 1, {leader: b"L"})
    comes_after(room, 30, lambda: silent not in room.group().members)


def test_a_new_member_waits_five_minutes_for_its_first_generation() -> None:
    room = Room()
    room.stable(1, session_ms=1_800_000, rebalance_ms=1_800_000)
    newcomer, answers = room.new_member(session_ms=1_800_000, rebalance_ms=1_800_000)
    comes_after(room, 300, lambda: newcomer not in room.group().members)
    assert answers[0].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_given_out_is_kept_for_a_session() -> None:
    room = Room()
    room.join(session_ms=60_000)
    comes_after(room, 60, lambda: room.group().pending_joins == {})


def test_an_id_that_came_back_in_time_is_not_taken_away_later() -> None:
    room = Room()
    room.stable(session_ms=600_000, rebalance_ms=600_000)
    (given,) = room.join(session_ms=60_000)
    room.clock.advance(59)
    waiting = room.join(given.member_id, session_ms=60_000, rebalance_ms=600_000)
    room.clock.advance(10)
    assert waiting == []
    assert given.member_id in room.group().members


def test_those_who_come_are_waited_for_as_long_as_the_slowest_of_them_said() -> None:
    room = Room()
    asked: dict[str, Any] = {"session_ms": 1_800_000}
    slow, _ = room.new_member(rebalance_ms=60_000, **asked)
    quick, _ = room.new_member(rebalance_ms=30_000, **asked)
    room.clock.advance()
    room.sync(slow, 1, {slow: b"S", quick: b"Q"})
    room.sync(quick, 1)
    answers = room.join(quick, protocols=OTHER, rebalance_ms=30_000, **asked)
    comes_after(room, 60, lambda: bool(answers))
    assert list(room.group().members) == [quick]


def test_an_assignment_is_waited_for_as_long_as_the_slowest_member_said() -> None:
    room = Room()
    asked: dict[str, Any] = {"session_ms": 1_800_000}
    leader, _ = room.new_member(rebalance_ms=60_000, **asked)
    silent, _ = room.new_member(rebalance_ms=30_000, **asked)
    room.clock.advance()
    room.sync(leader, 1, {leader: b"L"})
    comes_after(room, 60, lambda: silent not in room.group().members)
    assert room.group().state is S.PREPARING_REBALANCE


def test_nobody_is_out_for_a_sync_that_came_before_the_time_was_up() -> None:
    room = Room()
    asked: dict[str, Any] = {"session_ms": 1_800_000, "rebalance_ms": 60_000}
    leader, _ = room.new_member(**asked)
    late, _ = room.new_member(**asked)
    room.clock.advance()
    room.sync(leader, 1, {leader: b"L"})
    room.clock.advance(59.9)
    room.sync(late, 1)
    room.clock.advance(1)
    assert list(room.group().members) == [leader, late]
    assert room.group().state is S.STABLE


def test_a_sync_phase_that_ended_leaves_nothing_for_the_next_one_to_end_early() -> None:
    room = Room()
    asked: dict[str, Any] = {"session_ms": 1_800_000, "rebalance_ms": 60_000}
    leader, _ = room.new_member(**asked)
    silent, _ = room.new_member(**asked)
    room.clock.advance()
    room.clock.advance(40)
    joins = [room.join(one, protocols=OTHER, **asked) for one in (leader, silent)]
    assert [answers[0].generation for answers in joins] == [2, 2]
    comes_after(room, 60, lambda: not room.group().members)


def test_a_join_phase_that_ended_early_ends_nothing_later() -> None:
    room = Room()
    asked: dict[str, Any] = {"session_ms": 1_800_000, "rebalance_ms": 60_000}
    members, _ = room.stable(2, **asked)
    room.join(members[0], **asked)
    room.clock.advance(40)
    room.join(members[1], **asked)
    room.sync(members[0], 2, {})
    room.sync(members[1], 2)
    room.clock.advance(25)
    assert (room.group().state, room.group().generation) == (S.STABLE, 2)


def test_the_initial_delay_is_waited_for_whoever_is_there() -> None:
    room = Room(Settings(group_initial_rebalance_delay_ms=30_000))
    _, answers = room.new_member(rebalance_ms=60_000)
    comes_after(room, 30, lambda: bool(answers))


def test_each_newcomer_in_the_initial_delay_adds_another_until_the_rebalance_timeout() -> None:
    room = Room(Settings(group_initial_rebalance_delay_ms=30_000))
    _, answers = room.new_member(rebalance_ms=100_000)
    room.clock.advance(29)
    room.new_member(rebalance_ms=100_000)
    comes_after(room, 31, lambda: bool(answers))  # nobody came in the second delay

    room = Room(Settings(group_initial_rebalance_delay_ms=30_000))
    _, answers = room.new_member(rebalance_ms=70_000)
    for _ in range(3):
        room.clock.advance(20)
        room.new_member(rebalance_ms=70_000)
    room.clock.advance(5)
    room.new_member(rebalance_ms=70_000)
    assert answers == []
    room.clock.advance(5)  # 30 + 30 + the 10 that remain
    assert len(answers) == 1


def test_one_millisecond_that_remains_is_waited_for() -> None:
    room = Room(Settings(group_initial_rebalance_delay_ms=30_000))
    _, answers = room.new_member(rebalance_ms=30_001)
    room.clock.advance(29)
    room.new_member(rebalance_ms=30_001)
    room.clock.advance(1)
    assert answers == []
    room.clock.advance(0.0011)
    assert len(answers) == 1


def test_a_rebalance_timeout_within_the_initial_delay_is_not_extended() -> None:
    room = Room(Settings(group_initial_rebalance_delay_ms=30_000))
    _, answers = room.new_member(rebalance_ms=30_000)
    room.clock.advance(20)
    room.new_member(rebalance_ms=30_000)
    room.clock.advance(10)
    assert len(answers) == 1


def test_the_initial_delay_ends_with_those_who_are_left_at_its_end() -> None:
    room = Room(Settings(group_initial_rebalance_delay_ms=30_000))
    one, answers = room.new_member()
    other, _ = room.new_member()
    room.groups.leave("g", [Leaver(other)])
    room.clock.advance(29)
    assert answers == []
    room.clock.advance(31)
    assert [joined.member_id for joined in answers[0].members] == [one]


def test_a_rebalance_nobody_came_to_is_waited_for_again_as_long_as_static_members_live() -> None:
    room = Room()
    asked: dict[str, Any] = {"session_ms": 1_800_000, "rebalance_ms": 60_000}
    leaving = room.join(instance="leaving", **asked)
    away = room.join(instance="away", **asked)
    room.clock.advance()
    one, other = leaving[0].member_id, away[0].member_id
    room.sync(one, 1, {other: b"O"}, instance="leaving")
    room.sync(other, 1, instance="away")
    room.groups.leave("g", [Leaver("", "leaving")])
    room.clock.advance(61)
    assert (room.group().state, room.group().generation) == (S.PREPARING_REBALANCE, 1)
    answers = room.join(other, instance="away", **asked)
    assert (answers[0].generation, answers[0].leader) == (2, other)


def test_after_the_coordinator_is_gone_no_group_has_a_timer() -> None:
    room = Room()
    room.stable(2)
    room.join()
    room.groups.close()
    assert room.clock.timers == 0


def test_a_static_member_that_is_back_lives_for_a_session_of_its_new_length() -> None:
    room = Room()
    first = room.join(instance="i", session_ms=30_000)
    room.clock.advance()
    room.sync(first[0].member_id, 1, {first[0].member_id: b"A"}, instance="i")
    room.clock.advance(20)
    (back,) = room.join(instance="i", session_ms=60_000)
    assert back.generation == 1
    comes_after(room, 60, lambda: back.member_id not in room.group().members)


def test_a_replacement_taken_back_gives_the_former_member_its_session_anew() -> None:
    room = Room()
    first = room.join(instance="i", session_ms=60_000)
    room.clock.advance()
    former = first[0].member_id
    room.sync(former, 1, {former: b"A"}, instance="i")
    room.clock.advance(50)
    room.partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    (back,) = room.join(instance="i", session_ms=60_000)
    room.partition.refusal = None
    assert back.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(room.group().members) == [former]
    comes_after(room, 60, lambda: former not in room.group().members)


def test_static_members_that_are_away_are_waited_for_once_more_and_then_no_longer() -> None:
    room = Room()
    asked: dict[str, Any] = {"session_ms": 1_800_000, "rebalance_ms": 60_000}
    joining = {name: room.join(instance=name, **asked) for name in ("a", "b", "c")}
    room.clock.advance()
    ids = {name: answers[0].member_id for name, answers in joining.items()}
    for name, member in ids.items():
        room.sync(member, 1, {}, instance=name)
    room.groups.leave("g", [Leaver("", "a")])
    room.clock.advance(90)
    answers = room.join(ids["b"], instance="b", **asked)
    assert answers == []
    comes_after(room, 30, lambda: bool(answers))
    assert (answers[0].generation, answers[0].leader) == (2, ids["b"])
    assert [one.instance_id for one in answers[0].members] == ["b", "c"]
