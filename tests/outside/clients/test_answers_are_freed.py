"""What a request took is free once it is answered: not when the collector looks, nor its deadline.

The broker looks for cycles seldom (server/main.py), so a cycle that holds an answer's records is
memory by the gigabyte.
"""

import gc
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from headrace.frontends.kafka.fetch.fetch_in_hand import FetchInHand
from headrace.net.pending import Pending
from headrace.testing import BrokerThread
from tests.support.coordination.share import ACCEPT, SharePlace

REQUESTS = (
    "headrace.broker.",
    "headrace.frontends.",
    "headrace.net.",
    "headrace.log.",
    "headrace.coordination.transactions",
)
"""Modules whose objects live as long as a request, a partition, or the broker."""
RECORDS = 40
T = TypeVar("T")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with BrokerThread(memory=True) as broker:
        create(broker.bootstrap, "events")
        yield broker.bootstrap


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(30)


def produced(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for _ in range(RECORDS):
        producer.produce("events", bytes(1000))
        assert producer.flush(30) == 0


def consumed(bootstrap: str, protocol: str) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": str(uuid.uuid4()),
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted",
        "fetch.wait.max.ms": 20,
        "fetch.message.max.bytes": 5000,
    }
    consumer = Consumer(settings)
    consumer.subscribe(["events"])
    assert len(consumer.consume(RECORDS, 30)) == RECORDS
    consumer.commit(asynchronous=False)
    consumer.poll(0.3)  # fetches that wait in vain
    consumer.close()


def in_transactions(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": str(uuid.uuid4())})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction) * 2:
        producer.begin_transaction()
        producer.produce("events", b"in one")
        end(30)
    # Another of the same id has what is open aborted first.
    producer.begin_transaction()
    producer.produce("events", b"left")
    assert producer.flush(30) == 0
    name = str(uuid.uuid4())
    for _ in range(2):
        other = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        other.init_transactions(30)
        other.begin_transaction()
        other.produce("events", b"left")
        assert other.flush(30) == 0


def shared(bootstrap: str) -> None:
    place = SharePlace(bootstrap)
    place.produce(RECORDS)
    taken = 0
    with place.member() as member:
        acks: list[tuple[int, int, int]] = []
        while taken < RECORDS or acks:
            offsets = member.fetch(*acks, wait_ms=50, records_max=5).offsets()
            acks = [(min(offsets), max(offsets), ACCEPT)] if offsets else []
            taken += len(offsets)
        member.fetch(wait_ms=50)  # which waits in vain


def administered(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = str(uuid.uuid4())
    create(bootstrap, topic)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin.describe_configs([resource])[resource].result(30)
    admin.list_consumer_groups().result(30)
    admin.delete_topics([topic])[topic].result(30)


WORK: dict[str, Callable[[str], None]] = {
    "produce": produced,
    "consume, classic": lambda bootstrap: consumed(bootstrap, "classic"),
    "consume, consumer": lambda bootstrap: consumed(bootstrap, "consumer"),
    "transactions": in_transactions,
    "share": shared,
    "admin": administered,
}


def left_by(work: Callable[[str], None], bootstrap: str) -> list[str]:
    """What the collector would have had to free behind `work`, by its type's name."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        work(bootstrap)
        time.sleep(0.2)  # what was answered last is put away
        gc.collect()
        kinds = [type(one) for one in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)


@pytest.mark.parametrize("name", WORK)
def test_requests_leave_nothing_to_the_collector(bootstrap: str, name: str) -> None:
    produced(bootstrap)
    WORK[name](bootstrap)  # at an API's first request its code is loaded
    left = left_by(WORK[name], bootstrap)
    assert [kind for kind in left if kind.startswith(REQUESTS)] == []


def at_the_end(bootstrap: str, topic: str) -> Consumer:
    """A consumer whose first fetch waits for up to half a minute."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": str(uuid.uuid4()),
        "isolation.level": "read_uncommitted",  # transactions were left open
        "fetch.wait.max.ms": 30_000,
        "socket.timeout.ms": 60_000,
    })  # fmt: skip
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)
    consumer.assign([TopicPartition(topic, 0, end)])
    consumer.poll(0.5)  # longer than a tick of the deadlines
    return consumer


def test_an_answer_that_was_waited_for_is_not_kept_until_its_deadline(bootstrap: str) -> None:
    gc.collect()
    earlier = alive(Pending)  # of brokers that other tests have here
    create(bootstrap, "quiet")
    idle = at_the_end(bootstrap, "quiet")  # its deadline is the first: those behind it stay known
    consumer = at_the_end(bootstrap, "events")
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(3):
        producer.produce("events", bytes(100_000))
        assert producer.flush(30) == 0
        assert len(consumer.consume(1, 30)) == 1
        consumer.poll(0.5)
    assert alive(FetchInHand), "the next one waits"
    assert [one for one in alive(Pending) if one.done], "their deadlines are known still"

    def kept() -> list[object]:
        fetches = [one for one in alive(FetchInHand) if one.pending is None or one.pending.done]
        answered = [one for one in alive(Pending) if one.done and one.body is not None]
        return [*fetches, *(one for one in answered if not any(one is old for old in earlier))]

    end_of_wait = time.monotonic() + 10
    while kept() and time.monotonic() < end_of_wait:
        time.sleep(0.05)  # what was answered last is being sent
    assert kept() == []
    consumer.close()
    idle.close()


def alive(kind: type[T]) -> list[T]:
    return [one for one in gc.get_objects() if type(one) is kind]
