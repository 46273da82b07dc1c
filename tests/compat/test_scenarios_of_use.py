"""What groups of consumers go through in life, with a stock client."""

import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

SECONDS_MAX = 20.0
SESSION_MS = 6000
"""The shortest a broker grants by default."""


@pytest.fixture
def name() -> str:
    """Of a topic or group nobody else uses."""
    return f"use-{uuid.uuid4().hex[:12]}"


def create(bootstrap: str, partitions: int, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(one, partitions, 1) for one in topics]).values():
        future.result(SECONDS_MAX)


def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS_MAX) == 0


@contextmanager
def member(bootstrap: str, group: str, *topics: str, **settings: Any) -> Iterator[Consumer]:
    """A member of a group, its offsets committed by hand."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    base: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
    }
    base |= {"enable.auto.commit": False, "session.timeout.ms": SESSION_MS}
    with closing(Consumer(base | {"heartbeat.interval.ms": 200} | given)) as one:
        one.subscribe(list(topics))
        yield one


def read(consumer: Consumer, count: int) -> list[bytes]:
    """The values of the next `count` records."""
    values: list[bytes] = []
    end = time.monotonic() + SECONDS_MAX
    while len(values) < count and time.monotonic() < end:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            values.append(value)
    assert len(values) == count
    return values


def settle(members: list[Consumer], done: Callable[[list[int]], bool]) -> list[int]:
    """Poll all until their numbers of partitions are as wanted; returns these."""
    end = time.monotonic() + SECONDS_MAX
    counts: list[int] = []
    while time.monotonic() < end:
        for one in members:
            one.poll(0.05)
        counts = [len(one.assignment()) for one in members]
        if done(counts):
            return counts
    raise AssertionError(f"the group does not settle: {counts}")


def test_processing_longer_than_max_poll_interval_loses_the_partitions_to_another(
    bootstrap: str, name: str
) -> None:
    create(bootstrap, 1, name)
    produce(bootstrap, name, [b"slow", b"next"])
    with ExitStack() as stack:
        slow = stack.enter_context(member(bootstrap, name, name, max_poll_interval_ms=SESSION_MS))
        assert read(slow, 1) == [b"slow"]
        other = stack.enter_context(member(bootstrap, name, name))
        # `slow` works on its record and does not poll; nothing is committed: all is read again.
        assert read(other, 2) == [b"slow", b"next"]
        left = slow.poll(SECONDS_MAX)
        assert left is not None
        error = left.error()
        assert error is not None
        assert error.code() == KafkaError._MAX_POLL_EXCEEDED


DIES = """
import sys, time
from confluent_kafka import Consumer
bootstrap, name, session_ms = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "session.timeout.ms":
    session_ms, "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer.subscribe([name])
values, end = [], time.monotonic() + 20
while len(values) < 4:
    assert time.monotonic() < end, values
    message = consumer.poll(1)
    if message is not None and message.error() is None:
        values.append(message.value())
        if len(values) == 2:
            consumer.commit(message, asynchronous=False)
print("processed", flush=True)
sys.stdin.read()
"""


def test_a_member_dies_before_its_commit_and_another_rereads(bootstrap: str, name: str) -> None:
    create(bootstrap, 1, name)
    produce(bootstrap, name, [b"%d" % n for n in range(6)])
    command = [sys.executable, "-c", DIES, bootstrap, name, str(SESSION_MS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as dies:
        try:
            assert dies.stdout is not None
            assert dies.stdout.readline() == b"processed\n"
        finally:
            dies.kill()  # it says no goodbye: its session has to run out
    with member(bootstrap, name, name) as another:
        assert read(another, 4) == [b"2", b"3", b"4", b"5"]


def test_commit_before_processing_is_at_most_once_and_after_it_at_least_once(
    bootstrap: str, name: str
) -> None:
    create(bootstrap, 1, name)
    produce(bootstrap, name, [b"a", b"b", b"c"])
    processed: dict[str, list[bytes]] = {"before": [], "after": []}
    for order in processed:
        group = f"{name}-{order}"
        with member(bootstrap, group, name) as fails:
            (value,) = read(fails, 1)
            if order == "before":
                fails.commit(asynchronous=False)  # and fails before it has processed
            else:
                processed[order].append(value)  # and fails before it has committed
        with member(bootstrap, group, name) as takes_over:
            rest = 2 if order == "before" else 3
            processed[order] += read(takes_over, rest)
    assert Counter(processed["before"]) == Counter([b"b", b"c"]), "a is lost, nothing is doubled"
    assert Counter(processed["after"]) == Counter([b"a", b"a", b"b", b"c"]), "none lost, a doubled"


@pytest.mark.parametrize(("strategy", "shares"), [("range", [3, 6]), ("roundrobin", [4, 5])])
def test_three_topics_of_three_partitions_on_two_members(
    bootstrap: str, name: str, strategy: str, shares: list[int]
) -> None:
    """Range works per topic, so that one member has the larger part of each."""
    topics = [f"{name}-{n}" for n in range(3)]
    create(bootstrap, 3, *topics)
    with ExitStack() as stack:
        members = [
            stack.enter_context(
                member(bootstrap, name, *topics, partition_assignment_strategy=strategy)
            )
            for _ in range(2)
        ]
        settle(members, lambda counts: sorted(counts) == shares)
        held = [(each.topic, each.partition) for one in members for each in one.assignment()]
        assert sorted(held) == [(topic, n) for topic in topics for n in range(3)]


def test_a_surplus_consumer_idles_until_another_leaves(bootstrap: str, name: str) -> None:
    create(bootstrap, 2, name)
    with ExitStack() as stack:
        staying = [stack.enter_context(member(bootstrap, name, name)) for _ in range(2)]
        with member(bootstrap, name, name) as leaving:
            counts = settle([*staying, leaving], lambda counts: sorted(counts) == [0, 1, 1])
        idle = counts.index(0)
        if idle < 2:
            settle(staying, lambda counts: counts[idle] == 1)
        settle(staying, lambda counts: counts == [1, 1])
