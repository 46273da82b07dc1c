"""Streams, and exchanges and streams over Kafka topics, at three brokers."""

import time
from typing import Any

from confluent_kafka import Consumer, Producer
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.cluster.amqp_clients import (
    Received,
    consume,
    exists,
    publish,
    wait,
)
from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import until


def stream_from(channel: BlockingChannel, queue: str, offset: Any) -> Received:
    """Begin to read a stream at an offset."""
    channel.basic_qos(prefetch_count=1000)
    return consume(channel, queue, auto_ack=False, arguments={"x-stream-offset": offset})


def bodies_of(received: Received) -> list[bytes]:
    return [body for _, _, body in received]


def test_stream_is_read_from_each_offset_at_each_broker(amqp: AmqpCluster) -> None:
    with amqp.channel(0, confirms=True) as publisher:
        publisher.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
        published = [b"%d" % number for number in range(20)]
        publish(publisher, "stream", *published)
        for at in range(3):
            with amqp.channel(at) as reader, amqp.channel(at) as second:
                begun = stream_from(second, "stream", "next")
                expected = {"first": published, "last": published[-1:], 15: published[15:]}
                for offset, wanted in expected.items():
                    found = stream_from(reader, "stream", offset)
                    wait(reader.connection, lambda: len(found) == len(wanted), f"from {offset}")  # noqa: B023
                    assert bodies_of(found) == wanted
                    assert found[0][1].headers["x-stream-offset"] == int(wanted[0])
                publish(publisher, "stream", b"%d" % len(published))
                published.append(b"%d" % len(published))
                wait(second.connection, lambda: begun, "the next message")  # noqa: B023
                assert bodies_of(begun) == published[-1:]


def test_reader_of_a_stream_goes_on_after_its_leader_died(amqp: AmqpCluster) -> None:
    with amqp.channel(0, confirms=True) as publisher:
        publisher.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        publish(publisher, "log", b"0")
    leader = amqp.until_queue_led("log")
    at = (leader + 1) % 3
    with amqp.channel(at) as reader, amqp.channel(at, confirms=True) as publisher:
        publish(publisher, "log", *(b"%d" % number for number in range(1, 10)))
        found = stream_from(reader, "log", "first")
        wait(reader.connection, lambda: len(found) == 10, "what was published before")
        amqp.brokers[leader].kill()
        publish(publisher, "log", *(b"%d" % number for number in range(10, 20)))
        wait(reader.connection, lambda: len(found) >= 20, "what was published since")
        reader.connection.process_data_events(0.3)
        assert bodies_of(found) == [b"%d" % number for number in range(20)]


def test_consumers_at_each_broker_miss_and_repeat_nothing_when_the_leader_dies(
    amqp: AmqpCluster,
) -> None:
    with amqp.channel(0, confirms=True) as publisher:
        publisher.queue_declare("feed", durable=True, arguments={"x-queue-type": "stream"})
        publish(publisher, "feed", *(b"%d" % number for number in range(20)))
    leader = amqp.until_queue_led("feed")
    left = [at for at in range(3) if at != leader]
    with amqp.channel(left[0]) as first, amqp.channel(left[1]) as second:
        begun = stream_from(first, "feed", "next")
        found = [stream_from(channel, "feed", "first") for channel in (first, second)]
        for channel, received in zip((first, second), found, strict=True):
            wait(channel.connection, lambda: len(received) == 20, "what was published before")  # noqa: B023
        amqp.brokers[leader].kill()
        with amqp.channel(left[1], confirms=True) as publisher:
            publish(publisher, "feed", *(b"%d" % number for number in range(20, 60)))
        for channel, received in zip((first, second), found, strict=True):
            wait(channel.connection, lambda: len(received) >= 60, "what was published since")  # noqa: B023
            channel.connection.process_data_events(0.3)
            assert bodies_of(received) == [b"%d" % number for number in range(60)]
        assert bodies_of(begun) == [b"%d" % number for number in range(20, 60)]


def test_stream_is_read_from_a_replica_while_its_leader_is_paused(amqp: AmqpCluster) -> None:
    with amqp.channel(0, confirms=True) as publisher:
        publisher.queue_declare("paused", durable=True, arguments={"x-queue-type": "stream"})
        publish(publisher, "paused", *(b"%d" % number for number in range(20)))
    leader = amqp.until_queue_led("paused")
    with amqp.channel((leader + 1) % 3) as reader:
        reader.basic_qos(prefetch_count=5)
        found = consume(reader, "paused", auto_ack=False, arguments={"x-stream-offset": "first"})
        wait(reader.connection, lambda: len(found) == 5, "as many as the prefetch allows")
        amqp.pause(leader)
        try:
            while len(found) < 20:
                before = len(found)
                reader.basic_ack(0, multiple=True)
                reader.connection.process_data_events(1)
                assert len(found) > before, "nothing is read while the leader is paused"
        finally:
            amqp.resume(leader)
        assert bodies_of(found) == [b"%d" % number for number in range(20)]


def test_exchange_stores_in_a_topic_whose_partitions_other_brokers_lead(
    amqp: AmqpCluster,
) -> None:
    amqp.create("orders", 3, 3)
    with amqp.channel(0, confirms=True) as first, amqp.channel(1, confirms=True) as second:
        arguments = {"x-headrace-topic": "orders"}
        first.exchange_declare("orders", "topic", durable=True, arguments=arguments)
        for channel in (first, second):
            for number in range(30):
                publish(channel, f"key-{number}", b"%d" % number, exchange="orders")
    found = records(amqp, "orders", 60)
    by_key: dict[str, set[int]] = {}
    for key, _, partition in found:
        by_key.setdefault(key, set()).add(partition)
    assert sorted(value for _, value, _ in found) == sorted([b"%d" % n for n in range(30)] * 2)
    assert all(len(partitions) == 1 for partitions in by_key.values())
    assert len(set.union(*by_key.values())) == 3


def test_topic_of_an_exchange_is_created_and_survives_its_leader(amqp: AmqpCluster) -> None:
    with amqp.channel(1, confirms=True) as publisher:
        arguments = {"x-headrace-topic": "created"}
        publisher.exchange_declare("created", "fanout", durable=True, arguments=arguments)
        publish(publisher, "key", b"1", exchange="created")
        leader = amqp.leader("created")
    assert leader in range(3)


def test_stream_reads_a_topic_at_each_broker_and_ends_with_it(amqp: AmqpCluster) -> None:
    amqp.create("events", 1, 3)
    produce(amqp, "events", b"0", b"1", b"2")
    arguments = {"x-queue-type": "stream", "x-headrace-topic": "events"}
    with amqp.channel(0) as channel:
        channel.queue_declare("events", durable=True, arguments=arguments)
    for at in range(3):
        with amqp.channel(at) as reader:
            found = stream_from(reader, "events", "first")
            wait(reader.connection, lambda: len(found) == 3, "the records")  # noqa: B023
            assert bodies_of(found) == [b"0", b"1", b"2"]
    admin = amqp.admin()
    admin.delete_topics(["events"])["events"].result(30)
    until(lambda: not exists(amqp, 2, "events"), "the stream ends with its topic")


def produce(amqp: AmqpCluster, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": amqp.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert not producer.flush(30)


def records(amqp: AmqpCluster, topic: str, count: int) -> list[tuple[str, bytes, int]]:
    """Return keys, values and partitions of a topic's records."""
    found: list[tuple[str, bytes, int]] = []
    config = {"bootstrap.servers": amqp.bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer({**config, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            key, value = record.key(), record.value()
            found.append(((key or b"").decode(), value or b"", int(record.partition() or 0)))
    consumer.close()
    return found
