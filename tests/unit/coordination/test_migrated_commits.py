"""Offset commits in flight while their group changes its protocol (KIP-848), in both directions.

In Kafka offsets belong to the group id: a migration neither moves nor completes commits.
"""

from collections.abc import Callable

import pytest

from headrace.coordination.groups.messages import CommitRequest, Leaver, OffsetToCommit
from headrace.model.errors import ErrorCode
from tests.support.client.consumer_kit import Consumer, group_of
from tests.support.coordination.groups_kit import Room
from tests.unit.coordination.test_consumer_migration import (
    Classic,
    classic_group,
    room,
    together,
)

E = ErrorCode
DAY = 24 * 3600
Migrated = tuple[Room, list[ErrorCode]]
"""A room whose group has changed its protocol, and the responses to the commit of offset 7."""


def upgraded(end: str) -> Migrated:
    """A classic group with a commit in flight is upgraded, and then loses its members."""
    place = room()
    classic = classic_group(place)
    place.partition.hold = True
    codes = place.commit(classic[0].member_id, classic[0].generation)
    newer = Consumer(place, "new")
    newer.send()
    ended(place, end)
    assert "g" in place.groups.shard("g").modern
    place.groups.leave("g", [Leaver(member.member_id) for member in classic])
    place.groups.leave("g", [Leaver("new")])
    return place, codes


def downgraded(end: str) -> Migrated:
    """A consumer group with a commit in flight is downgraded, and then loses its members."""
    place = room()
    classic = classic_group(place)
    newer = Consumer(place, "new")
    newer.beat()
    together([newer], classic)
    place.partition.hold = True
    codes = place.commit(newer.member_id, newer.epoch, version=9)
    place.groups.leave("g", [Leaver("new")])
    ended(place, end)
    assert "g" in place.groups.shard("g").groups
    place.groups.leave("g", [Leaver(member.member_id) for member in classic])
    return place, codes


def ended(place: Room, end: str) -> None:
    """The commit in flight is committed, or the log refuses it."""
    place.partition.hold = False
    if end == "committed":
        place.partition.flush()
    else:
        place.partition.fail(E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


both_directions = pytest.mark.parametrize("migrated", [upgraded, downgraded])


@both_directions
def test_a_commit_in_flight_is_visible_after_the_migration_and_a_restart(
    migrated: Callable[[str], Migrated],
) -> None:
    place, codes = migrated("committed")
    assert codes == [E.NONE]
    assert (place.committed(), place.restart().committed()) == (7, 7)


@both_directions
def test_a_commit_that_fails_after_the_migration_changes_no_offset(
    migrated: Callable[[str], Migrated],
) -> None:
    place, codes = migrated("failed")
    assert codes == [E.COORDINATOR_NOT_AVAILABLE]
    assert place.committed() is None


@pytest.mark.parametrize("end", ["committed", "failed"])
@both_directions
def test_a_group_migrated_during_a_commit_can_be_deleted(
    migrated: Callable[[str], Migrated], end: str
) -> None:
    place, _ = migrated(end)
    codes: list[ErrorCode] = []
    place.groups.delete("g", codes.append)
    assert codes == [E.NONE]
    assert place.committed() is None
    assert place.groups.list_groups() == []
    if end == "committed":
        assert place.restart().groups.list_groups() == []


@pytest.mark.parametrize("end", ["committed", "failed"])
@both_directions
def test_offsets_of_a_group_migrated_during_a_commit_can_be_deleted(
    migrated: Callable[[str], Migrated], end: str
) -> None:
    place, _ = migrated(end)
    got: list[tuple[ErrorCode, list[ErrorCode]]] = []
    place.groups.delete_offsets("g", [("t", 0)], lambda *answer: got.append(answer))
    place.clock.advance()
    assert got == [(E.NONE, [E.NONE])]
    assert place.committed() is None


@both_directions
def test_a_group_migrated_during_a_commit_expires(migrated: Callable[[str], Migrated]) -> None:
    place, _ = migrated("committed")
    place.clock.advance(8 * DAY)
    assert place.committed() is None
    assert place.groups.list_groups() == []


def test_a_deletion_waits_for_a_commit_that_an_upgraded_group_had_in_flight() -> None:
    place = room()
    place.partition.hold = True
    committing = place.commit()
    newer = Consumer(place, "new")
    newer.send()
    place.groups.leave("g", [Leaver("new")])
    codes: list[ErrorCode] = []
    place.groups.delete("g", codes.append)
    place.partition.hold = False
    place.partition.flush()
    assert (committing, codes) == ([E.NONE], [E.NONE])
    assert place.committed() is None
    assert place.restart().committed() is None


def test_a_commit_in_flight_of_an_empty_consumer_group_outlives_no_deletion() -> None:
    place = room()
    newer = Consumer(place, "new")
    newer.beat()
    newer.leave()
    place.partition.hold = True
    committing = place.commit(version=9)
    joining = place.join()
    codes: list[ErrorCode] = []
    place.groups.delete("g", codes.append)
    place.partition.hold = False
    place.partition.flush()
    assert committing == [E.NONE]
    assert joining[0].error is E.MEMBER_ID_REQUIRED
    assert codes == [E.NONE]
    assert place.committed() is None


def test_an_upgrade_that_the_log_refuses_leaves_the_commit_in_flight_to_its_group() -> None:
    place = room()
    (member,) = classic_group(place, members=1)
    place.partition.hold = True
    codes = place.commit(member.member_id, member.generation)
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    assert Consumer(place, "new").beat().error is E.COORDINATOR_NOT_AVAILABLE
    place.partition.refusal = None
    place.groups.leave("g", [Leaver(member.member_id)])
    deleting: list[ErrorCode] = []
    place.groups.delete("g", deleting.append)
    assert (codes, deleting) == ([], [])
    place.partition.hold = False
    place.partition.flush()
    assert (codes, deleting) == ([E.NONE], [E.NONE])
    assert place.committed() is None


def test_a_transactions_offsets_in_flight_belong_to_the_migrated_group() -> None:
    place = room()
    (member,) = classic_group(place, members=1)
    place.partition.hold = True
    codes: list[ErrorCode] = []
    offsets = [OffsetToCommit("t", 0, 9)]
    request = CommitRequest("g", member.generation, member.member_id, None, offsets, version=3)
    place.groups.commit_in_transaction(request, 7, 3, codes.append)
    newer = Consumer(place, "new")
    newer.send()
    ended(place, "committed")
    assert codes == [E.NONE]
    place.groups.end_transaction(0, 7, committed=True)
    assert place.committed() == 9
    place.groups.leave("g", [Leaver("new"), Leaver(member.member_id)])
    deleting: list[ErrorCode] = []
    place.groups.delete("g", deleting.append)
    assert deleting == [E.NONE]


def test_deletion_waits_for_commits_queued_after_it_in_the_same_turn() -> None:
    place = room()
    codes: list[ErrorCode] = []
    first = place.commit(turn=False)
    place.groups.delete("g", codes.append)
    second = place.commit(offsets=[OffsetToCommit("t", 1, 8)], turn=False)
    place.clock.advance()
    assert (first, codes, second) == ([E.NONE], [E.NONE], [E.NONE])
    assert (place.committed(), place.committed("t", 1)) == (None, None)
    assert place.groups.list_groups() == []
    assert place.restart().groups.list_groups() == []


def test_deletion_waits_for_each_of_several_commits_in_flight() -> None:
    place = room()
    place.partition.hold = True
    first = place.commit()
    second = place.commit(offsets=[OffsetToCommit("t", 1, 8)])
    codes: list[ErrorCode] = []
    place.groups.delete("g", codes.append)
    place.partition.flush_first()
    assert (first, second, codes) == ([E.NONE], [], [])
    assert (place.committed(), place.committed("t", 1)) == (7, None)
    place.partition.hold = False
    place.partition.flush()
    assert (second, codes) == ([E.NONE], [E.NONE])
    assert (place.committed(), place.committed("t", 1)) == (None, None)


def test_a_deletion_that_waited_deletes_no_group_created_after_it() -> None:
    place = room()
    codes: list[ErrorCode] = []
    place.commit(turn=False)
    place.groups.delete("g", codes.append)
    place.clock.advance()
    assert codes == [E.NONE]
    assert place.commit() == [E.NONE]
    assert (codes, place.committed()) == ([E.NONE], 7)


def test_a_deletion_that_waits_for_commits_ends_with_the_coordinator() -> None:
    place = room()
    codes: list[ErrorCode] = []
    first = place.commit(turn=False)
    place.groups.delete("g", codes.append)
    second = place.commit(turn=False)
    place.groups.close()
    assert [first, codes, second] == [[E.NOT_COORDINATOR]] * 3


# --- an empty consumer group that gives way to a classic member ----------------------------------


def emptied(place: Room) -> None:
    """A consumer group that was upgraded from a classic one, with an offset and no members."""
    place.commit()
    newer = Consumer(place, "new")
    newer.beat()
    newer.leave()


def test_offsets_of_a_replaced_empty_group_have_a_group_after_a_crash() -> None:
    place = room()
    emptied(place)
    place.partition.hold = True
    place.join()
    place.partition.committed = place.partition.log.end_offset
    again = place.restart()
    assert again.committed() == 7
    assert [group.group_id for group in again.groups.list_groups()] == ["g"]


def test_a_consumer_that_joins_while_a_classic_member_replaces_the_group_shares_it() -> None:
    place = room()
    emptied(place)
    place.partition.hold = True
    old = Classic(place)
    joining = place.join(protocols=old.protocols)
    newer = Consumer(place, "newer")
    newer.send()
    place.partition.hold = False
    place.partition.flush()
    newer.hear()
    assert joining[0].error is E.MEMBER_ID_REQUIRED
    shard = place.groups.shard("g")
    assert ("g" in shard.groups, "g" in shard.modern) == (False, True)
    assert list(group_of(place).members) == ["newer"]
    old.member_id = joining[0].member_id
    assert old.join() is E.NONE
    together([newer], [old])
    assert (newer.count, len(old.parts)) == (2, 2)


def test_offsets_of_a_replaced_empty_group_expire_from_their_commits() -> None:
    place = room(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    emptied(place)
    place.clock.advance(50)
    assert place.join()[0].error is E.MEMBER_ID_REQUIRED
    place.clock.advance(12)
    assert place.committed() is None
    assert place.groups.list_groups() == []


def test_an_empty_group_stays_a_consumer_group_if_the_log_refuses_its_replacement() -> None:
    place = room()
    emptied(place)
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    (answer,) = place.join()
    assert answer.error is E.COORDINATOR_NOT_AVAILABLE
    shard = place.groups.shard("g")
    assert ("g" in shard.groups, "g" in shard.modern) == (False, True)
    place.partition.refusal = None
    assert Consumer(place, "a").beat().error is E.NONE
