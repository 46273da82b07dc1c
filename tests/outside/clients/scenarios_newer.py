"""Scenarios of the newer group protocol (KIP-848), for the clients that have it."""

import uuid

from tests.outside.clients.clients.base import NEWER, Client, Member, Rec
from tests.outside.clients.scenarios import DAY, poll_until, read_by, scenario, some


def group_id() -> str:
    return f"g-{uuid.uuid4()}"


def shared(one: Member, other: Member) -> bool:
    ours, theirs = one.assigned(), other.assigned()
    return len(ours) == len(theirs) == 2 and ours | theirs == {0, 1, 2, 3}


@scenario(NEWER[0])
def rebalances(client: Client, topic: str) -> None:
    client.create_topic(topic, 4, {})
    group = group_id()
    first = client.member(topic, group, newer=True)
    poll_until([first], lambda: first.assigned() == {0, 1, 2, 3})
    second = client.member(topic, group, newer=True)
    poll_until([first, second], lambda: shared(first, second))
    assert group in client.groups()
    second.close()
    poll_until([first], lambda: first.assigned() == {0, 1, 2, 3})
    first.close()


@scenario(NEWER[1])
def expression(client: Client, topic: str) -> None:
    client.create_topic(f"{topic}-a", 1, {})
    client.produce(f"{topic}-a", [Rec(b"first", timestamp=DAY)])
    member = client.member(f"^{topic}-.*", group_id(), newer=True)
    assert [one.value for one in read_by(member, 1)] == [b"first"]
    client.create_topic(f"{topic}-b", 1, {})
    client.produce(f"{topic}-b", [Rec(b"second", timestamp=DAY)])
    assert [one.value for one in read_by(member, 1)] == [b"second"]
    member.close()


@scenario(NEWER[2])
def static(client: Client, topic: str) -> None:
    client.create_topic(topic, 4, {})
    group = group_id()
    first = client.member(topic, group, instance="one", newer=True)
    second = client.member(topic, group, instance="two", newer=True)
    poll_until([first, second], lambda: shared(first, second))
    held = second.assigned()
    second.close()
    again = client.member(topic, group, instance="two", newer=True)
    poll_until([first, again], lambda: again.assigned() == held)
    assert len(first.assigned()) == 2
    first.close()
    again.close()


@scenario(NEWER[3])
def commit(client: Client, topic: str) -> None:
    client.create_topic(topic, 1, {})
    client.produce(topic, some(100))
    group = group_id()
    member = client.member(topic, group, newer=True)
    assert len(read_by(member, 100)) == 100
    member.commit()
    member.close()
    assert client.committed(group, topic) == {0: 100}
    client.produce(topic, [Rec(b"after", timestamp=DAY)])
    member = client.member(topic, group, newer=True)
    assert [each.value for each in read_by(member, 1)] == [b"after"]
    member.close()


@scenario(NEWER[4])
def upgrade(client: Client, topic: str) -> None:
    client.create_topic(topic, 4, {})
    client.produce(topic, some(10))
    group = group_id()
    old = client.member(topic, group)
    assert len(read_by(old, 10)) == 10
    old.commit()
    new = client.member(topic, group, newer=True)
    poll_until([old, new], lambda: shared(old, new))
    old.close()
    poll_until([new], lambda: new.assigned() == {0, 1, 2, 3})
    client.produce(topic, [Rec(b"after", timestamp=DAY)])
    assert [each.value for each in read_by(new, 1)] == [b"after"], "offsets came along"
    new.close()


@scenario(NEWER[5])
def downgrade(client: Client, topic: str) -> None:
    client.create_topic(topic, 4, {})
    group = group_id()
    new = client.member(topic, group, newer=True)
    poll_until([new], lambda: new.assigned() == {0, 1, 2, 3})
    old = client.member(topic, group)
    poll_until([new, old], lambda: shared(new, old))
    new.close()
    poll_until([old], lambda: old.assigned() == {0, 1, 2, 3})
    old.close()
