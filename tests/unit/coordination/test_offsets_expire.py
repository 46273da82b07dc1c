"""When committed offsets end, to the check: and what keeps them, or their group, longer."""

from typing import Any

import pytest

from headrace.coordination.groups.messages import CommitRequest, Leaver, OffsetToCommit
from headrace.model.errors import ErrorCode
from tests.support.client.consumer_kit import Consumer, cluster, group_of
from tests.support.coordination.groups_kit import RANGE, Room, Settings

TOPICS = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\xff\xff\xff\xff"
"""A consumer's subscription to topic t."""
OLD = [OffsetToCommit("old", 0, 7)]


def room() -> Room:
    """Offsets end after a minute; that is looked at every second."""
    return Room(Settings(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000))


def beats(place: Room, members: list[str], generation: int, seconds: int) -> None:
    """Let that much time pass in a group that stays as it is."""
    for _ in range(seconds // 5):
        place.clock.advance(5)
        for member in members:
            assert place.beat(member, generation) is ErrorCode.NONE


def test_an_offset_ends_with_the_check_at_which_its_time_is_reached() -> None:
    place = room()
    place.commit()
    place.commit(group="own", retention_ms=30_000, version=4)
    place.clock.advance(29.9)
    assert place.committed(group="own") == 7
    place.clock.advance(0.2)
    assert place.committed(group="own") is None
    place.clock.advance(29.8)
    assert place.committed() == 7
    place.clock.advance(0.2)
    assert place.committed() is None


def test_an_offset_that_was_to_be_kept_no_time_ends_with_the_next_check() -> None:
    place = room()
    place.commit(retention_ms=0, version=4)
    found = place.groups.offset("g", "t", 0)
    assert found is not None
    assert found.expires_ms == found.committed_ms == place.clock.wall_ms()
    place.clock.advance(1)
    assert place.committed() is None


def test_offsets_end_one_by_one_and_the_group_with_the_last() -> None:
    place = room()
    place.commit()
    place.clock.advance(30)
    place.commit(offsets=[OffsetToCommit("t", 1, 8)])
    place.clock.advance(30.5)
    assert (place.committed("t", 0), place.committed("t", 1)) == (None, 8)
    assert len(place.groups.list_groups()) == 1
    place.clock.advance(30)
    assert place.groups.list_groups() == []
    assert place.restart().groups.list_groups() == []


def test_the_time_of_a_groups_offsets_begins_when_its_last_member_leaves() -> None:
    place = room()
    (member,), generation = place.stable(protocols=(("range", TOPICS),))
    place.commit(member, generation)
    beats(place, [member], generation, 50)
    place.groups.leave("g", [Leaver(member)])
    place.clock.advance(59.5)
    assert place.committed() == 7
    place.clock.advance(1)
    assert place.committed() is None


def test_an_offset_committed_after_the_last_member_left_counts_from_its_commit() -> None:
    place = room()
    (member,), _ = place.stable(protocols=(("range", TOPICS),))
    place.groups.leave("g", [Leaver(member)])
    place.clock.advance(0.5)
    place.commit()
    place.clock.advance(59.5)
    assert place.committed() == 7
    place.clock.advance(2)
    assert place.committed() is None


def test_an_offset_with_an_expiry_of_its_own_stays_while_a_member_reads_its_topic() -> None:
    place = room()
    (member,), generation = place.stable(protocols=(("range", TOPICS),))
    place.commit(member, generation, retention_ms=10_000, version=4)
    place.commit(member, generation, OLD, retention_ms=10_000, version=4)
    beats(place, [member], generation, 20)
    assert (place.committed(), place.committed("old")) == (7, None)
    place.groups.leave("g", [Leaver(member)])
    place.clock.advance(2)
    assert place.committed() is None, "its own time ended before the member left"


def test_an_empty_consumer_group_keeps_no_offset_for_topics_that_it_read() -> None:
    place, one = newer()
    place.commit("a", one.epoch, version=9)
    one.leave()
    place.clock.advance(62)
    assert place.groups.list_groups() == []


@pytest.mark.parametrize("kind", ["consumer", "connect"])
def test_offsets_stay_while_a_member_may_read_any_topic(kind: str) -> None:
    place = room()
    (member,), generation = place.stable(kind=kind, protocols=RANGE)
    place.commit(member, generation, OLD)
    beats(place, [member], generation, 130)
    assert place.committed("old") == 7


def test_no_offset_ends_while_a_rebalance_is_prepared() -> None:
    place = room()
    asked: dict[str, Any] = {"protocols": (("range", TOPICS),), "rebalance_ms": 300_000}
    (leader, other), generation = place.stable(2, **asked)
    place.commit(leader, generation, OLD)
    place.join(leader, **asked)
    for _ in range(13):
        place.clock.advance(5)
        place.beat(other, generation)
    assert place.committed("old") == 7


def test_no_offset_ends_while_somebody_is_about_to_join() -> None:
    place = room()
    place.commit()
    place.clock.advance(55)
    place.join(session_ms=20_000)
    place.clock.advance(19)
    assert place.committed() == 7
    place.clock.advance(2.5)
    assert place.committed() is None


def test_a_group_stays_while_a_commit_to_it_is_on_its_way() -> None:
    place = room()
    place.commit()
    place.clock.advance(57)
    place.partition.hold = True
    codes = place.commit(offsets=[OffsetToCommit("t", 0, 9)])
    place.clock.advance(4)
    assert (codes, place.committed(), len(place.groups.list_groups())) == ([], 7, 1)
    place.partition.flush()
    assert (codes, place.committed()) == ([ErrorCode.NONE], 9)


def test_a_group_stays_while_an_open_transaction_has_offsets_of_it() -> None:
    place = room()
    codes: list[ErrorCode] = []
    pending = CommitRequest("g", -1, "", None, OLD)
    place.groups.commit_in_transaction(pending, 7, 0, codes.append)
    place.clock.advance(100)
    assert len(place.groups.list_groups()) == 1
    place.groups.end_transaction(0, 7, committed=True)
    assert place.committed("old") == 7
    place.clock.advance(2)
    assert place.groups.list_groups() == []


def test_an_empty_group_without_offsets_goes_with_the_next_check() -> None:
    place = room()
    (member,), _ = place.stable()
    place.groups.leave("g", [Leaver(member)])
    assert len(place.groups.list_groups()) == 1
    place.clock.advance(1)
    assert place.groups.list_groups() == []


def test_what_could_not_be_forgotten_is_found_again_by_the_next_check() -> None:
    place = room()
    place.commit()
    place.partition.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    place.clock.advance(61)
    assert place.committed() == 7
    place.partition.refusal = None
    place.clock.advance(1)
    assert place.committed() is None
    assert place.groups.list_groups() == []


def test_the_check_ends_with_the_leadership() -> None:
    place = room()
    place.commit()
    place.groups.close()
    appended = place.partition.log.end_offset
    place.clock.advance(100)
    assert place.partition.log.end_offset == appended
    assert place.clock.timers == 0


def test_a_topic_nobody_reads_any_more_is_counted_from_the_commit_whatever_the_group_did() -> None:
    place = room()
    asked: dict[str, Any] = {"protocols": (("range", TOPICS),)}
    (member,), generation = place.stable(**asked)
    place.commit(member, generation, OLD)
    beats(place, [member], generation, 40)
    place.join(member, **asked)
    place.clock.advance()
    place.sync(member, generation + 1, {member: b"M"})
    beats(place, [member], generation + 1, 15)
    assert place.committed("old") == 7
    beats(place, [member], generation + 1, 10)
    assert place.committed("old") is None
    assert member in place.group().members


def newer() -> tuple[Room, Consumer]:
    """A group with one member of the newer protocol, which reads t; an old client committed."""
    place = Room(
        Settings(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000),
        image=cluster({"t": 4, "old": 1}),
    )
    place.commit(offsets=[OffsetToCommit("old", 1, 1)], retention_ms=30_000, version=4)
    one = Consumer(place, "a")
    one.beat()
    return place, one


def test_a_newer_group_outlives_all_of_its_offsets_while_it_has_members() -> None:
    place, one = newer()
    place.commit("a", one.epoch, OLD, version=9)
    for second in range(61):
        place.clock.advance(1)
        assert one.beat().error is ErrorCode.NONE
        assert (place.committed("old", 1) is None) == (second >= 29)
        assert (place.committed("old") is None) == (second >= 59)
    assert list(group_of(place).members) == ["a"]


def test_a_newer_group_without_members_goes_with_its_last_offset() -> None:
    place, one = newer()
    place.commit("a", one.epoch, OLD, version=9)
    place.clock.advance(31)
    one.beat()
    place.commit("a", one.epoch, [OffsetToCommit("t", 0, 1)], version=9)
    one.leave()
    place.clock.advance(30)
    assert (place.committed("old"), place.committed("t")) == (None, 1)
    assert [listed.state for listed in place.groups.list_groups()] == ["Empty"]
    place.clock.advance(30)
    assert place.groups.list_groups() == []
    assert place.restart().groups.list_groups() == []


@pytest.mark.parametrize("way", ["commit", "transaction"])
def test_a_newer_group_stays_while_offsets_of_it_are_on_their_way(way: str) -> None:
    place, one = newer()
    pending = CommitRequest("g", -1, "", None, OLD)
    codes: list[ErrorCode] = []
    if way == "transaction":
        place.groups.commit_in_transaction(pending, 7, 0, codes.append)
        one.leave()
    else:
        one.leave()
        place.partition.hold = True
        codes = place.commit(offsets=OLD)
    place.clock.advance(3)
    assert len(place.groups.list_groups()) == 1
    place.partition.hold = False
    place.partition.flush()
    place.groups.end_transaction(0, 7, committed=True)
    assert place.committed("old") == 7


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_not_buried_while_a_commit_is_being_flushed(protocol: str) -> None:
    """Its only offset has ended, and the next one is on its way to the disk."""
    place = room()
    if protocol == "consumer":
        place.image = cluster({"t": 1})
        one = Consumer(place, "a")
        one.beat()
        one.leave()
    place.commit()
    place.clock.advance(59)
    place.partition.hold = True
    codes = place.commit(offsets=[OffsetToCommit("t", 0, 8)])
    place.clock.advance(3)  # with several checks
    assert codes == []
    place.partition.hold = False
    place.partition.flush()
    assert codes == [ErrorCode.NONE]
    for found in (place, place.restart()):
        assert found.committed() == 8
        assert len(found.groups.list_groups()) == 1
