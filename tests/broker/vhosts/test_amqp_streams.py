"""Streams of a whole broker: RabbitMQ's clients, Kafka's, restarts, kills, retention."""

import asyncio
import datetime
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pika
import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.queue_stores.queue_settings import QueueSettings, QueueType
from headrace.testing import BrokerThread
from headrace.vhosts.queue_topics import RECORD_BYTES_MAX, topic_config
from tests.support.processes.process import BrokerProcess, free_port
from tests.support.queues.restarts import SETTINGS

ARGUMENTS = {"x-queue-type": "stream"}
TOPIC = "__amqp.queue.s"
SECONDS_MAX = 20.0


class Streams:
    """A broker on a directory, and pika."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.begin()

    def begin(self) -> None:
        self.broker = BrokerThread(SETTINGS, directory=str(self.directory)).start()
        self.port = self.broker.call(lambda server: server.listeners[1].port)
        self.connection = connected(self.port)

    def restart(self) -> None:
        self.end()
        self.begin()

    def end(self) -> None:
        if self.connection.is_open:
            self.connection.close()
        self.broker.stop()

    def channel(self) -> Any:
        return self.connection.channel()

    def topic_config(self) -> dict[str, str]:
        return self.broker.call(lambda server: dict(server.broker.image.topics[TOPIC].config))


def connected(port: int) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


def declare(channel: Any, **arguments: Any) -> None:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_declare("s", durable=True, arguments=ARGUMENTS | named)


def publish(channel: Any, *bodies: str, exchange: str = "", key: str = "s") -> None:
    """Publish with confirms."""
    channel = channel.connection.channel()
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish(exchange, key, body.encode(), pika.BasicProperties(delivery_mode=2))


def read(
    connection: Any, count: int, offset: Any = "first", *, prefetch: int = 100
) -> list[tuple[int, str]]:
    """Offsets and bodies of the next messages, and no more than `count` in a while."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)
    found: list[tuple[int, str]] = []

    def take(_: Any, method: Any, properties: Any, body: bytes) -> None:
        found.append((properties.headers["x-stream-offset"], body.decode()))
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume("s", take, arguments={"x-stream-offset": offset})
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < deadline:
        connection.process_data_events(0.05)
    connection.process_data_events(0.1)
    channel.close()
    return found


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    """A broker."""
    here = Streams(tmp_path)
    yield here
    here.end()


def numbered(*numbers: int) -> list[tuple[int, str]]:
    return [(number, str(number)) for number in numbers]


# Clients


def test_pika_reads_a_stream_from_where_it_wants_through_any_exchange(streams: Streams) -> None:
    channel = streams.channel()
    declare(channel)
    channel.exchange_declare("e", "topic")
    channel.queue_bind("s", "e", "#")
    publish(channel, "0", "1", exchange="e", key="a.b")
    publish(channel, "2", "3")
    time.sleep(1.1)  # times of RabbitMQ's arguments are whole seconds
    between = datetime.datetime.now(datetime.UTC)
    publish(channel, "4")
    connection = streams.connection
    assert read(connection, 5) == numbered(*range(5))
    assert read(connection, 5, prefetch=1) == numbered(*range(5))
    assert read(connection, 2, 3) == numbered(3, 4)
    assert read(connection, 1, "last") == numbered(4)
    assert read(connection, 0, "next") == []
    assert read(connection, 1, between) == numbered(4)
    assert read(connection, 5, "1h") == numbered(*range(5))
    assert channel.queue_declare("s", passive=True).method.message_count == 5


def test_aio_pika_and_others_read_at_once_and_follow(streams: Streams) -> None:
    declare(streams.channel())

    async def follow(count: int) -> list[int]:
        connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{streams.port}/")
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=3)
            queue = await channel.get_queue("s")
            found = []
            async with queue.iterator(arguments={"x-stream-offset": "first"}) as messages:
                async for message in messages:
                    found.append(int(message.headers["x-stream-offset"]))
                    await message.ack()
                    if len(found) == count:
                        return found
            return found

    async def all_follow() -> list[list[int]]:
        return await asyncio.wait_for(asyncio.gather(*(follow(60) for _ in range(4))), SECONDS_MAX)

    def publish_all() -> None:
        connection = connected(streams.port)
        publish(connection.channel(), *map(str, range(60)))
        connection.close()

    publisher = threading.Thread(target=publish_all)
    publisher.start()
    assert asyncio.run(all_follow()) == [[*range(60)]] * 4
    publisher.join()


def test_readers_of_a_stream_that_is_deleted_are_told(streams: Streams) -> None:
    channel = streams.channel()
    declare(channel)
    publish(channel, "0")
    reader = streams.channel()
    told: list[Any] = []
    reader.add_on_cancel_callback(told.append)
    reader.basic_qos(prefetch_count=1)
    reader.basic_consume("s", lambda *_: None)
    assert channel.queue_delete("s", if_empty=True).method.message_count == 0
    deadline = time.monotonic() + SECONDS_MAX
    while not told and time.monotonic() < deadline:
        streams.connection.process_data_events(0.05)
    assert len(told) == 1
    declare(channel)
    publish(channel, "again")
    assert read(streams.connection, 1) == [(0, "again")]


# One log


def test_kafkas_clients_read_a_stream_and_write_to_it(streams: Streams) -> None:
    channel = streams.channel()
    declare(channel)
    publish(channel, "0")
    producer = Producer({"bootstrap.servers": streams.broker.bootstrap})
    producer.produce(TOPIC, b"1", timestamp=1_000)
    assert producer.flush(20) == 0
    publish(channel, "2")
    assert read(streams.connection, 3) == numbered(0, 1, 2)
    assert read(streams.connection, 3, "1h") == numbered(0, 1, 2)
    consumer = Consumer({"bootstrap.servers": streams.broker.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = consumer.consume(3, 20)
    consumer.close()
    assert {record.timestamp()[0] for record in found[1:2]} == {TIMESTAMP_LOG_APPEND_TIME}
    assert [(record.offset(), record.value()) for record in found] == [
        (0, b"0"), (1, b"1"), (2, b"2"),
    ]  # fmt: skip


def test_the_topic_has_the_retention_of_the_arguments(streams: Streams) -> None:
    channel = streams.channel()
    declare(
        channel,
        x_max_age="7D",
        x_max_length_bytes=5_000_000_000,
        x_stream_max_segment_size_bytes=100_000_000,
    )
    publish(channel, "0")
    config = streams.topic_config()
    assert config["retention.ms"] == str(7 * 86_400_000)
    assert config["retention.bytes"] == "5000000000"
    assert config["segment.bytes"] == "100000000"
    assert config["message.timestamp.type"] == "LogAppendTime"


def stream(**settings: int) -> QueueSettings:
    return QueueSettings(queue_type=QueueType.STREAM, **settings)  # type: ignore[arg-type]


def test_a_topics_configuration_takes_every_message_and_keeps_what_was_just_written() -> None:
    assert topic_config(stream(segment_bytes_max=100))["segment.bytes"] == str(RECORD_BYTES_MAX)
    most = topic_config(stream(segment_bytes_max=3_000_000_000))
    assert most["segment.bytes"] == str((1 << 31) - 1)
    assert topic_config(stream(retention_bytes=0))["retention.bytes"] == "1"
    unbounded = topic_config(stream())
    assert (unbounded["retention.bytes"], unbounded["retention.ms"]) == ("-1", "-1")
    assert topic_config(QueueSettings(length_bytes_max=5))["retention.bytes"] == "-1"


def test_the_topic_of_a_queue_is_neither_compacted_nor_cut_nor_packed_by_the_broker() -> None:
    assert topic_config(QueueSettings()) == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "max.message.bytes": str(20 << 20),
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": "1",
        "retention.bytes": "-1",
        "retention.ms": "-1",
        "segment.bytes": str(64 << 20),
    }
    assert topic_config(stream(retention_ms=0))["retention.ms"] == "0", "no age is another thing"


# Lives


def test_a_stream_and_its_offsets_outlive_a_restart(streams: Streams) -> None:
    channel = streams.channel()
    declare(channel, x_max_age="1D")
    publish(channel, "0", "1", "2")
    channel.basic_publish("", "s", b"3", pika.BasicProperties(delivery_mode=1))
    streams.restart()
    channel = streams.channel()
    declare(channel, x_max_age="1D")
    assert channel.queue_declare("s", passive=True).method.message_count == 4
    publish(channel, "4")
    assert read(streams.connection, 3, 2) == numbered(2, 3, 4)
    assert read(streams.connection, 1, "last") == numbered(4)


def test_what_was_confirmed_is_read_after_a_kill_and_readers_go_on_by_number(
    tmp_path: Path,
) -> None:
    port, kafka = free_port(), free_port()
    settings: dict[str, Any] = {
        "listeners": f"PLAINTEXT://127.0.0.1:{kafka},AMQP://127.0.0.1:{port}",
        "amqp_guest": "true",
    }
    broker = BrokerProcess(tmp_path, kafka, **settings)
    broker.start()
    try:
        connection = connected(port)
        channel = connection.channel()
        declare(channel)
        publish(channel, *map(str, range(50)))
        seen = read(connection, 20, prefetch=5)
        following = seen[19][0] + 1
        connection.close()
        broker.kill()
        broker.start()
        connection = connected(port)
        assert read(connection, 50 - following, following) == numbered(*range(following, 50))
        publish(connection.channel(), "50")
        assert read(connection, 1, 50) == numbered(50)
        connection.close()
    finally:
        broker.kill()


@pytest.mark.parametrize(("before", "left"), [(2, [2, 3]), (-1, [])])
def test_kafkas_clients_delete_records_of_a_stream_up_to_an_offset(
    streams: Streams, before: int, left: list[int]
) -> None:
    declare(streams.channel())
    publish(streams.channel(), "0", "1", "2", "3")
    admin = AdminClient({"bootstrap.servers": streams.broker.bootstrap})
    (answer,) = admin.delete_records([TopicPartition(TOPIC, 0, before)]).values()
    assert answer.result(SECONDS_MAX).low_watermark == (before if before >= 0 else 4)
    assert read(streams.connection, len(left)) == numbered(*left)
