"""Members of groups: joining, leaving, expiring, and who hears of it."""

from headrace.subscriptions.members import (
    HEARTBEAT_SECONDS_MAX,
    GroupMembers,
    GroupSubscription,
    TopicSubscription,
)


class Client:
    """A connection that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def members_changed(self, group: str) -> None:
        """Note the group."""
        self.told.append(group)


def subscribed(*topics: TopicSubscription, group: str = "g") -> list[GroupSubscription]:
    """Return the subscriptions of a heartbeat."""
    return [GroupSubscription(group, topics)]


ORDERS = TopicSubscription("orders", "*", "TAG", 1)


def joined(members: GroupMembers[Client], *clients: str) -> list[Client]:
    """Return the connections of clients that have joined group g, with nothing told."""
    connections = [Client() for _ in clients]
    for connection, client in zip(connections, clients, strict=True):
        members.heartbeat(connection, client, subscribed(ORDERS), 0.0)
    for connection in connections:
        connection.told.clear()
    return connections


def test_members_are_listed_in_one_order_for_all() -> None:
    members: GroupMembers[Client] = GroupMembers()
    joined(members, "c", "a", "b")
    assert members.client_ids("g") == ["a", "b", "c"]
    assert members.client_ids("other") == []


def test_each_member_hears_of_a_new_one_also_itself() -> None:
    members: GroupMembers[Client] = GroupMembers()
    (first,) = joined(members, "a")
    second = Client()
    assert members.heartbeat(second, "b", subscribed(ORDERS), 0.0)
    assert (first.told, second.told) == (["g"], ["g"])


def test_a_repeated_heartbeat_changes_nothing() -> None:
    members: GroupMembers[Client] = GroupMembers()
    (first,) = joined(members, "a")
    assert not members.heartbeat(first, "a", subscribed(ORDERS), 1.0)
    assert first.told == []


def test_members_of_other_groups_hear_nothing() -> None:
    members: GroupMembers[Client] = GroupMembers()
    (first,) = joined(members, "a")
    members.heartbeat(Client(), "b", subscribed(ORDERS, group="h"), 0.0)
    assert first.told == []
    assert len(members) == 2


def test_a_member_that_leaves_is_gone_and_the_others_hear_of_it() -> None:
    members: GroupMembers[Client] = GroupMembers()
    first, second = joined(members, "a", "b")
    members.leave(first, "other")
    members.leave(Client(), "g")
    assert members.client_ids("g") == ["a", "b"]
    members.leave(first, "g")
    assert members.client_ids("g") == ["b"]
    assert (first.told, second.told) == ([], ["g"])
    members.leave(first, "g")
    assert second.told == ["g"]


def test_a_closed_connection_leaves_all_its_groups() -> None:
    members: GroupMembers[Client] = GroupMembers()
    first, second = joined(members, "a", "b")
    members.heartbeat(first, "a", subscribed(ORDERS, group="h"), 0.0)
    members.closed(first)
    assert members.client_ids("g") == ["b"]
    assert members.client_ids("h") == []
    assert second.told == ["g"]
    assert len(members) == 1
    members.closed(second)
    members.closed(second)
    assert len(members) == 0


def test_a_client_that_reconnects_is_not_removed_by_its_old_connection() -> None:
    members: GroupMembers[Client] = GroupMembers()
    old, other = joined(members, "a", "b")
    new = Client()
    assert members.heartbeat(new, "a", subscribed(ORDERS), 0.0), "other members hear of it"
    members.closed(old)
    assert members.client_ids("g") == ["a", "b"]
    members.closed(new)
    assert members.client_ids("g") == ["b"]
    assert other.told == ["g", "g"]


def test_a_connection_may_report_members_of_several_groups() -> None:
    members: GroupMembers[Client] = GroupMembers()
    connection = Client()
    both = [*subscribed(ORDERS), *subscribed(ORDERS, group="h")]
    members.heartbeat(connection, "a", both, 0.0)
    members.leave(connection, "g")
    assert (members.client_ids("g"), members.client_ids("h")) == ([], ["a"])


def test_a_member_expires_without_heartbeats_and_no_sooner() -> None:
    members: GroupMembers[Client] = GroupMembers()
    first, second = joined(members, "a", "b")
    members.heartbeat(second, "b", subscribed(ORDERS), 1.0)
    members.expire(HEARTBEAT_SECONDS_MAX - 0.1)
    assert members.client_ids("g") == ["a", "b"]
    members.expire(HEARTBEAT_SECONDS_MAX)
    assert members.client_ids("g") == ["b"]
    assert (first.told, second.told) == ([], ["g"])
    members.expire(HEARTBEAT_SECONDS_MAX + 1.0)
    assert len(members) == 0
    assert not members.renew(second, 0.0)


def test_members_of_several_groups_expire_at_once() -> None:
    members: GroupMembers[Client] = GroupMembers()
    first, second = joined(members, "a", "b")
    members.heartbeat(second, "b", subscribed(ORDERS, group="h"), 0.0)
    members.heartbeat(first, "a", subscribed(ORDERS), 1.0)
    members.expire(HEARTBEAT_SECONDS_MAX)
    assert (members.client_ids("g"), members.client_ids("h")) == (["a"], [])
    assert first.told == ["g"]


def test_a_short_heartbeat_renews_all_memberships() -> None:
    members: GroupMembers[Client] = GroupMembers()
    (first,) = joined(members, "a")
    members.heartbeat(first, "a", subscribed(ORDERS, group="h"), 0.0)
    assert members.renew(first, 50.0)
    members.expire(HEARTBEAT_SECONDS_MAX + 49.0)
    assert len(members) == 2
    members.expire(HEARTBEAT_SECONDS_MAX + 50.0)
    assert len(members) == 0
    assert not members.renew(Client(), 0.0)


def test_a_newer_subscription_replaces_the_older_and_all_hear_of_it() -> None:
    members: GroupMembers[Client] = GroupMembers()
    first, second = joined(members, "a", "b")
    newer = ORDERS._replace(expression="A || B", version=2)
    assert members.heartbeat(first, "a", subscribed(newer), 1.0)
    assert members.subscription("g", "orders") == newer
    assert (first.told, second.told) == (["g"], ["g"])
    assert not members.heartbeat(second, "b", subscribed(ORDERS), 1.0), "the older one"
    assert members.subscription("g", "orders") == newer


def test_a_newer_version_of_an_equal_subscription_is_no_change() -> None:
    members: GroupMembers[Client] = GroupMembers()
    (first,) = joined(members, "a")
    newer = ORDERS._replace(version=9)
    assert not members.heartbeat(first, "a", subscribed(newer), 1.0)
    assert members.subscription("g", "orders") == newer


def test_a_topic_without_a_subscriber_is_forgotten() -> None:
    members: GroupMembers[Client] = GroupMembers()
    first, second = joined(members, "a", "b")
    other = TopicSubscription("other", version=1)
    assert members.heartbeat(first, "a", subscribed(ORDERS, other), 1.0)
    assert set(members.topics("g")) == {"orders", "other"}
    members.heartbeat(first, "a", subscribed(other), 2.0)
    assert set(members.topics("g")) == {"orders", "other"}, "b subscribes to it"
    members.leave(first, "g")
    assert set(members.topics("g")) == {"orders"}
    assert members.subscription("g", "other") is None
    assert members.subscription("none", "other") is None
    assert members.topics("none") == {}
    assert [member.client_id for member in members.members("g")] == ["b"]
    assert second.told


def test_a_topic_is_subscribed_since_its_first_heartbeat() -> None:
    members: GroupMembers[Client] = GroupMembers()
    (first,) = joined(members, "a")
    members.heartbeat(first, "a", subscribed(ORDERS), 9.0)
    assert members.subscribed_since("g", "orders") == 0.0
    assert members.subscribed_since("g", "other") is None
    assert members.subscribed_since("none", "orders") is None
    members.heartbeat(first, "a", subscribed(TopicSubscription("other")), 10.0)
    assert members.subscribed_since("g", "orders") is None
    assert members.subscribed_since("g", "other") == 10.0
    assert members.is_subscribed("other")
    assert not members.is_subscribed("orders")
