"""Durable queues as the topics that Kafka's clients see."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from headrace.testing import BrokerThread
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import BasicConsume, BasicReject
from tests.support.queues.restarts import Start, eventually, starting


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the broker."""
    yield from starting(tmp_path)


def consumed(broker: BrokerThread, topic: str, count: int) -> list[Any]:
    """The first records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = consumer.consume(count, 20)
        assert len(found) == count
        return found
    finally:
        consumer.close()


def produce(broker: BrokerThread, topic: str, *values: bytes, **settings: Any) -> None:
    """Produce records, and have them acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for value in values:
        producer.produce(topic, value, key=b"k", partition=0)
    assert producer.flush(20) == 0


def test_what_is_published_by_amqp_is_read_by_kafkas_consumers(start: Start) -> None:
    here = start()
    here.declare("my_orders")
    here.publish(b"a", b"b", key="my_orders", content_type="text/plain")
    first, second = consumed(here.broker, "__amqp.queue.my__orders", 2)
    assert (first.key(), first.value(), second.value()) == (b"my_orders", b"a", b"b")
    headers = dict(first.headers())
    assert set(headers) == {"amqp.header", "amqp.exchange"}
    assert b"text/plain" in headers["amqp.header"]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_a_kafka_producer_writes_is_delivered_by_amqp(start: Start, compression: str) -> None:
    here = start()
    here.declare()
    here.client.send(encode_method(1, BasicConsume(queue="q", consumer_tag="c", no_ack=True)))
    here.client.method()
    produce(here.broker, "__amqp.queue.q", b"a", b"b", **{"compression.type": compression})
    assert [here.client.received()[1] for _ in range(2)] == [b"a", b"b"]


def test_what_both_write_is_delivered_in_the_order_of_the_log(start: Start) -> None:
    here = start()
    here.declare()
    here.publish(b"a")
    produce(here.broker, "__amqp.queue.q", b"b")
    here.publish(b"c")
    eventually(lambda: here.ready() == 3)
    assert here.gets() == ["a", "b", "c"]
    produce(here.broker, "__amqp.queue.q", b"d")
    assert start().gets() == ["d"]


def test_any_priority_may_be_written_to_by_kafkas_producers(start: Start) -> None:
    here = start()
    here.declare(arguments={"x-max-priority": 2})
    here.publish(b"low")
    producer = Producer({"bootstrap.servers": here.broker.bootstrap})
    producer.produce("__amqp.queue.q", b"high", partition=2)
    assert producer.flush(20) == 0
    eventually(lambda: here.ready() == 2)
    assert here.gets() == ["high", "low"]


def refused(futures: dict[Any, Any]) -> bool:
    """Tell whether it was refused as a policy's violation."""
    (future,) = futures.values()
    with pytest.raises(KafkaException) as refusal:
        future.result(20)
    return bool(refusal.value.args[0].code() == KafkaError.POLICY_VIOLATION)


def test_kafkas_clients_change_no_queues_topic(start: Start) -> None:
    here = start()
    here.declare()
    here.publish(b"a")
    topic = "__amqp.queue.q"
    admin = AdminClient({"bootstrap.servers": here.broker.bootstrap})
    assert refused(admin.create_topics([NewTopic("__amqp.queue.r", 1, 1)]))
    assert refused(admin.create_partitions([NewPartitions(topic, 2)]))
    compaction = ConfigEntry(
        "cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[compaction])
    assert refused(admin.incremental_alter_configs([resource]))
    assert here.gets() == ["a"]


def done(futures: dict[Any, Any]) -> Any:
    """What was answered."""
    (future,) = futures.values()
    return future.result(20)


@pytest.mark.parametrize("before", [2, 3, 5, -1])
def test_records_that_kafkas_clients_delete_are_purged_from_the_queue(
    start: Start, before: int
) -> None:
    here = start()
    here.declare()
    here.publish(b"0", b"1", b"2")
    produce(here.broker, "__amqp.queue.q", b"3", b"4")
    held = here.get(no_ack=False)
    assert held is not None
    admin = AdminClient({"bootstrap.servers": here.broker.bootstrap})
    answer = done(admin.delete_records([TopicPartition("__amqp.queue.q", 0, before)]))
    assert answer.low_watermark == 0, "the message that is out stays, and its segment with it"
    left = ["0", "1", "2", "3", "4"][before:] if before >= 0 else []
    assert here.ready() == len(left)
    here.client.send(encode_method(1, BasicReject(held[1].delivery_tag, True)))
    eventually(lambda: here.ready() == len(left) + 1)
    done(admin.delete_records([TopicPartition("__amqp.queue.q", 0, 1)]))
    assert here.gets() == left, "what came back is purged as what was never out"


def test_more_records_than_there_are_cannot_be_deleted_from_a_queue(start: Start) -> None:
    here = start()
    here.declare()
    here.publish(b"a")
    admin = AdminClient({"bootstrap.servers": here.broker.bootstrap})
    with pytest.raises(KafkaException) as refusal:
        done(admin.delete_records([TopicPartition("__amqp.queue.q", 0, 2)]))
    assert refusal.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE
    assert here.gets() == ["a"]


def test_a_queue_whose_topic_a_kafka_client_deletes_is_deleted_and_its_consumers_told(
    start: Start,
) -> None:
    here = start()
    here.declare()
    here.publish(b"a")
    told: list[str] = []
    port = here.broker.call(lambda server: server.listeners[1].port)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    channel.basic_consume("q", lambda *_: None, consumer_tag="c")
    admin = AdminClient({"bootstrap.servers": here.broker.bootstrap})
    done(admin.delete_topics(["__amqp.queue.q"]))
    assert here.topics() == []
    until = time.monotonic() + 20
    while not told and time.monotonic() < until:
        connection.process_data_events(time_limit=1)
    assert told == ["c"]
    connection.close()
    again = start()
    again.declare()
    assert again.gets() == []


def test_a_topic_of_no_queue_is_not_made_by_who_asks_for_it(start: Start) -> None:
    here = start()
    producer = Producer({"bootstrap.servers": here.broker.bootstrap, "message.timeout.ms": 2000})
    producer.produce("__amqp.queue.nobody", b"a")
    producer.flush(20)
    assert here.topics() == []


def test_a_queue_keeps_all_while_nobody_serves_amqp(start: Start, tmp_path: Path) -> None:
    first = start()
    first.declare()
    first.publish(b"a", b"b")
    first.stop()
    with BrokerThread(directory=str(tmp_path)) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert refused(admin.delete_records([TopicPartition("__amqp.queue.q", 0, 1)]))
        assert refused(admin.delete_topics(["__amqp.queue.q"]))
        assert [record.value for record in broker.records("__amqp.queue.q")] == [b"a", b"b"]
    assert start().gets() == ["a", "b"]
