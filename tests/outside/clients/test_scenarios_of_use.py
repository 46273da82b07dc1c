"""What groups of consumers go through in life, with every stock Python client."""

import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.errors import CommitFailedError

from tests.outside.clients.clients.readers import READERS, ConfluentReader, Reader, with_strategies

SECONDS_MAX = 20.0
FAILED: dict[str, type[Exception]] = {
    "confluent-kafka": KafkaException,
    "kafka-python": CommitFailedError,
}
"""What a commit that comes too late raises; aiokafka knows what it has lost, and commits none."""
pytestmark = pytest.mark.filterwarnings("default")


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


def read(reader: Reader, count: int) -> list[bytes]:
    """The values of the next `count` records."""
    values: list[bytes] = []
    end = time.monotonic() + SECONDS_MAX
    while len(values) < count and time.monotonic() < end:
        values += reader.poll(0.2)
    assert len(values) == count
    return values


def settle(readers: list[Reader], done: Callable[[list[int]], bool]) -> list[int]:
    """Poll all until their numbers of partitions are as wanted; returns these."""
    over = threading.Event()
    counts = [0] * len(readers)

    def polls(at: int) -> None:  # each from one thread: the libraries ask for that
        while not over.is_set():
            readers[at].poll(0.1)
            counts[at] = len(readers[at].held())

    end = time.monotonic() + SECONDS_MAX
    with ThreadPoolExecutor(len(readers)) as threads:
        polling = [threads.submit(polls, at) for at in range(len(readers))]
        try:
            while time.monotonic() < end and not any(one.done() for one in polling):
                now = list(counts)
                if done(now):
                    return now
                time.sleep(0.02)
        finally:
            over.set()
    for one in polling:
        one.result()
    raise AssertionError(f"the group does not settle: {counts}")


@pytest.mark.parametrize("library", READERS)
def test_processing_longer_than_max_poll_interval_loses_the_partitions_to_another(
    bootstrap: str, name: str, library: str
) -> None:
    create(bootstrap, 1, name)
    produce(bootstrap, name, [b"slow", b"next"])
    make = READERS[library]
    with ExitStack() as stack:
        slow = stack.enter_context(closing(make(bootstrap, name, [name], poll_interval_ms=1500)))
        assert read(slow, 1) == [b"slow"]
        other = stack.enter_context(closing(make(bootstrap, name, [name])))
        # `slow` works on its record and does not poll; nothing is committed: all is read again.
        assert read(other, 2) == [b"slow", b"next"]
        if library in FAILED:
            with pytest.raises(FAILED[library]):
                slow.commit()
        if isinstance(slow, ConfluentReader):
            slow.poll(SECONDS_MAX)
            assert slow.problems == [KafkaError._MAX_POLL_EXCEEDED]
        other.commit()


DIES = """
import sys, time
from tests.outside.clients.clients.readers import READERS
library, bootstrap, name = sys.argv[1:]
reader = READERS[library](bootstrap, name, [name])
values, end = [], time.monotonic() + 20
while len(values) < 4:
    assert time.monotonic() < end, values
    values += reader.poll(0.2)
    if len(values) == 2:
        reader.commit()
print("processed", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("library", READERS)
def test_a_member_dies_before_its_commit_and_another_rereads(
    bootstrap: str, name: str, library: str
) -> None:
    create(bootstrap, 1, name)
    produce(bootstrap, name, [b"%d" % n for n in range(6)])
    command = [sys.executable, "-c", DIES, library, bootstrap, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as dies:
        try:
            assert dies.stdout is not None
            assert dies.stdout.readline() == b"processed\n"
        finally:
            dies.kill()  # it says no goodbye: its session has to run out
    with closing(READERS[library](bootstrap, name, [name])) as another:
        assert read(another, 4) == [b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("library", READERS)
def test_commit_before_processing_is_at_most_once_and_after_it_at_least_once(
    bootstrap: str, name: str, library: str
) -> None:
    create(bootstrap, 1, name)
    produce(bootstrap, name, [b"a", b"b", b"c"])
    make = READERS[library]
    processed: dict[str, list[bytes]] = {"before": [], "after": []}
    for order in processed:
        group = f"{name}-{order}"
        with closing(make(bootstrap, group, [name])) as fails:
            (value,) = read(fails, 1)
            if order == "before":
                fails.commit()  # and fails before it has processed
            else:
                processed[order].append(value)  # and fails before it has committed
        with closing(make(bootstrap, group, [name])) as takes_over:
            rest = 2 if order == "before" else 3
            processed[order] += read(takes_over, rest)
    assert Counter(processed["before"]) == Counter([b"b", b"c"]), "a is lost, nothing is doubled"
    assert Counter(processed["after"]) == Counter([b"a", b"a", b"b", b"c"]), "none lost, a doubled"


SHARES = {
    "range": [3, 6],
    "server-range": [3, 6],
    "roundrobin": [4, 5],
    "sticky": [4, 5],
    "cooperative-sticky": [4, 5],
    "uniform": [4, 5],
}
"""Of three topics with three partitions each, for two members: range works per topic."""


@pytest.mark.parametrize(("library", "strategy"), with_strategies(*SHARES))
def test_three_topics_of_three_partitions_on_two_members(
    bootstrap: str, name: str, library: str, strategy: str
) -> None:
    topics = [f"{name}-{n}" for n in range(3)]
    create(bootstrap, 3, *topics)
    with ExitStack() as stack:
        members = [
            stack.enter_context(closing(READERS[library](bootstrap, name, topics, strategy)))
            for _ in range(2)
        ]
        settle(members, lambda counts: sorted(counts) == SHARES[strategy])
        held = [place for one in members for place in one.held()]
        assert sorted(held) == [(topic, n) for topic in topics for n in range(3)]
        if strategy.endswith("range"):
            most = max(members, key=lambda one: len(one.held()))
            assert most.held() == {(topic, n) for topic in topics for n in (0, 1)}


@pytest.mark.parametrize(
    ("library", "strategy"),
    [  # aiokafka's sticky assignor mistakes who had what before, and moves more than it must
        one
        for one in with_strategies("sticky", "cooperative-sticky", "uniform")
        if one != ("aiokafka", "sticky")
    ],
)
def test_a_third_member_takes_what_is_too_much_and_the_others_keep_the_rest(
    bootstrap: str, name: str, library: str, strategy: str
) -> None:
    topics = [f"{name}-{n}" for n in range(3)]
    create(bootstrap, 3, *topics)
    with ExitStack() as stack:
        members = [
            stack.enter_context(closing(READERS[library](bootstrap, name, topics, strategy)))
            for _ in range(2)
        ]
        settle(members, lambda counts: sorted(counts) == [4, 5])
        before = [one.held() for one in members]
        third = READERS[library](bootstrap, name, topics, strategy)
        members.append(stack.enter_context(closing(third)))
        settle(members, lambda counts: counts == [3, 3, 3])
        for one, had in zip(members, before, strict=False):
            assert one.held() <= had


@pytest.mark.parametrize("library", READERS)
def test_a_surplus_consumer_idles_until_another_leaves(
    bootstrap: str, name: str, library: str
) -> None:
    create(bootstrap, 2, name)
    make = READERS[library]
    with ExitStack() as stack:
        staying = [stack.enter_context(closing(make(bootstrap, name, [name]))) for _ in range(2)]
        with closing(make(bootstrap, name, [name])) as leaving:
            counts = settle([*staying, leaving], lambda counts: sorted(counts) == [0, 1, 1])
        idle = counts.index(0)
        if idle < 2:
            settle(staying, lambda counts: counts[idle] == 1)
        settle(staying, lambda counts: counts == [1, 1])
