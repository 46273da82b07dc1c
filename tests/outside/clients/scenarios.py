"""What every client must be able to do, one function a scenario, named as it is printed.

A scenario gets a client, a topic name of its own and nothing else; it knows nothing of the broker.
"""

import time
import uuid
from collections.abc import Callable

from tests.outside.clients.clients.base import Client, Member, Rec

Scenario = Callable[[Client, str], None]
SCENARIOS: dict[str, Scenario] = {}
DAY = 1_790_000_000_000


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def enter(function: Scenario) -> Scenario:
        SCENARIOS[name] = function
        return function

    return enter


def round_trip(client: Client, topic: str, records: list[Rec], codec: str = "none") -> None:
    """Produce, read back, compare all a client sees."""
    client.create_topic(topic, 1, {})
    offsets = client.produce(topic, records, codec=codec)
    assert offsets == list(range(len(records)))
    found = client.consume(topic, len(records))
    assert found == records
    assert [each.offset for each in found] == offsets


def some(count: int, size: int = 100) -> list[Rec]:
    return [
        Rec(value=bytes([n % 251]) * size, key=b"key-%d" % (n % 7), timestamp=DAY + n)
        for n in range(count)
    ]


def codec_scenario(codec: str) -> None:
    @scenario(f"codec {codec}")
    def run(client: Client, topic: str) -> None:
        round_trip(client, topic, some(500), codec)


for _codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    codec_scenario(_codec)


@scenario("acks 0, 1, all")
def acks(client: Client, topic: str) -> None:
    client.create_topic(topic, 1, {})
    client.produce(topic, [Rec(b"zero", timestamp=DAY)], acks="0")
    client.produce(topic, [Rec(b"one", timestamp=DAY)], acks="1")
    client.produce(topic, [Rec(b"all", timestamp=DAY)], acks="all")
    assert {each.value for each in client.consume(topic, 3)} == {b"zero", b"one", b"all"}


@scenario("idempotent producer")
def idempotent(client: Client, topic: str) -> None:
    client.create_topic(topic, 1, {})
    records = some(300)
    assert client.produce(topic, records, idempotent=True) == list(range(300))
    assert client.consume(topic, 300) == records


@scenario("headers and nulls")
def headers(client: Client, topic: str) -> None:
    records = [
        Rec(b"v", b"k", (("a", b"1"), ("a", b"2"), ("empty", b"")), DAY),
        Rec(b"v", None, (("größe", "✓".encode()),), DAY),
        Rec(None, b"tombstone", (), DAY),
        Rec(b"", b"", (), DAY),
    ]
    round_trip(client, topic, records)


@scenario("large messages")
def large(client: Client, topic: str) -> None:
    round_trip(client, topic, [Rec(bytes([n]) * 900_000, None, (), DAY) for n in range(5)])


@scenario("created by first use")
def auto_create(client: Client, topic: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            client.produce(topic, [Rec(b"first", timestamp=DAY)])
            break
        except Exception:
            if time.monotonic() > deadline:
                raise
    assert client.consume(topic, 1)[0].value == b"first"


@scenario("seek, watermarks, times")
def positions(client: Client, topic: str) -> None:
    client.create_topic(topic, 1, {})
    client.produce(topic, some(1000))
    assert client.watermarks(topic) == (0, 1000)
    assert client.consume(topic, 10, offset=777)[0].offset == 777
    assert client.offset_for_time(topic, DAY + 640) == 640
    assert client.offset_for_time(topic, DAY + 5000) is None
    assert len(client.consume(topic, 1000, committed=True)) == 1000


@scenario("topic administration")
def topics(client: Client, topic: str) -> None:
    client.create_topic(topic, 3, {"retention.ms": "12345678"})
    assert topic in client.topics()
    assert client.partitions(topic) == 3
    assert client.topic_config(topic)["retention.ms"] == "12345678"
    client.set_topic_config(topic, "retention.ms", "7654321")
    assert eventually(lambda: client.topic_config(topic)["retention.ms"] == "7654321")
    client.add_partitions(topic, 5)
    assert eventually(lambda: client.partitions(topic) == 5)
    client.produce(topic, [Rec(b"five", timestamp=DAY)], partition=4)
    client.delete_topic(topic)
    assert eventually(lambda: topic not in client.topics())


def eventually(holds: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def poll_until(
    members: list[Member], done: Callable[[], bool], seconds: float = 40, poll: float = 0.1
) -> list[Rec]:
    """Poll all members in turn, `poll` seconds each, until `done`; what came is returned."""
    found: list[Rec] = []
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, [sorted(each.assigned()) for each in members]
        for member in members:
            found += member.poll(poll)
    return found


def read_by(member: Member, count: int) -> list[Rec]:
    found: list[Rec] = []
    deadline = time.monotonic() + 40
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        found += member.poll(0.2)
    return found


@scenario("group rebalances")
def rebalances(client: Client, topic: str) -> None:
    client.create_topic(topic, 4, {})
    group = f"g-{uuid.uuid4()}"
    first = client.member(topic, group)
    poll_until([first], lambda: first.assigned() == {0, 1, 2, 3})
    second = client.member(topic, group)
    both: list[Member] = [first, second]

    def shared() -> bool:
        ours, theirs = first.assigned(), second.assigned()
        return len(ours) == len(theirs) == 2 and ours | theirs == {0, 1, 2, 3}

    poll_until(both, shared)
    assert client.group_members(group) == 2
    assert group in client.groups()
    second.close()
    poll_until([first], lambda: first.assigned() == {0, 1, 2, 3})
    first.close()


@scenario("cooperative rebalance")
def cooperative(client: Client, topic: str) -> None:
    client.create_topic(topic, 4, {})
    group = f"g-{uuid.uuid4()}"
    first = client.member(topic, group, cooperative=True)
    poll_until([first], lambda: first.assigned() == {0, 1, 2, 3})
    second = client.member(topic, group, cooperative=True)
    both: list[Member] = [first, second]
    poll_until(both, lambda: len(first.assigned()) == len(second.assigned()) == 2)
    assert first.assigned() | second.assigned() == {0, 1, 2, 3}
    first.close()
    poll_until([second], lambda: second.assigned() == {0, 1, 2, 3})
    second.close()


@scenario("static member returns")
def static(client: Client, topic: str) -> None:
    client.create_topic(topic, 4, {})
    group = f"g-{uuid.uuid4()}"
    first = client.member(topic, group, instance="one", session_ms=30_000)
    poll_until([first], lambda: first.assigned() == {0, 1, 2, 3})
    second = client.member(topic, group, instance="two", session_ms=30_000)
    both: list[Member] = [first, second]
    poll_until(both, lambda: len(first.assigned()) == len(second.assigned()) == 2)
    held = second.assigned()
    second.close()
    again = client.member(topic, group, instance="two", session_ms=30_000)
    poll_until([first, again], lambda: again.assigned() == held)
    assert len(first.assigned()) == 2
    first.close()
    again.close()


@scenario("commit and resume")
def commit(client: Client, topic: str) -> None:
    client.create_topic(topic, 1, {})
    client.produce(topic, some(100))
    group = f"g-{uuid.uuid4()}"
    member = client.member(topic, group)
    assert len(read_by(member, 100)) == 100
    member.commit()
    member.close()
    assert client.committed(group, topic) == {0: 100}
    client.produce(topic, [Rec(b"after", timestamp=DAY)])
    member = client.member(topic, group)
    assert [each.value for each in read_by(member, 1)] == [b"after"]
    member.close()


@scenario("delete group")
def delete_group(client: Client, topic: str) -> None:
    client.create_topic(topic, 1, {})
    client.produce(topic, some(10))
    group = f"g-{uuid.uuid4()}"
    member = client.member(topic, group)
    read_by(member, 10)
    member.commit()
    member.close()
    assert eventually(lambda: client.group_members(group) == 0)
    client.delete_group(group)
    assert group not in client.groups()


@scenario("keyed spread and order")
def keyed(client: Client, topic: str) -> None:
    client.create_topic(topic, 3, {})
    records = [Rec(b"%d" % n, b"key-%d" % (n % 20), (), DAY) for n in range(400)]
    client.produce(topic, records, partition=None)
    member = client.member(topic, f"g-{uuid.uuid4()}")
    everything = read_by(member, 400)
    member.close()
    assert len(everything) == 400
    where: dict[bytes | None, set[int]] = {}
    order: dict[bytes | None, list[int]] = {}
    for each in everything:
        where.setdefault(each.key, set()).add(each.partition)
        order.setdefault(each.key, []).append(int(each.value or b"0"))
    assert all(len(partitions) == 1 for partitions in where.values())
    assert all(numbers == sorted(numbers) for numbers in order.values())
