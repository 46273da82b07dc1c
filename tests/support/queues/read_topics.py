"""Streams that read Kafka topics: pika and confluent-kafka against one broker."""

import time
from collections.abc import Callable
from typing import Any, Protocol

import pika
from confluent_kafka import Producer

from headrace.testing import BrokerThread
from tests.support.amqp.topics import SECONDS, create

TOPIC = "orders"
ARGUMENTS = {"x-queue-type": "stream", "x-headrace-topic": TOPIC}


def declare(channel: Any, name: str = "s", topic: str = TOPIC, **more: Any) -> Any:
    """Declare a stream that reads a topic."""
    arguments = ARGUMENTS | {"x-headrace-topic": topic} | more
    return channel.queue_declare(name, durable=True, arguments=arguments)


def reading(broker: BrokerThread, connection: Any, **config: str) -> Any:
    """A channel, and the stream `s` that reads the topic `orders`."""
    create(broker, TOPIC, 1, **config)
    channel = connection.channel()
    declare(channel)
    return channel


class Reached(Protocol):
    """A broker that Kafka's clients reach."""

    @property
    def bootstrap(self) -> str: ...


def produce(broker: Reached, *values: bytes | None, **settings: Any) -> None:
    """Produce records with the key `k`, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **settings})
    for value in values:
        producer.produce(TOPIC, value, key=b"k", partition=0)
        assert producer.flush(SECONDS) == 0


class Reading:
    """A consumer that acknowledges what it is given, and is told when its stream is gone."""

    def __init__(self, connection: Any, offset: Any = "first", queue: str = "s") -> None:
        self.connection = connection
        self.channel = connection.channel()
        self.channel.basic_qos(prefetch_count=50)
        self.found: list[tuple[int, bytes]] = []
        self.messages: list[tuple[Any, Any, bytes]] = []
        self.cancelled: list[str] = []
        self.channel.add_on_cancel_callback(
            lambda frame: self.cancelled.append(frame.method.consumer_tag)
        )
        arguments = {"x-stream-offset": offset}
        self.channel.basic_consume(queue, self._take, arguments=arguments, consumer_tag="c")

    def _take(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self.found.append((properties.headers["x-stream-offset"], body))
        self.messages.append((method, properties, body))
        self.channel.basic_ack(method.delivery_tag)

    def until(self, count: int) -> list[tuple[int, bytes]]:
        """So many messages, and no more in a while."""
        deadline = time.monotonic() + SECONDS
        while len(self.found) < count and time.monotonic() < deadline:
            self.connection.process_data_events(0.05)
        self.connection.process_data_events(0.1)
        return self.found

    def until_cancelled(self) -> None:
        self._wait(lambda: bool(self.cancelled))
        assert self.cancelled == ["c"]
        assert self.channel.is_open

    def until_closed(self) -> None:
        self._wait(lambda: not self.channel.is_open)
        assert self.cancelled == []

    def _wait(self, so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not so():
            assert time.monotonic() < deadline
            self.connection.process_data_events(0.05)


def read(connection: Any, count: int, offset: Any = "first") -> list[tuple[int, bytes]]:
    """Offsets and bodies of the next messages, and no more than `count` in a while."""
    reader = Reading(connection, offset)
    found = reader.until(count)
    reader.channel.close()
    return found


def publish(channel: Any, body: bytes, key: str = "s", exchange: str = "", **more: Any) -> None:
    properties = pika.BasicProperties(delivery_mode=2, **more)
    channel.basic_publish(exchange, key, body, properties, mandatory=True)
