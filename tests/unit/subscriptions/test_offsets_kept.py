"""Offsets of groups on a real coordinator: kept for years, also by Kafka's clock of expiry."""

from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.model.errors import ErrorCode
from headrace.subscriptions.group_offsets import GroupOffsets, OwnCommits
from tests.support.coordination.groups_kit import Room, Settings

YEAR_SECONDS = 365 * 86_400


def test_an_offset_outlives_kafkas_expiry_and_a_restart() -> None:
    room = Room(Settings(offsets_retention_minutes=1, offsets_retention_check_interval_ms=60_000))
    offsets = GroupOffsets(lambda: OwnCommits(room.groups), room.clock)
    answered: list[ErrorCode] = []
    offsets.store("g", "t", 0, 7, answered.append)
    room.commit(group="kafkas", offsets=[OffsetToCommit("t", 0, 9)])
    room.clock.advance()
    assert answered == [ErrorCode.NONE]
    room.clock.advance(YEAR_SECONDS)
    assert offsets.read("g", "t", 0) == 7
    assert room.groups.offset("kafkas", "t", 0) is None
    after = room.restart()
    kept = GroupOffsets(lambda: OwnCommits(after.groups), after.clock)
    assert kept.read("g", "t", 0) == 7
    assert kept.first_stored_ms("g", "t", 1) is not None


def test_minus_one_removes_the_offset_also_after_a_restart() -> None:
    room = Room()
    offsets = GroupOffsets(lambda: OwnCommits(room.groups), room.clock)
    answered: list[ErrorCode] = []
    for offset in (7, -1, -1):
        offsets.store("g", "t", 0, offset, answered.append)
        room.clock.advance()
    assert answered == [ErrorCode.NONE] * 3
    assert offsets.read("g", "t", 0) is None
    assert room.restart().groups.offset("g", "t", 0) is None


def test_commits_and_deletions_by_other_protocols_are_refused_and_own_ones_are_not() -> None:
    room = Room()
    own = OwnCommits(room.groups)
    offsets = GroupOffsets(lambda: own, room.clock)
    answered: list[ErrorCode] = []
    offsets.store("g", "t", 0, 7, answered.append)
    room.clock.advance()
    room.groups.elsewhere = {"g": "RocketMQ"}.get
    assert room.commit() == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    refused: list[ErrorCode] = []
    request = CommitRequest("g", -1, "", None, [OffsetToCommit("t", 0, 9)])
    room.groups.commit_in_transaction(request, 7, 3, refused.append)
    room.groups.delete_offsets("g", [("t", 0)], lambda code, _: refused.append(code))
    room.groups.delete("g", refused.append)
    room.clock.advance()
    assert refused == [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.NON_EMPTY_GROUP,
    ]
    assert offsets.read("g", "t", 0) == 7
    offsets.store("g", "t", 0, 8, answered.append)
    room.clock.advance()
    assert offsets.read("g", "t", 0) == 8
    offsets.store("g", "t", 0, -1, answered.append)
    room.clock.advance()
    assert offsets.read("g", "t", 0) is None
    offsets.store("g", "t", 0, 5, answered.append)
    room.clock.advance()
    own.delete("g", answered.append)
    room.clock.advance()
    assert answered == [ErrorCode.NONE] * 5
    assert room.groups.offset("g", "t", 0) is None


def test_offsets_end_with_their_topic() -> None:
    room = Room(Settings(offsets_retention_minutes=1))
    offsets = GroupOffsets(lambda: OwnCommits(room.groups), room.clock)
    for topic in ("t", "u"):
        offsets.store("g", topic, 0, 7, lambda code: None)
    room.clock.advance()
    room.groups.topic_deleted("t")
    room.clock.advance()
    assert offsets.read("g", "t", 0) is None
    assert offsets.read("g", "u", 0) == 7
