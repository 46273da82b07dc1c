"""OffsetCommit, TxnOffsetCommit, OffsetDelete, DeleteGroups: what is kept, refused and undone."""

from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.messages import CommitRequest, Leaver, OffsetToCommit
from headrace.model.errors import ErrorCode
from tests.support.coordination.groups_kit import Room

E = ErrorCode
AT_9 = [OffsetToCommit("t", 0, 9)]


def in_transaction(
    room: Room, member: str = "", generation: int = -1, version: int = 9, **more: str
) -> list[ErrorCode]:
    """TxnOffsetCommit of offset 9 by producer 7."""
    codes: list[ErrorCode] = []
    instance = more.get("instance")
    request = CommitRequest("g", generation, member, instance, AT_9, version=version)
    room.groups.commit_in_transaction(request, 7, 3, codes.append)
    return codes


def test_an_offset_is_kept_with_all_that_was_said_of_it() -> None:
    room = Room()
    room.clock.advance(5)
    room.commit(offsets=[OffsetToCommit("t", 2, 7, 4, "note")])
    for place in (room, room.restart()):
        found = place.groups.offset("g", "t", 2)
        assert found is not None
        assert found[:5] == (7, 4, "note", room.clock.wall_ms(), -1)


def test_a_transactions_offsets_are_written_as_the_producers_and_count_at_its_end() -> None:
    room = Room()
    room.commit()
    room.partition.hold = True
    codes = in_transaction(room)
    assert codes == []
    room.groups.end_transaction(0, 7, committed=True)
    assert room.committed() == 7
    room.partition.flush()
    assert codes == [E.NONE]
    room.groups.end_transaction(0, 7, committed=True)
    assert room.committed() == 9


def test_a_transactions_offsets_that_are_refused_are_not_pending() -> None:
    room = Room()
    room.commit()
    room.partition.refusal = E.INVALID_PRODUCER_EPOCH
    assert in_transaction(room) == [E.INVALID_PRODUCER_EPOCH]
    assert "g" not in room.groups.shard("g").commits_in_flight
    assert not room.groups.shard("g").offsets.is_unstable(("g", "t", 0))


def test_who_may_commit_in_a_transaction_to_a_group_with_members() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    assert in_transaction(room) == [E.NONE]
    assert in_transaction(room, leader, generation) == [E.NONE]
    assert in_transaction(room, leader, generation - 1) == [E.ILLEGAL_GENERATION]
    assert in_transaction(room, "who", generation) == [E.UNKNOWN_MEMBER_ID]
    assert in_transaction(room, "who") == [E.UNKNOWN_MEMBER_ID]
    assert in_transaction(room, instance="i") == [E.UNKNOWN_MEMBER_ID]
    room.join(leader)
    room.join(follower)
    assert room.group().state is GroupState.COMPLETING_REBALANCE
    assert in_transaction(room, leader, generation + 1) == [E.NONE]
    assert room.commit(leader, generation + 1) == [E.REBALANCE_IN_PROGRESS]


def test_an_unknown_groups_generation_is_illegal_in_a_transaction_of_any_version() -> None:
    room = Room()
    assert in_transaction(room, "m", 0) == [E.ILLEGAL_GENERATION]
    assert room.commit("m", 0, version=9) == [E.GROUP_ID_NOT_FOUND]
    assert room.groups.list_groups() == []
    assert in_transaction(room) == [E.NONE]


def test_who_names_an_instance_without_a_generation_is_asked_for_its_membership() -> None:
    room = Room()
    room.stable()
    assert room.commit(instance="i") == [E.UNKNOWN_MEMBER_ID]
    first = room.join(instance="i")
    assert room.commit(first[0].member_id if first else "", instance="j") == [E.UNKNOWN_MEMBER_ID]


def test_a_commit_that_failed_leaves_the_group_to_be_deleted() -> None:
    room = Room()
    room.partition.refusal = E.NOT_ENOUGH_REPLICAS
    assert room.commit() == [E.COORDINATOR_NOT_AVAILABLE]
    room.partition.refusal = None
    codes: list[ErrorCode] = []
    room.groups.delete("g", codes.append)
    assert codes == [E.NONE]
    assert room.groups.list_groups() == []


def test_a_deletion_writes_a_tombstone_for_every_offset_and_for_the_group() -> None:
    room = Room()
    (member,), generation = room.stable()
    room.commit(member, generation, [OffsetToCommit("t", 0, 1), OffsetToCommit("u", 3, 2)])
    room.groups.leave("g", [Leaver(member)])
    before = len(room.partition.pairs())
    room.groups.delete("g", lambda _: None)
    written = room.partition.pairs()[before:]
    assert len(written) == 3
    assert [value for _, value in written] == [None] * 3
    assert {key for key, _ in written} <= {key for key, _ in room.partition.pairs()[:before]}


def test_a_deletion_that_failed_does_not_take_the_place_of_a_group_founded_meanwhile() -> None:
    room = Room()
    room.commit()
    room.partition.hold = True
    codes: list[ErrorCode] = []
    room.groups.delete("g", codes.append)
    room.new_member()
    founded = room.group()
    room.partition.fail(E.NOT_ENOUGH_REPLICAS)
    assert codes == [E.COORDINATOR_NOT_AVAILABLE]
    assert room.group() is founded


def test_only_offsets_that_are_there_are_deleted_and_each_asked_for_is_answered() -> None:
    room = Room()
    room.commit()
    before = room.partition.log.end_offset
    answers: list[tuple[ErrorCode, list[ErrorCode]]] = []
    room.groups.delete_offsets("g", [("t", 1), ("u", 0)], lambda *got: answers.append(got))
    assert answers == [(E.NONE, [E.NONE, E.NONE])]
    room.clock.advance()
    assert room.partition.log.end_offset == before
    room.groups.delete_offsets("g", [("t", 1), ("t", 0)], lambda *got: answers.append(got))
    room.clock.advance()
    assert answers[1:] == [(E.NONE, [E.NONE, E.NONE])]
    assert room.partition.log.end_offset == before + 1
    assert room.committed() is None


def test_a_deletion_of_offsets_waits_for_commits_on_their_way() -> None:
    room = Room()
    room.partition.hold = True
    room.commit()
    answers: list[tuple[ErrorCode, list[ErrorCode]]] = []
    room.groups.delete_offsets("g", [("t", 0)], lambda *got: answers.append(got))
    assert answers == []
    room.partition.hold = False
    room.partition.flush()
    room.clock.advance()
    assert answers == [(E.NONE, [E.NONE])]
    assert room.committed() is None


def test_a_deletion_of_offsets_that_failed_says_nothing_of_each() -> None:
    room = Room()
    room.commit()
    room.partition.refusal = E.KAFKA_STORAGE_ERROR
    answers: list[tuple[ErrorCode, list[ErrorCode]]] = []
    room.groups.delete_offsets("g", [("t", 0)], lambda *got: answers.append(got))
    room.clock.advance()
    assert answers == [(E.NOT_COORDINATOR, [])]
    assert room.committed() == 7


def test_an_offset_only_an_open_transaction_holds_can_be_deleted() -> None:
    room = Room()
    in_transaction(room)
    room.groups.delete_offsets("g", [("t", 0)], lambda *_: None)
    room.clock.advance()
    room.groups.end_transaction(0, 7, committed=True)
    assert room.committed() is None


def test_commits_keep_a_member_alive_while_a_rebalance_is_prepared() -> None:
    room = Room()
    (leader, other), generation = room.stable(2, session_ms=10_000, rebalance_ms=300_000)
    room.join(leader, rebalance_ms=300_000)
    for _ in range(4):
        room.clock.advance(6)
        assert room.commit(other, generation) == [E.NONE]
    assert other in room.group().members
