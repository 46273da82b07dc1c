"""Committed offsets: who may commit, when it counts, how they are fetched, deleted and expired."""

import pytest

from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.messages import CommitRequest, Leaver, OffsetToCommit
from headrace.coordination.groups.repeated_commits import RepeatedCommit
from headrace.model.errors import ApiError, ErrorCode
from tests.support.coordination.groups_kit import Room, Settings

S = GroupState
NONE = ErrorCode.NONE
TOPICS = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\xff\xff\xff\xff"
"""A consumer's subscription to topic t."""


def reading_t(room: Room) -> tuple[str, int]:
    """A Stable group of one consumer subscribed to t."""
    (member,), generation = room.stable(protocols=(("range", TOPICS),))
    return member, generation


def test_an_offset_is_neither_answered_nor_visible_before_it_is_committed() -> None:
    room = Room()
    room.partition.hold = True
    answered = room.commit()
    assert answered == []
    assert room.committed() is None
    room.partition.flush()
    assert answered == [NONE]
    assert room.committed() == 7


def test_all_commits_of_one_turn_go_out_in_one_batch() -> None:
    room = Room()
    before = len(room.partition.log.batches)
    codes = [room.commit(offsets=[OffsetToCommit("t", n, n)], turn=False) for n in range(100)]
    room.clock.advance()
    assert len(room.partition.log.batches) == before + 1
    assert codes == [[NONE]] * 100


REPEATED = RepeatedCommit(
    CommitRequest("g", -1, "", None, [OffsetToCommit("t", 0, 0), OffsetToCommit("t", 3, 0)])
)


def repeat(room: Room, *offsets: int) -> list[ErrorCode]:
    """Commits of both of `REPEATED`'s partitions, as many as there are pairs of offsets."""
    codes: list[ErrorCode] = []
    room.groups.commit_repeated(REPEATED, offsets, [2] * len(offsets), codes.append)
    room.clock.advance()
    return codes


def test_commits_alike_are_written_each_and_the_last_counts() -> None:
    room, other = Room(), Room()
    assert repeat(room, 5, 6, 7, 8) == [NONE]
    for pair in ((5, 6), (7, 8)):
        other.commit(
            offsets=[OffsetToCommit("t", at, n, 2) for at, n in zip((0, 3), pair, strict=True)]
        )
    assert room.partition.pairs() == other.partition.pairs()
    assert (room.committed("t", 0), room.committed("t", 3)) == (7, 8)
    assert room.restart().committed("t", 3) == 8


def test_commits_alike_that_take_too_long_are_answered_and_may_be_kept_yet() -> None:
    room = Room()
    room.partition.hold = True
    codes = repeat(room, 5, 6)
    room.clock.advance(11)
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    room.partition.flush()
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert room.committed("t", 3) == 6


def test_commits_alike_are_refused_together() -> None:
    room = Room()
    room.stable()
    assert repeat(room, 5, 6, 7, 8) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert room.committed() is None
    room = Room()
    room.partition.refusal = ErrorCode.KAFKA_STORAGE_ERROR
    assert repeat(room, 5, 6) == [ErrorCode.NOT_COORDINATOR]
    assert room.committed() is None


def test_a_turns_commits_are_split_into_batches_of_bounded_size() -> None:
    room = Room()
    text = "x" * 4000
    for n in range(300):
        room.commit(offsets=[OffsetToCommit("t", n, n, -1, text)], turn=False)
    room.clock.advance()
    sizes = [len(batch) for batch in room.partition.log.batches]
    assert len(sizes) > 1
    assert max(sizes) < 600_000
    assert room.committed("t", 299) == 299


def test_a_consumer_without_membership_commits_to_a_group_nobody_joined() -> None:
    room = Room()
    assert room.commit() == [NONE]
    assert room.group().protocol_type is None
    assert room.groups.list_groups()[0].state == "Empty"


def test_a_members_commit_to_an_unknown_group_is_refused_as_its_version_can_say() -> None:
    room = Room()
    assert room.commit("m", 1, version=8) == [ErrorCode.ILLEGAL_GENERATION]
    assert room.commit("m", 1, version=9) == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_who_may_commit_to_a_group_with_members() -> None:
    room = Room()
    (member,), generation = room.stable()
    assert room.commit(member, generation) == [NONE]
    assert room.commit() == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert room.commit("who", generation) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert room.commit(member, generation - 1) == [ErrorCode.ILLEGAL_GENERATION]
    assert room.commit(member, -1) == [ErrorCode.ILLEGAL_GENERATION]
    room.groups.leave("g", [Leaver(member)])
    assert room.commit() == [NONE]
    assert room.commit(member, generation) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_can_commit_while_a_rebalance_is_prepared_and_not_while_it_completes() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    room.join(leader)
    assert room.commit(follower, generation) == [NONE]
    room.join(follower)
    assert room.group().state is S.COMPLETING_REBALANCE
    assert room.commit(follower, generation + 1) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_commit_keeps_its_member_alive() -> None:
    room = Room()
    (member,), generation = room.stable(session_ms=10_000)
    for _ in range(4):
        room.clock.advance(9)
        assert room.commit(member, generation) == [NONE]
    assert room.group().state is S.STABLE


@pytest.mark.parametrize(
    ("refusal", "answer"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_commit_that_cannot_be_written_says_so_and_leaves_the_old_offset(
    refusal: ErrorCode, answer: ErrorCode
) -> None:
    room = Room()
    room.commit()
    room.partition.refusal = refusal
    assert room.commit(offsets=[OffsetToCommit("t", 0, 8)]) == [answer]
    assert room.committed() == 7


def test_a_commit_whose_flush_fails_is_not_acknowledged() -> None:
    room = Room()
    room.partition.hold = True
    answered = room.commit()
    room.partition.fail(ErrorCode.KAFKA_STORAGE_ERROR)
    assert answered == [ErrorCode.NOT_COORDINATOR]
    assert room.committed() is None


def test_deleting_a_group() -> None:
    room = Room()
    (member,), generation = room.stable()
    room.commit(member, generation)
    codes: list[ErrorCode] = []
    room.groups.delete("g", codes.append)
    room.groups.leave("g", [Leaver(member)])
    room.groups.delete("g", codes.append)
    room.groups.delete("g", codes.append)
    assert codes == [ErrorCode.NON_EMPTY_GROUP, NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    assert room.committed() is None
    assert room.restart().groups.list_groups() == []
    assert room.restart().committed() is None


def test_a_group_is_not_deleted_from_under_a_commit_on_its_way() -> None:
    room = Room()
    room.partition.hold = True
    codes = room.commit()
    room.groups.delete("g", codes.append)
    room.partition.flush()
    room.partition.flush()
    assert codes == [NONE, NONE]
    assert room.committed() is None
    assert room.restart().committed() is None


def test_who_joins_while_a_deletion_is_flushed_founds_another_group() -> None:
    room = Room()
    room.commit()
    room.partition.hold = True
    codes: list[ErrorCode] = []
    room.groups.delete("g", codes.append)
    assert codes == []
    _, answers = room.new_member()
    room.partition.flush()
    room.clock.advance()
    assert codes == [NONE]
    assert answers[0].generation == 1
    assert room.committed() is None


def test_a_group_whose_deletion_cannot_be_written_stays() -> None:
    room = Room()
    room.commit()
    room.partition.refusal = ErrorCode.KAFKA_STORAGE_ERROR
    codes: list[ErrorCode] = []
    room.groups.delete("g", codes.append)
    assert codes == [ErrorCode.NOT_COORDINATOR]
    assert room.committed() == 7
    assert len(room.groups.list_groups()) == 1


def delete_offsets(room: Room, *wanted: tuple[str, int]) -> tuple[ErrorCode, list[ErrorCode]]:
    """OffsetDelete on group g."""
    answers: list[tuple[ErrorCode, list[ErrorCode]]] = []
    room.groups.delete_offsets("g", wanted, lambda error, codes: answers.append((error, codes)))
    room.clock.advance()
    return answers[0]


def test_offsets_of_topics_that_nobody_reads_can_be_deleted() -> None:
    room = Room()
    member, generation = reading_t(room)
    room.commit(member, generation, [OffsetToCommit("t", 0, 1), OffsetToCommit("old", 0, 2)])
    error, codes = delete_offsets(room, ("t", 0), ("old", 0), ("old", 1))
    assert error is NONE
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE, NONE]
    assert (room.committed("t"), room.committed("old")) == (1, None)
    assert room.restart().committed("old") is None


def test_offsets_of_a_group_that_is_no_consumers_can_be_deleted_when_it_is_empty() -> None:
    room = Room()
    assert delete_offsets(room, ("t", 0))[0] is ErrorCode.GROUP_ID_NOT_FOUND
    (member,), generation = room.stable(kind="connect")
    room.commit(member, generation)
    assert delete_offsets(room, ("t", 0))[0] is ErrorCode.NON_EMPTY_GROUP
    room.groups.leave("g", [Leaver(member)])
    assert delete_offsets(room, ("t", 0)) == (NONE, [NONE])
    assert room.committed() is None


def test_offsets_of_a_deleted_topic_are_forgotten_those_on_their_way_too() -> None:
    room = Room()
    room.commit(offsets=[OffsetToCommit("t", 0, 1), OffsetToCommit("u", 0, 2)])
    room.partition.hold = True
    room.commit(offsets=[OffsetToCommit("t", 1, 3)])
    room.groups.topic_deleted("t")
    room.clock.advance()
    room.partition.hold = False
    room.partition.flush()
    room.clock.advance()
    assert (room.committed("t", 0), room.committed("t", 1), room.committed("u")) == (None, None, 2)
    assert room.restart().committed("t", 1) is None


DAY = 86_400.0


def test_a_simple_groups_offset_ends_when_it_was_not_committed_for_the_retention_time() -> None:
    room = Room()
    room.commit()
    room.clock.advance(6.9 * DAY)
    assert room.committed() == 7
    room.clock.advance(0.2 * DAY)
    assert room.committed() is None
    assert room.groups.list_groups() == []
    assert room.restart().groups.list_groups() == []


def test_a_groups_offsets_live_as_long_as_it_has_members_and_the_retention_time_after() -> None:
    room = Room()
    member, generation = reading_t(room)
    room.commit(member, generation)
    for _ in range(1000):
        room.clock.advance(3600 * 0.0027)  # 9.7 seconds: just within the session
        room.beat(member, generation)
    room.groups.leave("g", [Leaver(member)])
    room.clock.advance(6.9 * DAY)
    assert room.committed() == 7
    room.clock.advance(0.2 * DAY)
    assert room.committed() is None


def test_a_stable_groups_offsets_end_in_topics_it_no_longer_subscribes_to() -> None:
    room = Room(Settings(offsets_retention_minutes=1, offsets_retention_check_interval_ms=10_000))
    member, generation = reading_t(room)
    room.commit(member, generation, [OffsetToCommit("t", 0, 1), OffsetToCommit("old", 0, 2)])
    for _ in range(10):
        room.clock.advance(8)
        assert room.beat(member, generation) is NONE
    assert (room.committed("t"), room.committed("old")) == (1, None)


def test_an_old_clients_own_retention_time_counts_instead() -> None:
    room = Room()
    room.commit(retention_ms=60_000, version=4)
    assert room.restart().committed() == 7
    room.clock.advance(700)
    assert room.committed() is None


def test_an_offset_that_is_committed_again_starts_anew() -> None:
    room = Room()
    room.commit()
    room.clock.advance(6 * DAY)
    room.commit(offsets=[OffsetToCommit("t", 0, 9)])
    room.clock.advance(6 * DAY)
    assert room.committed() == 9


def test_a_changed_retention_time_holds_at_run_time() -> None:
    room = Room()
    room.commit()
    room.settings = Settings(offsets_retention_minutes=1)
    room.commit(group="other")
    room.clock.advance(1300)
    assert room.committed() is None


def test_after_the_coordinator_has_gone_everybody_is_sent_away() -> None:
    room = Room()
    (leader, follower), generation = room.stable(2)
    joining = room.join(leader)
    room.partition.hold = True
    committing = room.commit(follower, generation)
    room.groups.led.resign(0)
    assert joining[0].error is ErrorCode.NOT_COORDINATOR
    assert committing == [ErrorCode.NOT_COORDINATOR]
    assert room.beat(follower, generation) is ErrorCode.NOT_COORDINATOR
    assert room.join()[0].error is ErrorCode.NOT_COORDINATOR
    with pytest.raises(ApiError):
        room.committed()
    room.clock.advance(100)
    assert room.clock.timers == 0
    room.partition.flush()  # what the log still says comes too late for anybody


def test_a_resignation_of_an_older_leadership_is_ignored() -> None:
    room = Room(epoch=5)
    room.groups.led.resign(0, 4)
    assert room.commit() == [NONE]
    room.groups.led.resign(0, 5)
    assert room.commit() == [ErrorCode.NOT_COORDINATOR]


def test_a_commit_that_takes_too_long_is_answered_and_counts_once_it_is_committed() -> None:
    room = Room()
    room.partition.hold = True
    answered = room.commit()
    room.clock.advance(4.9)
    assert answered == []
    room.clock.advance(5.2)
    assert answered == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert room.committed() is None
    room.partition.flush()
    assert answered == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert room.committed() == 7
    room.clock.advance(20)
    assert room.commit(turn=False) == []


def test_an_offset_ends_when_its_time_is_reached_and_counts_from_the_groups_end() -> None:
    every = Settings(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    room = Room(every)
    room.commit()
    room.clock.advance(59.5)
    assert room.committed() == 7
    room.clock.advance(1)
    assert room.committed() is None
    left = Room(every)
    member, generation = reading_t(left)
    left.commit(member, generation)
    left.groups.leave("g", [Leaver(member)])
    left.clock.advance(50)
    left.commit(offsets=[OffsetToCommit("t", 0, 9)])
    left.clock.advance(50)
    assert left.committed() == 9
