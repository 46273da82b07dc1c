"""Offsets of groups on a real coordinator: kept for years, also by Kafka's clock of expiry."""

from headrace.coordination.groups.messages import OffsetToCommit
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


def test_commits_of_other_protocols_are_refused_and_own_ones_are_not() -> None:
    room = Room()
    room.groups.elsewhere = {"g": "RocketMQ"}.get
    assert room.commit() == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    offsets = GroupOffsets(lambda: OwnCommits(room.groups), room.clock)
    answered: list[ErrorCode] = []
    offsets.store("g", "t", 0, 7, answered.append)
    room.clock.advance()
    assert answered == [ErrorCode.NONE]
    assert room.groups.offset("g", "t", 0) is not None
