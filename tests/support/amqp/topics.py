"""Exchanges that store messages in topics: pika and confluent-kafka against one broker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
)
from pika.exceptions import ChannelClosedByBroker

from headrace.queues.model.exchange_topic import TOPIC
from headrace.testing import BrokerThread

CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
    "amqp.guest": "true",
    "num.partitions": "3",
}
SECONDS = 20


@contextmanager
def connected(broker: BrokerThread) -> Iterator[Any]:
    port = broker.call(lambda server: server.listeners[1].port)
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1", port, socket_timeout=SECONDS, blocked_connection_timeout=SECONDS
        )
    )
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def create(broker: BrokerThread, topic: str, partitions: int = 3, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    new = NewTopic(topic, partitions, 1, config=settings)
    admin.create_topics([new])[topic].result(SECONDS)


def records(broker: BrokerThread, topic: str, count: int, partitions: int = 3) -> list[Any]:
    """The first records of a topic, in the order of its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "isolation.level": "read_committed",
            "enable.partition.eof": "false",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
        found: list[Any] = consumer.consume(count, SECONDS)
        assert len(found) == count
        assert consumer.consume(1, 0.3) == [], "each message is stored once"
        return sorted(found, key=lambda record: (record.partition(), record.offset()))
    finally:
        consumer.close()


def stored(name: str, topic: str, **more: Any) -> dict[str, Any]:
    """How an exchange is declared that stores its messages."""
    return {"exchange": name, "durable": True, "arguments": {TOPIC: topic}} | more


def closed(refused: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ChannelClosedByBroker) as told:
        refused()
    return told.value.args[0], told.value.args[1]


def confirming(connection: Any) -> Any:
    channel = connection.channel()
    channel.confirm_delivery()
    return channel
