"""Connections of producers by group: any live one is asked, each in turn."""

from headrace.subscriptions.members import HEARTBEAT_SECONDS_MAX
from headrace.subscriptions.producers import ProducerGroups


def test_members_of_a_group_are_asked_in_turn() -> None:
    groups = ProducerGroups[str]()
    groups.heartbeat("one", ["g"], 0.0)
    groups.heartbeat("two", ["g", "h"], 0.0)
    assert [groups.any_member("g") for _ in range(4)] == ["one", "two", "one", "two"]
    assert groups.any_member("h") == "two"
    assert groups.any_member("i") is None


def test_a_connection_that_leaves_or_closes_is_not_asked() -> None:
    groups = ProducerGroups[str]()
    groups.heartbeat("one", ["g", "h"], 0.0)
    groups.heartbeat("two", ["g"], 0.0)
    groups.leave("one", "g")
    groups.leave("one", "never")
    assert [groups.any_member("g") for _ in range(2)] == ["two", "two"]
    assert groups.any_member("h") == "one"
    groups.closed("one")
    groups.closed("one")
    assert groups.any_member("h") is None
    groups.closed("two")
    assert len(groups) == 0


def test_a_connection_without_heartbeats_expires() -> None:
    groups = ProducerGroups[str]()
    groups.heartbeat("one", ["g"], 0.0)
    groups.heartbeat("two", ["g"], 5.0)
    groups.heartbeat("one", ["g"], 1.0)
    groups.expire(HEARTBEAT_SECONDS_MAX)
    assert {groups.any_member("g") for _ in range(2)} == {"one", "two"}
    groups.expire(1.0 + HEARTBEAT_SECONDS_MAX)
    assert {groups.any_member("g") for _ in range(2)} == {"two"}
    groups.expire(5.0 + HEARTBEAT_SECONDS_MAX)
    assert (groups.any_member("g"), len(groups)) == (None, 0)
