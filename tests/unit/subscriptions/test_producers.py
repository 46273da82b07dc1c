"""Connections of producers by group: any live one is asked, each in turn."""

from headrace.subscriptions.members import HEARTBEAT_SECONDS_MAX
from headrace.subscriptions.producers import ProducerGroups


def asked(groups: ProducerGroups[str], group: str, *may_not: str) -> str | None:
    """Return the connection that is asked for a group."""
    return groups.any_member(group, lambda connection: connection not in may_not)


def test_members_of_a_group_are_asked_in_turn() -> None:
    groups = ProducerGroups[str]()
    groups.heartbeat("one", ["g"], 0.0)
    groups.heartbeat("two", ["g", "h"], 0.0)
    assert [asked(groups, "g") for _ in range(4)] == ["one", "two", "one", "two"]
    assert asked(groups, "h") == "two"
    assert asked(groups, "i") is None


def test_a_connection_that_leaves_or_closes_is_not_asked() -> None:
    groups = ProducerGroups[str]()
    groups.heartbeat("one", ["g", "h"], 0.0)
    groups.heartbeat("two", ["g"], 0.0)
    groups.leave("one", "g")
    groups.leave("one", "never")
    assert [asked(groups, "g") for _ in range(2)] == ["two", "two"]
    assert asked(groups, "h") == "one"
    groups.closed("one")
    groups.closed("one")
    assert asked(groups, "h") is None
    groups.closed("two")
    assert len(groups) == 0


def test_connections_that_have_left_their_groups_are_forgotten() -> None:
    groups = ProducerGroups[str]()
    for number in range(100):
        groups.heartbeat(f"connection {number}", ["g", "h"], 0.0)
        for group in ("g", "h"):
            groups.leave(f"connection {number}", group)
    assert (len(groups), len(groups._groups_of)) == (0, 0)


def test_a_connection_without_heartbeats_expires() -> None:
    groups = ProducerGroups[str]()
    groups.heartbeat("one", ["g"], 0.0)
    groups.heartbeat("two", ["g"], 5.0)
    groups.heartbeat("one", ["g"], 1.0)
    groups.expire(HEARTBEAT_SECONDS_MAX)
    assert {asked(groups, "g") for _ in range(2)} == {"one", "two"}
    groups.expire(1.0 + HEARTBEAT_SECONDS_MAX)
    assert {asked(groups, "g") for _ in range(2)} == {"two"}
    groups.expire(5.0 + HEARTBEAT_SECONDS_MAX)
    assert (asked(groups, "g"), len(groups)) == (None, 0)


def test_a_connection_that_may_not_decide_is_not_asked() -> None:
    groups = ProducerGroups[str]()
    for connection in ("one", "two", "three"):
        groups.heartbeat(connection, ["g"], 0.0)
    assert [asked(groups, "g", "one") for _ in range(3)] == ["two", "three", "two"]
    assert asked(groups, "g", "one", "two", "three") is None
