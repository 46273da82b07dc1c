"""Migrations of groups (KIP-848) that the log refuses, and the timers of groups after others."""

from typing import Any

from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.consumer.group import ConsumerGroup
from headrace.coordination.groups.modern.timers import ASSIGN
from headrace.model.errors import ErrorCode
from tests.support.client.consumer_kit import Consumer, group_of
from tests.support.coordination.groups_kit import Room, Settings
from tests.unit.coordination.test_consumer_migration import (
    Classic,
    classic_group,
    given,
    room,
    subscription,
    together,
)

E = ErrorCode


def mixed() -> tuple[Room, list[Classic], Consumer]:
    """A consumer group with two classic members and one of the newer protocol, settled."""
    place = room()
    classic = classic_group(place)
    newer = Consumer(place, "new")
    newer.beat()
    together([newer], classic)
    return place, classic, newer


def test_a_downgrade_that_the_log_refuses_has_not_happened() -> None:
    place, classic, newer = mixed()
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    assert newer.leave().error is E.COORDINATOR_NOT_AVAILABLE
    shard = place.groups.shard("g")
    assert "g" not in shard.groups
    assert set(group_of(place).members) == {"new", *(member.member_id for member in classic)}
    place.partition.refusal = None
    assert [member.beat() for member in classic] == [E.NONE, E.NONE]
    assert newer.leave().error is E.NONE
    assert "g" not in shard.modern
    assert place.group().state is GroupState.PREPARING_REBALANCE


def test_members_of_a_refused_downgrade_are_fenced_when_their_sessions_end() -> None:
    place, classic, newer = mixed()
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    newer.leave()
    place.partition.refusal = None
    for _ in range(5):
        place.clock.advance(10)
        assert classic[0].beat() is not E.UNKNOWN_MEMBER_ID
    assert set(place.group().members) == {member.member_id for member in classic}


def test_silent_members_of_a_downgraded_group_expire() -> None:
    place, _, newer = mixed()
    newer.leave()
    place.clock.advance(61)
    assert (place.group().state, place.group().members) == (GroupState.EMPTY, {})


def test_silent_members_of_an_upgraded_group_expire() -> None:
    place = room()
    classic = classic_group(place)
    newer = Consumer(place, "new")
    newer.beat()
    for _ in range(7):
        place.clock.advance(10)
        newer.beat()
    assert list(group_of(place).members) == ["new"]
    assert classic[0].beat() is E.UNKNOWN_MEMBER_ID


def test_an_upgrade_that_the_log_refuses_leaves_members_and_sessions() -> None:
    place = room()
    classic = classic_group(place)
    place.partition.refusal = E.NOT_ENOUGH_REPLICAS
    assert Consumer(place, "new").beat().error is E.COORDINATOR_NOT_AVAILABLE
    place.partition.refusal = None
    assert "g" not in place.groups.shard("g").modern
    for _ in range(2):
        place.clock.advance(15)
        assert classic[0].beat() in (E.NONE, E.REBALANCE_IN_PROGRESS)
    assert list(place.group().members) == [classic[0].member_id], "the other was silent"


def test_a_group_is_downgraded_where_the_policy_became_downgrade() -> None:
    place, classic, newer = mixed()
    place.settings = Settings(group_consumer_migration_policy="downgrade")
    assert newer.leave().error is E.NONE
    assert set(place.group().members) == {member.member_id for member in classic}


def test_a_group_stays_a_consumer_group_where_the_policy_became_disabled() -> None:
    place, _, newer = mixed()
    place.settings = Settings(group_consumer_migration_policy="disabled")
    assert newer.leave().error is E.NONE
    assert "g" in place.groups.shard("g").modern


def test_a_member_that_is_silent_after_a_downgrade_expires_before_the_rebalance_ends() -> None:
    place = room()
    asked: dict[str, Any] = {
        "protocols": (("range", subscription("t")),), "session_ms": 10_000, "rebalance_ms": 300_000,
    }  # fmt: skip
    member, joining = place.new_member(**asked)
    place.clock.advance()
    place.sync(member, joining[0].generation, {member: given(0, 1, 2, 3)})
    newer = Consumer(place, "new")
    newer.beat()
    newer.leave()
    assert list(place.group().members) == [member]
    place.clock.advance(11)
    assert (place.group().state, place.group().members) == (GroupState.EMPTY, {})


def waiting_for_an_assignment() -> tuple[Room, ConsumerGroup]:
    """A consumer group without members whose next target assignment is due later."""
    place = room(group_consumer_assignment_interval_ms=60_000)
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    two.beat()
    group = group_of(place)
    assert group.timers.is_armed(ASSIGN)
    one.leave()
    two.leave()
    return place, group


def test_a_deleted_group_has_no_timers() -> None:
    place, group = waiting_for_an_assignment()
    place.groups.delete("g", lambda _: None)
    assert not group.timers._deadlines


def test_a_group_that_a_classic_one_replaces_has_no_timers() -> None:
    place, group = waiting_for_an_assignment()
    place.join()
    assert not group.timers._deadlines


def test_a_downgraded_group_has_no_timers() -> None:
    place, _, newer = mixed()
    group = group_of(place)
    newer.leave()
    assert not group.timers._deadlines


def test_a_group_of_another_coordinator_has_no_timers() -> None:
    place, _, _ = mixed()
    group = group_of(place)
    place.groups.close()
    assert not group.timers._deadlines
