"""Heartbeats, sessions, leaving, and members that keep their place while they are away."""

from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.messages import Leaver
from headrace.model.errors import ErrorCode
from headrace.record.batch import iterate
from tests.support.coordination.groups_kit import Room

S = GroupState


def static(room: Room, instance: str = "i", **asked: int) -> tuple[str, int]:
    """A Stable group of one static member."""
    answers = room.join(instance=instance, **asked)  # type: ignore[arg-type]
    room.clock.advance()
    member, generation = answers[0].member_id, answers[0].generation
    room.sync(member, generation, {member: b"A"}, instance=instance)
    return member, generation


def test_heartbeats_keep_a_member_and_their_absence_ends_it() -> None:
    room = Room()
    (member,), generation = room.stable(session_ms=10_000)
    for _ in range(5):
        room.clock.advance(9)
        assert room.beat(member, generation) is ErrorCode.NONE
    room.clock.advance(10.1)
    assert room.group().state is S.EMPTY
    assert room.beat(member, generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_arm_no_timers() -> None:
    room = Room()
    (member,), generation = room.stable()
    before = room.clock.timers
    for _ in range(100):
        room.clock.advance(0.01)
        room.beat(member, generation)
    assert room.clock.timers == before


def test_heartbeat_refusals() -> None:
    room = Room()
    assert room.beat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat("m", 1, group="") is ErrorCode.INVALID_GROUP_ID
    (member,), generation = room.stable()
    assert room.beat("m", generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.beat(member, generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert room.beat(member, generation, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_before_the_assignment_is_there_are_fine() -> None:
    room = Room()
    member, answers = room.new_member()
    room.clock.advance()
    assert room.beat(member, answers[0].generation) is ErrorCode.NONE


def test_an_expired_member_makes_the_others_rebalance() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2, session_ms=10_000)
    room.clock.advance(9)
    room.beat(follower, generation)
    room.clock.advance(2)
    assert room.beat(follower, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    (answer,) = room.join(follower)
    assert (answer.leader, len(answer.members)) == (follower, 1)
    assert leader not in room.group().members


def test_a_member_that_waits_for_us_does_not_expire() -> None:
    room = Room()
    (leader, slow), generation = room.stable(2, session_ms=10_000, rebalance_ms=40_000)
    waiting = room.join(leader, rebalance_ms=40_000)
    for _ in range(4):
        room.clock.advance(8)
        room.beat(slow, generation)
    assert waiting == []
    assert leader in room.group().members


def test_who_leaves_makes_the_others_rebalance_at_once() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    (left,) = room.groups.leave("g", [Leaver(leader)])
    assert left.error is ErrorCode.NONE
    assert room.beat(follower, generation) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_one_to_leave_makes_the_group_empty_with_a_new_generation() -> None:
    room = Room()
    (member,), generation = room.stable()
    room.groups.leave("g", [Leaver(member)])
    group = room.group()
    assert (group.state, group.generation) == (S.EMPTY, generation + 1)
    assert room.restart().group().state is S.EMPTY


def test_leaving_during_a_rebalance_completes_it() -> None:
    room = Room()
    (leader, follower), _ = room.stable(2)
    answers = room.join(leader)
    room.groups.leave("g", [Leaver(follower)])
    assert len(answers[0].members) == 1


def test_leaving_answers_ones_own_waiting_join() -> None:
    room = Room()
    (leader, _), _ = room.stable(2)
    answers = room.join(leader)
    room.groups.leave("g", [Leaver(leader)])
    assert answers[0].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_given_out_can_leave() -> None:
    room = Room()
    member = room.join()[0].member_id
    assert room.groups.leave("g", [Leaver(member)])[0].error is ErrorCode.NONE
    assert room.group().pending_joins == {}


def test_several_leave_each_with_its_own_answer() -> None:
    room = Room()
    (leader, follower), _ = room.stable(2)
    left = room.groups.leave("g", [Leaver("who"), Leaver(follower), Leaver(leader)])
    unknown, none = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE
    assert [one.error for one in left] == [unknown, none, none]
    assert room.group().state is S.EMPTY


def test_nobody_can_leave_an_unknown_group() -> None:
    (left,) = Room().groups.leave("g", [Leaver("m", "i")])
    assert (left.instance_id, left.error) == ("i", ErrorCode.UNKNOWN_MEMBER_ID)


def test_an_administrator_takes_a_static_member_out_by_its_instance() -> None:
    room = Room()
    static(room)
    left = room.groups.leave("g", [Leaver("", "j"), Leaver("", "i")])
    assert [one.error for one in left] == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert room.group().static_members == {}


def test_a_fenced_member_cannot_leave_for_its_successor() -> None:
    room = Room()
    old, _ = static(room)
    room.join(instance="i")
    assert room.groups.leave("g", [Leaver(old, "i")])[0].error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_back_with_the_same_protocol_keeps_its_assignment_at_once() -> None:
    room = Room()
    old, generation = static(room)
    (answer,) = room.join(instance="i")
    assert answer.error is ErrorCode.NONE
    assert answer.generation == generation
    assert answer.skip_assignment  # it leads, and is told not to assign anew (KIP-814)
    assert len(answer.members) == 1
    assert room.group().state is S.STABLE
    assert room.sync(answer.member_id, generation, instance="i")[0].assignment == b"A"
    assert room.beat(old, generation, instance="i") is ErrorCode.FENCED_INSTANCE_ID


def test_a_returning_static_leader_of_an_old_version_is_told_of_its_former_self() -> None:
    room = Room()
    old, _ = static(room)
    (answer,) = room.join(instance="i", version=8)
    assert (answer.leader, answer.members, answer.skip_assignment) == (old, (), False)


def test_a_replacement_survives_a_restart_once_it_was_answered() -> None:
    room = Room()
    _, generation = static(room)
    room.partition.hold = True
    answers = room.join(instance="i")
    assert answers == []
    room.partition.flush()
    later = room.restart()
    assert later.beat(answers[0].member_id, generation, instance="i") is ErrorCode.NONE


def test_a_replacement_that_cannot_be_written_is_taken_back() -> None:
    room = Room()
    old, generation = static(room)
    room.partition.refusal = ErrorCode.KAFKA_STORAGE_ERROR
    (answer,) = room.join(instance="i")
    assert answer.error is ErrorCode.NOT_COORDINATOR
    assert room.beat(old, generation, instance="i") is ErrorCode.NONE


def test_a_static_member_back_with_another_protocol_makes_the_group_rebalance() -> None:
    room = Room()
    static(room)
    answers = room.join(instance="i", protocols=(("sticky", b""), ("range", b"")))
    assert answers[0].protocol_name == "sticky"
    assert room.group().state is S.COMPLETING_REBALANCE


def test_a_static_member_replaced_before_the_assignment_is_there_starts_all_over() -> None:
    room = Room()
    leader = room.join(instance="i")
    follower = room.join(instance="j")
    room.clock.advance()
    waiting = room.sync(follower[0].member_id, 1, instance="j")
    replacement = room.join(instance="j")
    assert waiting[0].error is ErrorCode.FENCED_INSTANCE_ID
    assert replacement == []
    assert room.group().state is S.PREPARING_REBALANCE
    again = room.join(leader[0].member_id, instance="i")
    assert again[0].generation == replacement[0].generation == 2


def test_a_waiting_join_of_a_replaced_static_member_is_fenced() -> None:
    room = Room()
    first = room.join(instance="i")
    second = room.join(instance="i")
    assert first[0].error is ErrorCode.FENCED_INSTANCE_ID
    room.clock.advance()
    assert second[0].error is ErrorCode.NONE


def test_a_wrong_id_under_a_known_instance_is_fenced_and_an_unknown_instance_unknown() -> None:
    room = Room()
    _, generation = static(room)
    assert room.join("other", instance="i")[0].error is ErrorCode.FENCED_INSTANCE_ID
    assert room.join("other", instance="j")[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.sync("other", generation, instance="i")[0].error is ErrorCode.FENCED_INSTANCE_ID
    assert room.beat("other", generation, instance="i") is ErrorCode.FENCED_INSTANCE_ID
    assert room.commit("other", generation, instance="i") == [ErrorCode.FENCED_INSTANCE_ID]


def test_a_static_member_that_misses_a_rebalance_keeps_its_place_until_its_session_ends() -> None:
    room = Room()
    away = room.join(instance="away", session_ms=60_000)
    here = room.join(instance="here", session_ms=60_000)
    room.clock.advance()
    gone, member = away[0].member_id, here[0].member_id
    room.sync(gone, 1, {member: b"H"}, instance="away")
    room.sync(member, 1, instance="here")
    changed = room.join(member, instance="here", protocols=(("range", b"new"),), session_ms=60_000)
    room.clock.advance(20.1)
    assert changed[0].generation == 2
    assert gone in room.group().members
    assert changed[0].leader == member
    room.sync(member, 2, {member: b"H"}, instance="here")
    for _ in range(5):
        room.clock.advance(10)
        room.beat(member, 2, instance="here")
    assert gone not in room.group().members


def test_a_members_latest_session_and_rebalance_timeouts_count() -> None:
    room = Room()
    (member,), _ = room.stable(session_ms=10_000)
    room.join(member, protocols=(("range", b"other"),), session_ms=30_000, rebalance_ms=50_000)
    room.clock.advance()
    generation = room.group().generation
    room.sync(member, generation, {member: b"M"})
    assert room.group().rebalance_timeout_ms == 50_000
    assert room.beat(member, generation) is ErrorCode.NONE
    room.clock.advance(29)
    assert member in room.group().members
    room.clock.advance(2)
    assert member not in room.group().members


def test_a_session_may_be_as_short_and_as_long_as_the_limits_say() -> None:
    room = Room()
    for session_ms, code in (
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ):
        assert room.join(session_ms=session_ms)[0].error is code


def test_generations_begin_anew_behind_the_last_number() -> None:
    room = Room()
    (member,), _ = room.stable()
    room.group().generation = (1 << 31) - 1
    room.join(member, protocols=(("range", b"other"),))
    room.clock.advance()
    assert room.group().generation == 0


def test_a_member_is_known_by_its_clients_name_and_address() -> None:
    room = Room()
    (member,), _ = room.stable()
    known = room.group().members[member]
    assert (known.client_id, known.client_host) == ("client", "/127.0.0.1")


def test_a_group_without_members_has_nobody_to_wait_for() -> None:
    room = Room()
    (member,), _ = room.stable(rebalance_ms=20_000)
    group = room.group()
    assert group.rebalance_timeout_ms == 20_000
    room.groups.leave("g", [Leaver(member)])
    assert group.rebalance_timeout_ms == 0


def test_what_a_group_writes_is_of_no_producer() -> None:
    room = Room()
    room.stable()
    headers = [header for batch in room.partition.log.batches for _, header in iterate(batch)]
    assert headers
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {(-1, -1)}
