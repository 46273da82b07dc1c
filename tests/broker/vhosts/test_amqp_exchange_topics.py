"""Exchanges that store their messages in a Kafka topic, with pika and confluent-kafka."""

from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka import Producer

from headrace.queues.model.exchange_topic import KEY_HEADER, TOPIC
from headrace.testing import BrokerThread
from headrace.wire.amqp.properties import read_properties
from tests.support.amqp.topics import (
    CONFIG,
    SECONDS,
    closed,
    confirming,
    connected,
    create,
    records,
    stored,
)

# What is stored


def test_a_message_is_one_record_with_its_key_headers_and_properties(
    broker: BrokerThread, connection: Any
) -> None:
    create(broker, "orders")
    channel = confirming(connection)
    channel.exchange_declare(**stored("shop", "orders", exchange_type="fanout"))
    headers = {"n": 7, "name": "Zoë", "raw": b"\xff", "on": True, "none": None, "list": [1, "a"]}
    properties = pika.BasicProperties("text/plain", headers=headers, delivery_mode=2, priority=3)
    channel.basic_publish("shop", "eu.42", b"one", properties, mandatory=True)
    (record,) = records(broker, "orders", 1)
    assert (record.key(), record.value()) == (b"eu.42", b"one")
    found = dict(record.headers())
    content_header = found.pop("amqp.header")
    assert found == {
        "n": b"7",
        "name": "Zoë".encode(),
        "raw": b"\xff",
        "on": b"true",
        "none": None,
        "list": b'[1,"a"]',
        "amqp.exchange": b"shop",
    }
    rebuilt = read_properties(content_header)
    assert (rebuilt.content_type, rebuilt.priority, rebuilt.delivery_mode) == ("text/plain", 3, 2)
    assert rebuilt.headers == headers


def test_keys_go_to_the_partitions_that_javas_partitioner_chooses(
    broker: BrokerThread, connection: Any
) -> None:
    create(broker, "orders", 7)
    channel = confirming(connection)
    channel.exchange_declare(**stored("shop", "orders"))
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    for number in range(20):
        channel.basic_publish("shop", f"key {number}", b"amqp")
        producer.produce("orders", b"kafka", key=f"key {number}")
    assert producer.flush(SECONDS) == 0
    places: dict[bytes, set[int]] = {}
    for record in records(broker, "orders", 40, 7):
        places.setdefault(record.key(), set()).add(record.partition())
    assert len(places) == 20
    assert all(len(partitions) == 1 for partitions in places.values())
    assert len(set.union(*places.values())) > 3


def test_the_key_may_be_a_header(broker: BrokerThread, connection: Any) -> None:
    create(broker, "orders")
    channel = confirming(connection)
    arguments = {TOPIC: "orders", KEY_HEADER: "customer"}
    channel.exchange_declare("shop", durable=True, arguments=arguments)
    channel.basic_publish("shop", "rk", b"a", pika.BasicProperties(headers={"customer": 42}))
    channel.basic_publish("shop", "rk", b"b", pika.BasicProperties(headers={"other": 1}))
    found = {record.value(): record for record in records(broker, "orders", 2)}
    assert (found[b"a"].key(), found[b"b"].key()) == (b"42", None)
    for record in found.values():
        assert dict(record.headers())["amqp.routing.key"] == b"rk"


def test_what_has_no_key_is_spread_over_all_partitions(
    broker: BrokerThread, connection: Any
) -> None:
    create(broker, "orders")
    channel = confirming(connection)
    channel.exchange_declare(**stored("shop", "orders", exchange_type="fanout"))
    for _ in range(6):  # each waits for its confirm, so each is a batch of its own
        channel.basic_publish("shop", "", b"x")
    found = records(broker, "orders", 6)
    assert [record.partition() for record in found] == [0, 0, 1, 1, 2, 2]
    assert {record.key() for record in found} == {None}


@pytest.mark.parametrize("codec", ["uncompressed", "lz4", "gzip"])
def test_the_topics_codec_is_used_and_order_is_kept(
    broker: BrokerThread, connection: Any, codec: str
) -> None:
    create(broker, "orders", 1, compression_type=codec)
    channel = connection.channel()
    channel.exchange_declare(**stored("shop", "orders"))
    for number in range(300):
        channel.basic_publish("shop", "k", b"%d " % number + bytes(1000))
    confirms = confirming(connection)
    confirms.basic_publish("shop", "k", b"last", pika.BasicProperties(delivery_mode=2))
    found = [record.value().split(b" ")[0] for record in records(broker, "orders", 301, 1)]
    assert found == [b"%d" % number for number in range(300)] + [b"last"]
    size = broker.call(
        lambda server: sum(
            segment.size for segment in server.broker.partition("orders", 0).log.segments
        )
    )
    assert (size > 300_000) is (codec == "uncompressed")


def test_bound_queues_get_their_own_copy_and_the_topic_has_one(
    broker: BrokerThread, connection: Any
) -> None:
    create(broker, "orders")
    channel = confirming(connection)
    channel.exchange_declare(**stored("shop", "orders", exchange_type="topic"))
    channel.exchange_declare("front", "fanout")
    channel.exchange_declare(**stored("again", "orders", exchange_type="fanout"))
    channel.exchange_bind("shop", "front")
    channel.exchange_bind("again", "front")
    for name in ("one", "two"):
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "shop", "eu.#")
    persistent = pika.BasicProperties(delivery_mode=2)
    channel.basic_publish("front", "eu.1", b"hello", persistent, mandatory=True)
    assert [channel.basic_get(name, True)[2] for name in ("one", "two")] == [b"hello", b"hello"]
    (record,) = records(broker, "orders", 1)
    assert dict(record.headers())["amqp.exchange"] == b"front"


def test_stored_counts_as_routed_and_the_alternate_exchange_is_not_asked(
    broker: BrokerThread, connection: Any
) -> None:
    create(broker, "orders")
    channel = confirming(connection)
    channel.exchange_declare("other", "fanout")
    channel.queue_declare("other")
    channel.queue_bind("other", "other")
    arguments = {TOPIC: "orders", "alternate-exchange": "other"}
    channel.exchange_declare("shop", "direct", arguments=arguments)
    channel.basic_publish("shop", "nobody", b"x", mandatory=True)
    assert channel.basic_get("other")[0] is None
    assert len(records(broker, "orders", 1)) == 1


def test_dead_letters_are_stored(broker: BrokerThread, connection: Any) -> None:
    create(broker, "dead")
    channel = confirming(connection)
    channel.exchange_declare(**stored("graves", "dead", exchange_type="fanout"))
    arguments = {"x-dead-letter-exchange": "graves"}
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.basic_publish("", "q", b"x", pika.BasicProperties(delivery_mode=2))
    method, _, _ = channel.basic_get("q")
    channel.basic_nack(method.delivery_tag, requeue=False)
    (record,) = records(broker, "dead", 1)
    headers = dict(record.headers())
    assert headers["x-first-death-queue"] == b"q"
    assert b'"reason":"rejected"' in headers["x-death"]


def test_a_transaction_is_stored_when_it_commits(broker: BrokerThread, connection: Any) -> None:
    create(broker, "orders", 1)
    channel = connection.channel()
    channel.exchange_declare(**stored("shop", "orders"))
    channel.tx_select()
    channel.basic_publish("shop", "k", b"no")
    channel.tx_rollback()
    channel.basic_publish("shop", "k", b"yes", pika.BasicProperties(delivery_mode=2))
    channel.tx_commit()
    assert [record.value() for record in records(broker, "orders", 1, 1)] == [b"yes"]


# Declaring


def test_a_missing_topic_is_made_where_that_is_allowed(
    broker: BrokerThread, connection: Any
) -> None:
    channel = confirming(connection)
    channel.exchange_declare(**stored("shop", "made.by.itself"))
    topics = broker.call(lambda server: server.broker.image.topics)
    assert len(topics["made.by.itself"].partitions) == 3
    channel.basic_publish("shop", "k", b"x", pika.BasicProperties(delivery_mode=2))
    assert len(records(broker, "made.by.itself", 1)) == 1


def test_a_missing_topic_is_refused_where_topics_are_not_made_by_themselves() -> None:
    config = CONFIG | {"auto.create.topics.enable": "false"}
    with BrokerThread(config) as broker, connected(broker) as connection:
        refusal = closed(lambda: connection.channel().exchange_declare(**stored("shop", "none")))
        assert refusal == (
            404,
            "NOT_FOUND - no Kafka topic 'none' for exchange 'shop' in vhost '/': create it first,"
            " for auto.create.topics.enable is false",
        )
        assert closed(lambda: connection.channel().exchange_declare("shop", passive=True))[0] == 404
        create(broker, "none")
        connection.channel().exchange_declare(**stored("shop", "none"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({TOPIC: 5}, "invalid type 'signedint' for arg 'x-headrace-topic' in"),
        ({TOPIC: "a b"}, "contains characters other than ASCII letters"),
        ({TOPIC: "__amqp.queue.q"}, "it is kept for a queue's messages: publish to the queue"),
        ({TOPIC: "__consumer_offsets"}, "it is the broker's own"),
        ({TOPIC: "__cluster_metadata"}, "it is the broker's own"),
        ({KEY_HEADER: "k"}, "it needs 'x-headrace-topic' beside it"),
        ({TOPIC: "t", KEY_HEADER: ""}, "a header's name has 1 to 255 bytes"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    connection: Any, arguments: dict[str, Any], text: str
) -> None:
    code, told = closed(lambda: connection.channel().exchange_declare("shop", arguments=arguments))
    assert (code, text in told) == (406, True), told


def test_an_exchange_is_the_same_only_with_the_same_topic_and_key(
    broker: BrokerThread, connection: Any
) -> None:
    arguments = {TOPIC: "orders", KEY_HEADER: "k"}
    connection.channel().exchange_declare("shop", arguments=arguments)
    connection.channel().exchange_declare("shop", arguments=arguments)
    for other in ({}, {TOPIC: "orders"}, arguments | {TOPIC: "t"}, arguments | {KEY_HEADER: "l"}):
        declare = partial(connection.channel().exchange_declare, "shop", arguments=other)
        code, told = closed(declare)
        assert (code, "inequivalent arg 'x-headrace-" in told) == (406, True), told
    code, told = closed(
        lambda: connection.channel().exchange_declare(
            "amq.direct", durable=True, arguments=arguments
        )
    )
    assert "inequivalent arg" in told


def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    with BrokerThread(CONFIG, directory=str(tmp_path)) as broker, connected(broker) as connection:
        channel = connection.channel()
        arguments = {TOPIC: "orders", KEY_HEADER: "k"}
        channel.exchange_declare("shop", durable=True, arguments=arguments)
    with BrokerThread(CONFIG, directory=str(tmp_path)) as broker, connected(broker) as connection:
        channel = confirming(connection)
        properties = pika.BasicProperties(headers={"k": "key"}, delivery_mode=2)
        channel.basic_publish("shop", "rk", b"x", properties)
        assert [record.key() for record in records(broker, "orders", 1)] == [b"key"]
        channel.exchange_delete("shop")
        assert closed(lambda: channel.basic_publish("shop", "rk", b"x"))[0] == 404
        assert "orders" in broker.call(lambda server: server.broker.image.topics)
