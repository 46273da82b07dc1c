"""SyncGroup: everybody hears what the leader said, once it is committed and never before."""

from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.messages import Leaver
from headrace.model.errors import ErrorCode
from tests.support.coordination.groups_kit import Room

S = GroupState


def two_joined(room: Room) -> tuple[str, str, int]:
    """A leader and a follower of a generation that has no assignment yet."""
    leader, answers = room.new_member()
    follower, _ = room.new_member()
    room.clock.advance()
    return leader, follower, answers[0].generation


def test_followers_wait_for_the_leaders_assignment() -> None:
    room = Room()
    leader, follower, generation = two_joined(room)
    waiting = room.sync(follower, generation)
    assert waiting == []
    (mine,) = room.sync(leader, generation, {leader: b"L", follower: b"F"})
    assert (mine.assignment, waiting[0].assignment) == (b"L", b"F")
    assert waiting[0].protocol_name == "range"
    assert room.group().state is S.STABLE


def test_nobody_hears_an_assignment_that_is_not_committed() -> None:
    room = Room()
    leader, follower, generation = two_joined(room)
    room.partition.hold = True
    waiting = room.sync(follower, generation) + room.sync(leader, generation, {leader: b"L"})
    assert waiting == []
    assert room.group().state is S.COMPLETING_REBALANCE
    late = room.sync(follower, generation)
    room.partition.flush()
    assert late[0].error is ErrorCode.NONE
    assert room.group().state is S.STABLE


def test_a_late_sync_is_answered_at_once_when_the_group_is_stable() -> None:
    room = Room()
    leader, follower, generation = two_joined(room)
    room.sync(leader, generation, {follower: b"F"})
    assert room.sync(follower, generation)[0].assignment == b"F"


def test_whom_the_leader_forgot_reads_nothing() -> None:
    room = Room()
    leader, follower, generation = two_joined(room)
    room.sync(leader, generation, {leader: b"L"})
    (answer,) = room.sync(follower, generation)
    assert (answer.error, answer.assignment) == (ErrorCode.NONE, b"")


def test_a_stranger_in_the_leaders_assignment_is_ignored() -> None:
    room = Room()
    leader, _, generation = two_joined(room)
    room.sync(leader, generation, {"stranger": b"X", leader: b"L"})
    assert "stranger" not in room.group().members


def test_refusals() -> None:
    room = Room()
    assert room.sync("m", 1)[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.sync("m", 1, group="")[0].error is ErrorCode.INVALID_GROUP_ID
    (member,), generation = room.stable()
    assert room.sync("m", generation)[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert room.sync(member, generation - 1)[0].error is ErrorCode.ILLEGAL_GENERATION
    assert room.sync(member, generation + 1)[0].error is ErrorCode.ILLEGAL_GENERATION
    wrong = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert room.sync(member, generation, kind="connect")[0].error is wrong
    assert room.sync(member, generation, protocol="sticky")[0].error is wrong
    right = room.sync(member, generation, kind="consumer", protocol="range")
    assert right[0].error is ErrorCode.NONE


def test_a_sync_during_a_rebalance_is_told_to_join_again() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    room.join(leader)
    assert room.sync(follower, generation)[0].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_out_after_the_rebalance_timeout() -> None:
    room = Room()
    leader, answers = room.new_member(session_ms=60_000)
    silent, _ = room.new_member(session_ms=60_000)
    room.clock.advance()
    room.sync(leader, 1, {leader: b"L"})
    assert answers[0].generation == 1
    room.clock.advance(20.1)
    assert silent not in room.group().members
    assert room.beat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_leaves_is_waited_for_no_longer() -> None:
    room = Room()
    leader, follower, _ = two_joined(room)
    assert list(room.group().pending_syncs) == [leader, follower]
    room.groups.leave("g", [Leaver(leader, None)])
    assert list(room.group().pending_syncs) == [follower]


def test_everybody_synced_so_the_rebalance_timeout_takes_nobody_out() -> None:
    room = Room()
    members, generation = room.stable(2, session_ms=60_000)
    room.clock.advance(30)
    assert [room.beat(one, generation) for one in members] == [ErrorCode.NONE] * 2


def test_an_assignment_that_cannot_be_written_is_told_to_all_and_the_group_starts_over() -> None:
    room = Room()
    leader, follower, generation = two_joined(room)
    waiting = room.sync(follower, generation)
    room.partition.refusal = ErrorCode.KAFKA_STORAGE_ERROR
    (mine,) = room.sync(leader, generation, {leader: b"L"})
    assert mine.error is waiting[0].error is ErrorCode.NOT_COORDINATOR
    assert mine.assignment == b""
    assert room.group().state is S.PREPARING_REBALANCE


def test_an_assignment_whose_flush_fails_is_told_to_all() -> None:
    room = Room()
    leader, _, generation = two_joined(room)
    room.partition.hold = True
    mine = room.sync(leader, generation, {leader: b"L"})
    room.partition.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert mine[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_an_assignment_of_a_generation_that_is_over_is_given_to_nobody() -> None:
    room = Room()
    leader, _, generation = two_joined(room)
    room.partition.hold = True
    mine = room.sync(leader, generation, {leader: b"old"})
    room.new_member()
    assert mine[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    room.partition.hold = False
    room.partition.flush()
    assert room.group().state is S.PREPARING_REBALANCE
    assert room.group().members[leader].assignment == b""


def test_a_repeated_sync_replaces_the_one_that_waits() -> None:
    room = Room()
    _, follower, generation = two_joined(room)
    first = room.sync(follower, generation)
    assert room.sync(follower, generation) == []
    assert first[0].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_generation_has_one_assignment_whatever_the_leader_says_next() -> None:
    room = Room()
    leader, follower, generation = two_joined(room)
    room.partition.hold = True
    room.sync(leader, generation, {leader: b"1", follower: b"1"})
    again = room.sync(leader, generation, {leader: b"2", follower: b"2"})
    room.partition.flush()
    assert again[0].assignment == b"1"
    assert room.restart().sync(follower, generation)[0].assignment == b"1"


def test_a_member_that_dies_after_a_long_wait_for_its_assignment_is_out() -> None:
    room = Room()
    leader, _ = room.new_member(session_ms=10_000, rebalance_ms=60_000)
    follower, _ = room.new_member(session_ms=10_000, rebalance_ms=60_000)
    room.clock.advance()
    generation = room.group().generation
    waiting = room.sync(follower, generation)
    for _ in range(3):  # the follower's session passes while it waits
        room.clock.advance(5)
        assert room.beat(leader, generation) is ErrorCode.NONE
    room.sync(leader, generation, {leader: b"L", follower: b"F"})
    assert waiting[0].error is ErrorCode.NONE
    for _ in range(3):
        room.clock.advance(4)
        room.beat(leader, generation)
    assert list(room.group().members) == [leader]
