"""Offsets of groups of the newer protocol: whose epoch commits and fetches them, and their end."""

import pytest

from headrace.coordination.groups.messages import OffsetToCommit
from headrace.model.errors import ApiError, ErrorCode
from tests.support.client.consumer_kit import Consumer, numbers, room, settle

E = ErrorCode


def test_offsets_are_committed_with_the_members_epoch() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    assert place.commit("a", one.epoch, version=9) == [E.NONE]
    assert place.committed() == 7
    assert place.commit("a", one.epoch + 1, version=9) == [E.STALE_MEMBER_EPOCH]
    assert place.commit("x", one.epoch, version=9) == [E.UNKNOWN_MEMBER_ID]
    assert place.commit("a", one.epoch, version=8) == [E.UNSUPPORTED_VERSION]
    assert place.commit(version=9) == [E.UNKNOWN_MEMBER_ID]


def test_an_older_epoch_commits_what_the_member_has_had_since_then() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    settle(one, two)
    assert one.epoch == 3
    kept = [OffsetToCommit("t", part, 5) for part in numbers(one)]
    lost = [OffsetToCommit("t", part, 5) for part in numbers(two)]
    assert place.commit("a", 2, kept, version=9) == [E.NONE]
    assert place.commit("a", 2, lost, version=9) == [E.STALE_MEMBER_EPOCH]


def test_an_older_epoch_does_not_commit_what_came_back_since() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    settle(one, two)
    kept, lost = numbers(one), numbers(two)
    two.leave()
    settle(one)
    assert numbers(one) == kept | lost
    again = [OffsetToCommit("t", part, 5) for part in lost]
    assert place.commit("a", 3, again, version=9) == [E.STALE_MEMBER_EPOCH]
    assert place.commit("a", 3, [OffsetToCommit("t", min(kept), 5)], version=9) == [E.NONE]


def test_offsets_are_fetched_with_the_members_epoch() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    place.groups.check_fetch("g", None, -1)
    place.groups.check_fetch("g", "a", one.epoch)
    for member, epoch, code in (
        ("a", 9, E.STALE_MEMBER_EPOCH),
        ("b", 1, E.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(ApiError) as error:
            place.groups.check_fetch("g", member, epoch)
        assert error.value.code is code


def test_offsets_nobody_subscribes_to_end_and_an_empty_group_with_them() -> None:
    place = room(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    one = Consumer(place, "a")
    one.beat()
    two = [OffsetToCommit("t", 0, 1), OffsetToCommit("other", 0, 2)]
    place.commit("a", one.epoch, two, version=9)
    for _ in range(4):
        place.clock.advance(30)
        one.beat()
    assert place.committed("t") == 1, "it is subscribed to"
    assert place.committed("other") is None
    one.leave()
    place.clock.advance(2)
    assert place.committed("t") is None
    assert "g" not in place.groups.shard("g").modern
    assert "g" not in place.restart().groups.shard("g").modern


def test_a_group_with_members_is_not_deleted_and_an_empty_one_is() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    codes: list[ErrorCode] = []
    place.groups.delete("g", codes.append)
    one.leave()
    place.groups.delete("g", codes.append)
    assert codes == [E.NON_EMPTY_GROUP, E.NONE]
    later = place.restart().groups.shard("g")
    assert not later.modern
    assert not later.groups


def test_offsets_of_a_topic_somebody_reads_are_not_deleted() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    place.commit("a", one.epoch, [OffsetToCommit("other", 0, 2)], version=9)
    found: list[object] = []
    place.groups.delete_offsets("g", [("t", 0), ("other", 0)], lambda *got: found.append(got))
    place.clock.advance()
    assert found == [(E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE])]
    assert place.committed("other") is None
