"""Streams that read a Kafka topic: what Kafka's producers write, pika reads, and the reverse."""

import datetime
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pika.exceptions import AMQPError

from headrace.queue_stores.record_messages import HEADERS_BYTES_MAX
from headrace.testing import BrokerThread
from tests.support.amqp.topics import (
    CONFIG,
    SECONDS,
    confirming,
    connected,
    create,
    records,
    stored,
)
from tests.support.processes.process import BrokerProcess, free_port
from tests.support.queues.read_topics import (
    TOPIC,
    Reading,
    declare,
    produce,
    publish,
    read,
    reading,
)
from tests.support.queues.restarts import SETTINGS, eventually


def numbered(*numbers: int) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in numbers]


# Reading


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_kafkas_producers_write_is_read_from_where_a_consumer_wants(
    broker: BrokerThread, connection: Any, compression: str
) -> None:
    channel = reading(broker, connection)
    assert channel.queue_declare("s", passive=True).method.message_count == 0
    settings = {"compression.type": compression}
    produce(broker, b"0", b"1", b"2", **settings)
    time.sleep(1.1)  # times of RabbitMQ's arguments are whole seconds
    between = datetime.datetime.now(datetime.UTC)
    produce(broker, b"3", **settings)
    assert read(connection, 4) == numbered(0, 1, 2, 3)
    assert read(connection, 2, 2) == numbered(2, 3)
    assert read(connection, 1, "last") == numbered(3)
    assert read(connection, 1, between) == numbered(3)
    assert read(connection, 4, "1h") == numbered(0, 1, 2, 3)
    follower = Reading(connection, "next")
    assert follower.until(0) == []
    produce(broker, b"4", b"5", **settings)
    assert follower.until(2) == numbered(4, 5)
    assert channel.queue_declare("s", passive=True).method.message_count == 6


def test_a_record_is_a_message_with_its_key_and_its_headers(
    broker: BrokerThread, connection: Any
) -> None:
    reading(broker, connection)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    headers = [("trace", b"7"), ("none", None), ("raw", b"\xff"), ("amqp.header", b"junk")]
    producer.produce(TOPIC, b"body", key=b"a.b", headers=headers, partition=0)
    producer.produce(TOPIC, None, key=b"tombstone", partition=0)
    producer.produce(TOPIC, b"no key", partition=0)
    producer.produce(TOPIC, b"", headers=[("large", bytes(HEADERS_BYTES_MAX))], partition=0)
    assert producer.flush(SECONDS) == 0
    reader = Reading(connection)
    assert reader.until(4) == [(0, b"body"), (1, b""), (2, b"no key"), (3, b"")]
    (method, properties, _), *others = reader.messages
    assert (method.exchange, method.routing_key, properties.delivery_mode) == ("", "a.b", 2)
    wanted = {"trace": "7", "none": None, "raw": b"\xff", "x-stream-offset": 0}
    assert properties.headers == wanted
    assert [other[0].routing_key for other in others] == ["tombstone", "", ""]
    assert [other[1].headers for other in others] == [
        {"x-stream-offset": offset} for offset in (1, 2, 3)
    ]


def test_filters_go_by_the_headers_of_records(broker: BrokerThread, connection: Any) -> None:
    reading(broker, connection)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(6):
        value = [("x-stream-filter-value", b"even" if number % 2 == 0 else b"odd")]
        producer.produce(TOPIC, b"%d" % number, headers=value, partition=0)
    assert producer.flush(SECONDS) == 0
    channel = connection.channel()
    channel.basic_qos(prefetch_count=10)
    found: list[bytes] = []
    wanted = {"x-stream-offset": "first", "x-stream-filter": "odd"}
    channel.basic_consume("s", lambda *delivered: found.append(delivered[3]), arguments=wanted)
    deadline = time.monotonic() + SECONDS
    while len(found) < 3 and time.monotonic() < deadline:
        connection.process_data_events(0.05)
    connection.process_data_events(0.1)
    assert found == [b"1", b"3", b"5"]


def test_what_is_aborted_or_undecided_is_not_read(broker: BrokerThread, connection: Any) -> None:
    reading(broker, connection)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(SECONDS)
    reader = Reading(connection)
    for body, commit in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.produce(TOPIC, body, partition=0)
        producer.flush(SECONDS)
        produce(broker, b"beside")
        assert (0, body) not in reader.until(0)
        assert len(reader.found) == (0 if body == b"aborted" else 1)
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
        reader.until(3 if commit else 1)
    assert reader.found == [(1, b"beside"), (3, b"committed"), (4, b"beside")]


def test_a_topic_whose_first_records_are_deleted_is_read_from_where_it_begins(
    broker: BrokerThread, connection: Any
) -> None:
    reading(broker, connection)
    produce(broker, *(b"%d" % number for number in range(10)))
    reader = Reading(connection)
    assert reader.until(10) == numbered(*range(10))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (answer,) = admin.delete_records([TopicPartition(TOPIC, 0, 4)]).values()
    assert answer.result(SECONDS).low_watermark == 4
    assert read(connection, 6) == numbered(*range(4, 10))
    assert read(connection, 6, 2) == numbered(*range(4, 10))


def test_several_streams_read_one_topic_and_leave_it_when_they_are_deleted(
    broker: BrokerThread, connection: Any
) -> None:
    channel = reading(broker, connection)
    declare(channel, "other")
    produce(broker, b"0")
    readers = [Reading(connection, queue=name) for name in ("s", "other", "s")]
    assert [reader.until(1) for reader in readers] == [numbered(0)] * 3
    assert channel.queue_delete("s").method.message_count == 0
    readers[0].until_cancelled()
    readers[2].until_cancelled()
    produce(broker, b"1")
    assert readers[1].until(2) == numbered(0, 1)
    assert [record.value() for record in records(broker, TOPIC, 2, 1)] == [b"0", b"1"]
    assert declare(channel).method.message_count == 2
    assert read(connection, 2) == numbered(0, 1)
    assert "__amqp.queue.s" not in broker.call(lambda server: server.broker.image.topics)


# Publishing


def test_what_is_published_to_it_is_stored_in_the_topic_once(
    broker: BrokerThread, connection: Any
) -> None:
    reading(broker, connection)
    channel = confirming(connection)
    channel.exchange_declare(**stored("shop", TOPIC, exchange_type="fanout"))
    keyed = {"x-headrace-topic": TOPIC, "x-headrace-key-header": "id"}
    channel.exchange_declare("keyed", "fanout", durable=True, arguments=keyed)
    channel.exchange_declare("front", "fanout", durable=True)
    channel.queue_declare("plain", durable=True)
    for exchange in ("shop", "keyed", "front"):
        channel.queue_bind("s", exchange)
    channel.queue_bind("plain", "front")
    publish(channel, b"0", headers={"a": "b"})
    for number, exchange in enumerate(("shop", "keyed", "front"), 1):
        publish(channel, b"%d" % number, "k", exchange, headers={"id": "7"})
    found = records(broker, TOPIC, 4, 1)
    assert [record.value() for record in found] == [b"0", b"1", b"2", b"3"]
    assert [record.key() for record in found] == [b"s", b"k", b"7", b"k"]
    assert dict(found[0].headers())["a"] == b"b"
    assert read(connection, 4) == numbered(0, 1, 2, 3)
    assert channel.basic_get("plain", auto_ack=True)[2] == b"3"
    # With CC as with one key.
    publish(channel, b"4", "nobody", headers={"CC": ["s", "plain"]})
    assert read(connection, 1, "last") == numbered(4)
    assert channel.basic_get("plain", auto_ack=True)[2] == b"4"


def test_the_key_may_be_that_of_a_header_and_a_transaction_publishes_too(
    broker: BrokerThread, connection: Any
) -> None:
    create(broker, TOPIC, 1)
    channel = connection.channel()
    declare(channel, **{"x-headrace-key-header": "id"})
    channel.tx_select()
    publish(channel, b"0", headers={"id": "7"})
    channel.tx_rollback()
    publish(channel, b"1", headers={"id": "8"})
    channel.tx_commit()
    (record,) = records(broker, TOPIC, 1, 1)
    assert (record.key(), record.value()) == (b"8", b"1")


def test_dead_letters_come_by_an_exchange_that_is_bound_and_not_by_the_default_one(
    broker: BrokerThread, connection: Any
) -> None:
    """There nobody is asked who may write to the topic."""
    reading(broker, connection)
    channel = confirming(connection)
    channel.exchange_declare("dead", "fanout")
    channel.queue_bind("s", "dead")
    for name, exchange in (("straight", ""), ("bound", "dead")):
        letters = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "s"}
        channel.queue_declare(name, arguments=letters | {"x-message-ttl": 0})
        publish(channel, name.encode(), name)
    eventually(lambda: channel.queue_declare("bound", passive=True).method.message_count == 0)
    assert [body for _, body in read(connection, 1)] == [b"bound"]
    assert channel.queue_declare("straight", passive=True).method.message_count == 0


# Lives


def test_it_outlives_a_restart_and_readers_go_on_by_number(tmp_path: Path) -> None:
    with BrokerThread(CONFIG, directory=str(tmp_path)) as broker, connected(broker) as connection:
        reading(broker, connection)
        produce(broker, b"0", b"1")
        assert read(connection, 2) == numbered(0, 1)
    with BrokerThread(CONFIG, directory=str(tmp_path)) as broker, connected(broker) as connection:
        kept = connection.channel().queue_declare("s", passive=True)
        assert kept.method.message_count == 2
        assert declare(connection.channel()).method.message_count == 2
        reader = Reading(connection, 1)
        assert reader.until(1) == numbered(1)
        produce(broker, b"2")
        publish(confirming(connection), b"3")
        assert reader.until(3) == numbered(1, 2, 3)


def test_what_a_producer_was_acknowledged_is_read_after_a_kill(tmp_path: Path) -> None:
    port, kafka = free_port(), free_port()
    settings: dict[str, Any] = {name.replace(".", "_"): of for name, of in SETTINGS.items()}
    settings["listeners"] = f"PLAINTEXT://127.0.0.1:{kafka},AMQP://127.0.0.1:{port}"
    broker = BrokerProcess(tmp_path, kafka, **settings)
    broker.start()
    parameters = pika.ConnectionParameters("127.0.0.1", port)
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(SECONDS)
        connection = pika.BlockingConnection(parameters)
        declare(connection.channel())
        produce(broker, b"0", b"1")
        publish(confirming(connection), b"2")
        broker.kill()
        with suppress(AMQPError):
            connection.close()
        broker.start()
        connection = pika.BlockingConnection(parameters)
        produce(broker, b"3")
        assert read(connection, 4) == numbered(0, 1, 2, 3)
        connection.close()
    finally:
        broker.kill()
