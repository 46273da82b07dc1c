"""Topics that are made, grown and deleted while stock clients use them."""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

SECONDS_MAX = 30.0
REFRESH_MS = 300


@pytest.fixture
def name() -> str:
    """Of a topic or group nobody else uses."""
    return f"in-use-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(admin: AdminClient, topic: str, partitions: int) -> None:
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(SECONDS_MAX)


def wait_for(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


class Traffic:
    """A producer and a group's consumer at work in threads of their own, until `end`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.acknowledged: Counter[str] = Counter()
        """By incarnation of the topic."""
        self.read: Counter[str] = Counter()
        self.now = "first"
        self._over = threading.Event()
        base: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "topic.metadata.refresh.interval.ms": REFRESH_MS,
            "allow.auto.create.topics": False,
        }
        self._producer = Producer(base | {"message.timeout.ms": 20_000})
        self._consumer = Consumer(base | {"group.id": topic, "auto.offset.reset": "earliest"})
        self._threads = [threading.Thread(target=one) for one in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        def done(error: Any, message: Any) -> None:
            if error is None:
                self.acknowledged[message.value().decode()] += 1

        while not self._over.is_set():
            with suppress(KafkaException):
                self._producer.produce(self.topic, self.now, on_delivery=done)
            self._producer.poll(0.01)
        self._producer.flush(SECONDS_MAX)

    def _consume(self) -> None:
        with closing(self._consumer) as consumer:
            consumer.subscribe([self.topic])
            while not self._over.is_set():
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self.read[str((message.value() or b"").decode())] += 1

    def flows(self, incarnation: str) -> None:
        """Return once records of this incarnation are acknowledged and read."""
        wait_for(
            lambda: self.acknowledged[incarnation] > 20 and self.read[incarnation] > 20,
            f"{incarnation}: {self.acknowledged} acknowledged, {self.read} read",
        )

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def test_a_topic_deleted_and_made_again_under_its_clients_goes_on(
    bootstrap: str, admin: AdminClient, name: str
) -> None:
    create(admin, name, 2)
    traffic = Traffic(bootstrap, name)
    try:
        traffic.flows("first")
        for incarnation in ("second", "third"):
            admin.delete_topics([name])[name].result(SECONDS_MAX)
            time.sleep(0.5)
            create(admin, name, 2)
            traffic.now = incarnation
            traffic.flows(incarnation)
    finally:
        traffic.end()


def test_a_topic_grows_under_its_producer_and_nothing_is_lost(
    bootstrap: str, admin: AdminClient, name: str
) -> None:
    create(admin, name, 1)
    partitions: Counter[int] = Counter()
    errors: list[Any] = []
    settings = {"topic.metadata.refresh.interval.ms": REFRESH_MS}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})

    def done(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)
        partitions[message.partition()] += 1

    sent = 0
    for count in (3, 6):
        admin.create_partitions([NewPartitions(name, count)])[name].result(SECONDS_MAX)
        end = time.monotonic() + SECONDS_MAX
        while len(partitions) < count:
            assert time.monotonic() < end, partitions
            producer.produce(name, b"value", key=b"%d" % sent, on_delivery=done)
            sent += 1
            producer.poll(0.002)
    assert producer.flush(SECONDS_MAX) == 0
    assert not errors
    assert sum(partitions.values()) == sent


def test_all_who_need_a_topic_at_once_get_the_same_one(bootstrap: str, name: str) -> None:
    topics = [f"{name}-{number}" for number in range(10)]
    outcome: Counter[str] = Counter()

    def done(error: Any, message: Any) -> None:
        outcome["failed" if error else message.topic()] += 1

    def one() -> None:
        producer = Producer({"bootstrap.servers": bootstrap})
        for topic in topics:
            producer.produce(topic, b"value", on_delivery=done)
        producer.flush(SECONDS_MAX)

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcome == dict.fromkeys(topics, 6)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_take_no_records_of_clients(bootstrap: str, topic: str) -> None:
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 5000})
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error.name()))
    producer.flush(SECONDS_MAX)
    assert errors == ["TOPIC_EXCEPTION"]
