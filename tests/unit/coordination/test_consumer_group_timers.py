"""Groups of the newer protocol and time: sessions, revocations, offsets that end."""

import pytest

from headrace.coordination.groups.consumer.model import MemberState
from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.model.errors import ErrorCode
from tests.support.client.consumer_kit import Consumer, cluster, group_of, numbers, settle
from tests.support.coordination.groups_kit import Room, Settings

E = ErrorCode


def room(**settings: int) -> Room:
    return Room(Settings(**settings), image=cluster({"t": 4, "other": 3}))


def test_offsets_of_topics_read_by_expression_stay() -> None:
    place = room(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    one = Consumer(place, "a", topics=None, regex="o.*")
    one.beat()
    two = [OffsetToCommit("t", 0, 1), OffsetToCommit("other", 0, 2)]
    place.commit("a", one.epoch, two, version=9)
    found: list[object] = []
    place.groups.delete_offsets("g", [("other", 0)], lambda *got: found.append(got))
    assert found == [(E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC])]
    for _ in range(4):
        place.clock.advance(30)
        one.beat()
    assert (place.committed("t"), place.committed("other")) == (None, 2)


def test_an_expression_nobody_subscribes_by_any_more_keeps_no_offsets() -> None:
    place = room()
    one, two = Consumer(place, "a", topics=None, regex="o.*"), Consumer(place, "b")
    settle(one, two)
    one.leave()
    assert not group_of(place).subscribes("other")
    assert not group_of(place.restart()).subscribes("other")


def test_an_offset_an_open_transaction_may_change_does_not_end_in_a_live_group() -> None:
    place = room(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
    one = Consumer(place, "a")
    one.beat()
    place.commit("a", one.epoch, [OffsetToCommit("other", 0, 2)], version=9)
    pending = CommitRequest("g", -1, "", None, [OffsetToCommit("other", 0, 5)])
    place.groups.commit_in_transaction(pending, 77, 0, lambda _: None)
    for _ in range(4):
        place.clock.advance(30)
        one.beat()
    assert place.committed("other") == 2
    place.groups.end_transaction(0, 77, committed=False)
    place.clock.advance(2)
    assert place.committed("other") is None


def test_who_gives_nothing_up_is_out_in_time_after_a_kill_too() -> None:
    place = room()
    one, two = Consumer(place, "a", rebalance_ms=10_000), Consumer(place, "b")
    one.beat()
    two.beat()
    one.slow = True
    one.beat()
    later = place.restart()
    one.room = two.room = later
    for _ in range(4):
        assert one.beat().error is E.NONE
        two.beat()
        later.clock.advance(3)
    assert one.beat().error is E.UNKNOWN_MEMBER_ID
    settle(two)
    assert numbers(two) == {0, 1, 2, 3}


def test_who_gives_up_in_time_stays_in() -> None:
    place = room()
    one, two = Consumer(place, "a", rebalance_ms=10_000), Consumer(place, "b")
    one.beat()
    two.beat()
    settle(one, two)
    for _ in range(5):
        place.clock.advance(4)
        assert (one.beat().error, two.beat().error) == (E.NONE, E.NONE)


def test_each_revocation_has_a_whole_rebalance_timeout() -> None:
    place = room()
    one = Consumer(place, "a", rebalance_ms=10_000, topics=frozenset({"t", "other"}))
    one.beat()
    two = Consumer(place, "b")
    two.beat()
    one.slow = True
    one.beat()
    place.clock.advance(6)
    one.obey()
    one.beat()
    assert one.epoch == group_of(place).epoch
    one.beat(topics=frozenset({"t"}))  # told to give up the other topic
    assert group_of(place).members["a"].standing.state is MemberState.UNREVOKED_PARTITIONS
    place.clock.advance(6)
    assert one.beat().error is E.NONE, "the first revocation's time is not the second's"
    place.clock.advance(5)
    assert one.beat().error is E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("instance", [None, "i"])
def test_a_member_whose_leaving_the_log_refused_is_out_when_its_session_ends(
    instance: str | None,
) -> None:
    place = room()
    one, two = Consumer(place, "a", instance=instance), Consumer(place, "b")
    settle(one, two)
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    assert one.leave().error is E.COORDINATOR_NOT_AVAILABLE
    place.partition.refusal = None
    assert "a" in group_of(place).members
    place.clock.advance(40)
    two.beat()
    place.clock.advance(6)
    settle(two)
    assert numbers(two) == {0, 1, 2, 3}


def test_a_member_whose_end_the_log_refused_is_out_after_another_session() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    settle(one, two)
    place.clock.advance(40)
    two.beat()
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    place.clock.advance(6)
    place.partition.refusal = None
    assert "a" in group_of(place).members
    place.clock.advance(30)
    two.beat()
    place.clock.advance(16)
    settle(two)
    assert numbers(two) == {0, 1, 2, 3}
