"""A stream that reads a Kafka topic, on a broker in its own process: librdkafka and pika in turns.

`tests/broker/vhosts/test_amqp_read_topics.py` has the edges.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pika
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pika.exceptions import AMQPError

from tests.support.processes.process import BrokerProcess, free_port

SECONDS = 60
COUNT = 2000
READING = {"x-queue-type": "stream", "x-headrace-topic": "orders"}


class Served:
    """A broker for clients of both protocols."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        kafka_port = free_port()
        self.broker = BrokerProcess(
            directory,
            kafka_port,
            listeners=f"PLAINTEXT://127.0.0.1:{kafka_port},AMQP://127.0.0.1:{self.port}",
            amqp_guest="true",
        )

    @contextmanager
    def pika(self) -> Iterator[Any]:
        """A connection of pika."""
        parameters = pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0)
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection
        finally:
            with suppress(AMQPError):
                connection.close()

    def produce(self, first: int, count: int) -> None:
        """Produce records that are numbered in key, value and header."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5})
        for number in range(first, first + count):
            text = b"%d" % number
            headers = [("n", text)]
            producer.produce("orders", b"v" + text, b"k" + text, partition=0, headers=headers)
        assert producer.flush(SECONDS) == 0

    def records(self, first: int, count: int) -> list[Any]:
        """The records from an offset on."""
        bootstrap = self.broker.bootstrap
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
        found: list[Any] = []
        try:
            consumer.assign([TopicPartition("orders", 0, first)])
            while len(found) < count and (more := consumer.consume(count - len(found), SECONDS)):
                found += more
        finally:
            consumer.close()
        assert [record.offset() for record in found] == list(range(first, first + count))
        return found


def read(connection: Any, begin: object, count: int) -> list[tuple[int, str, bytes, object]]:
    """Offset, key, body and the header `n` of messages."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=200)
    found: list[tuple[int, str, bytes, object]] = []
    given = channel.consume("s", inactivity_timeout=SECONDS, arguments={"x-stream-offset": begin})
    for method, properties, body in given:
        assert method is not None, f"{len(found)} of {count}"
        headers = properties.headers
        found.append((headers["x-stream-offset"], method.routing_key, body, headers.get("n")))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    channel.close()
    return found


def numbered(first: int, end: int) -> list[tuple[int, str, bytes, object]]:
    return [(at, f"k{at}", b"v%d" % at, f"{at}") for at in range(first, end)]


def test_pika_and_librdkafka_share_a_topic_across_a_restart(tmp_path: Path) -> None:
    served = Served(tmp_path)
    with served.broker:
        admin = AdminClient({"bootstrap.servers": served.broker.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(SECONDS)
        served.produce(0, COUNT)
        with served.pika() as connection:
            channel = connection.channel()
            declared = channel.queue_declare("s", durable=True, arguments=READING)
            assert declared.method.message_count == COUNT
            assert read(connection, "first", COUNT) == numbered(0, COUNT)
            assert read(connection, COUNT - 7, 7) == numbered(COUNT - 7, COUNT)
            channel.confirm_delivery()
            persistent = pika.BasicProperties(delivery_mode=2, headers={"by": "pika"})
            channel.basic_publish("", "s", b"published", persistent)
        (record,) = served.records(COUNT, 1)
        assert (record.key(), record.value()) == (b"s", b"published")
        assert dict(record.headers())["by"] == b"pika"
    with served.broker:
        served.produce(COUNT + 1, 1)
        with served.pika() as connection:
            channel = connection.channel()
            assert channel.queue_declare("s", passive=True).method.message_count == COUNT + 2
            kept = read(connection, COUNT - 1, 3)
            assert kept[0] == numbered(COUNT - 1, COUNT)[0]
            assert kept[1] == (COUNT, "s", b"published", None)
            assert kept[2] == numbered(COUNT + 1, COUNT + 2)[0]
            channel.queue_delete("s")
        assert len(served.records(0, COUNT + 2)) == COUNT + 2
