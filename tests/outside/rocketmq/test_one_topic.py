"""Clients of RocketMQ, Kafka, AMQP and Spark write to a topic, and each of them reads all of it.

Each writes bodies of its own, any bytes among them, and each has to read all of them, each once:
RocketMQ's Java client, librdkafka, pika on a stream over the topic, and Spark's source and sink.
"""

import base64
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

import headrace.spark
from tests.outside.rocketmq.jvm import JVM, compiled, has_maven, libraries
from tests.spark.sink_kit import sink_of
from tests.support.processes.process import BrokerProcess, free_port
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import made

TOPIC = "Orders"
COUNT = 300
"""Messages of each producer."""
PROTOCOLS = ("rocketmq", "kafka", "amqp", "spark")
SECONDS = 60
STREAM = {"x-queue-type": "stream", "x-headrace-topic": TOPIC}


def bodies(protocol: str) -> list[bytes]:
    """Return the bodies that a protocol's producer writes: any byte is in some of them."""
    return [
        f"{protocol} {number} ".encode() + bytes([number % 256]) * (1 + number * 7 % 900)
        for number in range(COUNT)
    ]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = headrace.spark.session("one topic", **{"spark.master": "local[2]"})
    yield session
    session.stop()


class Shared:
    """The broker, with a client of each protocol for the one topic."""

    def __init__(self, place: Path, spark: SparkSession) -> None:
        self.place, self.spark = place, spark
        kafka, self.amqp, self.rocketmq = free_port(), free_port(), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{kafka},AMQP://127.0.0.1:{self.amqp}"
        self.broker = BrokerProcess(
            place / "broker",
            kafka,
            listeners=f"{listeners},ROCKETMQ://127.0.0.1:{self.rocketmq}",
            amqp_guest="true",
            rocketmq_disk_max_used_percent=100,
        )
        self.java = [
            *JVM, f"-Duser.home={place}", "-cp",
            compiled(place / "classes", libraries("5.5.0"), "Bodies.java"), "Bodies",
            f"127.0.0.1:{self.rocketmq}", TOPIC,
        ]  # fmt: skip

    def create(self) -> None:
        """Create the topic, with one queue, and the stream over it."""
        with RemotingClient(self.rocketmq) as operator:
            made(operator, TOPIC, 1)
        with self._channel() as channel:
            channel.queue_declare("all", durable=True, arguments=STREAM)

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        parameters = pika.ConnectionParameters("127.0.0.1", self.amqp, heartbeat=0)
        connection = pika.BlockingConnection(parameters)
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            yield channel
        finally:
            connection.close()

    def _java(self, *words: str, given: str = "") -> str:
        done = subprocess.run(
            [*self.java, *words],
            input=given, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    # producers

    def write_rocketmq(self, sent: list[bytes]) -> None:
        lines = [base64.b64encode(body).decode() for body in sent]
        self._java("send", given="\n".join(lines) + "\n")

    def write_kafka(self, sent: list[bytes]) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5})
        for body in sent:
            producer.produce(TOPIC, body, key=b"key", headers=[("from", b"kafka")])
        assert producer.flush(SECONDS) == 0

    def write_amqp(self, sent: list[bytes]) -> None:
        with self._channel() as channel:
            for body in sent:
                channel.basic_publish("", "all", body, pika.BasicProperties(delivery_mode=2))

    def write_spark(self, sent: list[bytes]) -> None:
        frame = self.spark.createDataFrame([(body,) for body in sent], "value binary")
        writer = sink_of(frame.write, self.broker.bootstrap, "one-topic", topic=TOPIC)
        writer.mode("append").save()

    # consumers

    def read_rocketmq(self, count: int) -> list[bytes]:
        return [base64.b64decode(line) for line in self._java("read", str(count)).split()]

    def read_kafka(self, count: int) -> list[bytes]:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "kafka"})
        found: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        try:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            while len(found) < count and time.monotonic() < deadline:
                found += [record.value() for record in consumer.consume(count, 1)]
            found += [record.value() for record in consumer.consume(count, 1)]
        finally:
            consumer.close()
        return found

    def read_amqp(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        with self._channel() as channel:
            channel.basic_qos(prefetch_count=200)
            given = channel.consume(
                "all", inactivity_timeout=3, arguments={"x-stream-offset": "first"}
            )
            for method, _, body in given:
                if method is None:
                    break
                found.append(body)
                channel.basic_ack(method.delivery_tag)
                if len(found) > count:
                    break
            channel.cancel()
        return found

    def read_spark(self, count: int) -> list[bytes]:
        options = {"kafka.bootstrap.servers": self.broker.bootstrap, "subscribe": TOPIC}
        reader = self.spark.read.format("headrace").options(**options, startingOffsets="earliest")
        rows = reader.load().select("value").collect()
        assert len(rows) <= count, "each message is stored once"
        return [bytes(row["value"]) for row in rows]


@pytest.mark.skipif(not has_maven(), reason="needs Maven and a JDK")
def test_a_topic_is_written_and_read_whole_by_four_protocols(
    tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "classes").mkdir()
    shared = Shared(tmp_path, spark)
    with shared.broker:
        shared.create()
        expected: list[bytes] = []
        for protocol in PROTOCOLS:
            getattr(shared, f"write_{protocol}")(bodies(protocol))
            expected += bodies(protocol)
        expected.sort()
        for protocol in PROTOCOLS:
            found = getattr(shared, f"read_{protocol}")(len(expected))
            assert len(found) == len(expected), protocol
            assert sorted(found) == expected, protocol
