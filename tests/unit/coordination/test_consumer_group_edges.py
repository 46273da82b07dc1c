"""Groups of the newer protocol: refusals by their rule, and times to the moment."""

from typing import Any

import pytest

from headrace.coordination.groups.consumer.messages import HeartbeatRequest
from headrace.coordination.groups.messages import CommitRequest, OffsetToCommit
from headrace.model.errors import ApiError, ErrorCode
from tests.support.client.consumer_kit import Consumer, ask, cluster, group_of, settle
from tests.support.coordination.groups_kit import Room, Settings

E = ErrorCode


def room(**settings: Any) -> Room:
    return Room(Settings(**settings), image=cluster({"t": 4, "other": 3}))


JOINING: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "epoch": 0,
    "rebalance_timeout_ms": 1,
    "topics": frozenset({"t"}),
    "owned": {},
}


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({}, E.NONE),
        ({"group_id": " "}, E.INVALID_REQUEST),
        ({"instance_id": ""}, E.INVALID_REQUEST),
        ({"rack_id": " "}, E.INVALID_REQUEST),
        ({"member_id": " "}, E.INVALID_REQUEST),
        ({"member_id": "", "needs_member_id": False}, E.NONE),
        ({"member_id": "", "needs_member_id": False, "epoch": 1}, E.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, E.INVALID_REQUEST),
        ({"rebalance_timeout_ms": 0}, E.NONE),
        ({"owned": None}, E.INVALID_REQUEST),
        ({"owned": {b"t" * 16: frozenset({0})}}, E.INVALID_REQUEST),
        ({"topics": None}, E.INVALID_REQUEST),
        ({"topics": None, "regex": "t"}, E.NONE),
        ({"topics": None, "regex": "("}, E.INVALID_REGULAR_EXPRESSION),
        ({"epoch": -2}, E.INVALID_REQUEST),
        ({"epoch": -3}, E.INVALID_REQUEST),
        ({"epoch": -1}, E.GROUP_ID_NOT_FOUND),
        ({"epoch": 1}, E.GROUP_ID_NOT_FOUND),
        ({"assignor": "range"}, E.NONE),
        ({"assignor": "best"}, E.UNSUPPORTED_ASSIGNOR),
    ],
)
def test_what_a_heartbeat_must_and_must_not_say(said: dict[str, Any], code: ErrorCode) -> None:
    (answer,) = ask(room(), HeartbeatRequest(**(JOINING | said)))
    assert answer.error is code


def test_a_session_ends_so_long_after_the_last_heartbeat() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    place.clock.advance(20)
    one.beat()
    place.clock.advance(44.99)
    assert list(group_of(place).members) == ["a"]
    place.clock.advance(0.02)
    assert not group_of(place).members


def test_a_groups_own_session_timeout_counts() -> None:
    place = room()
    place.group_settings["g"] = {"consumer.session.timeout.ms": "50000"}
    Consumer(place, "a").beat()
    place.clock.advance(49.99)
    assert list(group_of(place).members) == ["a"]
    place.clock.advance(0.02)
    assert not group_of(place).members


def test_what_is_to_be_given_up_is_waited_for_as_long_as_the_member_said() -> None:
    place = room()
    one, two = Consumer(place, "a", rebalance_ms=30_000), Consumer(place, "b")
    one.beat()
    two.beat()
    one.slow = True
    one.beat()
    for _ in range(3):
        place.clock.advance(9.99)
        assert one.beat().error is E.NONE
        two.beat()
    assert set(group_of(place).members) == {"a", "b"}
    place.clock.advance(0.04)
    assert set(group_of(place).members) == {"b"}


def test_who_gave_up_in_time_is_not_out_when_the_time_would_be_up() -> None:
    place = room()
    one, two = Consumer(place, "a", rebalance_ms=30_000), Consumer(place, "b")
    one.beat()
    two.beat()
    settle(one, two)
    for _ in range(4):
        place.clock.advance(10)
        assert (one.beat().error, two.beat().error) == (E.NONE, E.NONE)


def test_who_left_is_ended_by_no_timer_when_it_is_back() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    place.clock.advance(40)
    one.leave()
    one.beat()
    place.clock.advance(40)
    assert one.beat().error is E.NONE
    place.groups.close()
    assert place.clock.timers == 0


def commit(place: Room, member: str, epoch: int, topic: str = "t", **more: Any) -> ErrorCode:
    offsets = [OffsetToCommit(topic, more.pop("partition", 0), 1)]
    (code,) = place.commit(member, epoch, offsets, version=more.pop("version", 9))
    return code


def test_a_member_commits_with_its_present_epoch_or_with_one_it_had_the_partition_in() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    since = one.epoch
    two = Consumer(place, "b", topics=frozenset({"other"}))
    settle(one, two)
    assert one.epoch == since + 1
    for epoch in (since, since + 1):
        assert commit(place, "a", epoch) is E.NONE
    for epoch in (since - 1, since + 2):
        assert commit(place, "a", epoch) is E.STALE_MEMBER_EPOCH
    for topic, partition in (("other", 0), ("t", 9), ("nowhere", 0)):
        code = commit(place, "a", since, topic, partition=partition)
        assert code is E.STALE_MEMBER_EPOCH
    assert commit(place, "who", since) is E.UNKNOWN_MEMBER_ID
    assert commit(place, "", -1) is E.UNKNOWN_MEMBER_ID
    assert commit(place, "a", one.epoch, version=8) is E.UNSUPPORTED_VERSION


def test_what_is_being_given_up_may_be_committed_still() -> None:
    place = room()
    one, two = Consumer(place, "a"), Consumer(place, "b")
    one.beat()
    since = one.epoch
    two.beat()
    one.slow = True
    one.beat()
    pending = group_of(place).members["a"].standing.pending
    ((partition, *_),) = pending.values()
    assert commit(place, "a", since, partition=partition) is E.NONE


def in_transaction(place: Room, member: str, epoch: int, instance: str | None = None) -> ErrorCode:
    codes: list[ErrorCode] = []
    request = CommitRequest("g", epoch, member, instance, [OffsetToCommit("t", 0, 1)], version=3)
    place.groups.commit_in_transaction(request, 7, 0, codes.append)
    (code,) = codes
    return code


def test_a_producer_need_not_say_for_which_member_it_commits() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    assert in_transaction(place, "", -1) is E.NONE
    assert in_transaction(place, "a", one.epoch) is E.NONE
    assert in_transaction(place, "a", one.epoch + 1) is E.ILLEGAL_GENERATION
    assert in_transaction(place, "a", 0) is E.ILLEGAL_GENERATION
    assert in_transaction(place, "who", -1) is E.UNKNOWN_MEMBER_ID
    assert in_transaction(place, "", -1, "i") is E.UNKNOWN_MEMBER_ID
    one.leave()
    assert in_transaction(place, "who", -1) is E.NONE


@pytest.mark.parametrize(
    ("member", "more", "code"),
    [
        (None, None, E.NONE),
        ("a", 0, E.NONE),
        ("a", 1, E.STALE_MEMBER_EPOCH),
        ("a", -1, E.STALE_MEMBER_EPOCH),
        ("who", 0, E.UNKNOWN_MEMBER_ID),
        (None, 0, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_fetch_a_groups_offsets(
    member: str | None, more: int | None, code: ErrorCode
) -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    epoch = -1 if more is None else one.epoch + more
    if code is E.NONE:
        place.groups.check_fetch("g", member, epoch)
        return
    with pytest.raises(ApiError) as refused:
        place.groups.check_fetch("g", member, epoch)
    assert refused.value.code is code


def test_an_epoch_of_nothing_is_a_members_and_members_are_known() -> None:
    place = room()
    one = Consumer(place, "a")
    one.beat()
    one.leave()
    assert commit(place, "", -1) is E.NONE
    assert commit(place, "a", 0) is E.UNKNOWN_MEMBER_ID
    with pytest.raises(ApiError) as refused:
        place.groups.check_fetch("g", None, 0)
    assert refused.value.code is E.UNKNOWN_MEMBER_ID


def test_after_a_kill_a_group_is_what_it_was() -> None:
    place = room()
    one = Consumer(place, "a", instance="i")
    two = Consumer(place, "b", topics=None, regex="o.*")
    settle(one, two)
    three = Consumer(place, "c")
    one.slow = True
    three.beat()
    one.beat()
    before, after = group_of(place), group_of(place.restart())
    assert before.members["a"].standing.pending
    for name in (
        "members", "static_members", "target", "epoch", "target_epoch", "metadata_hash",
        "target_timestamp_ms", "regexes", "regex_members", "state",
    ):  # fmt: skip
        assert getattr(after, name) == getattr(before, name), name
