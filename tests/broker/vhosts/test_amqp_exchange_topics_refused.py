"""What exchanges do not store in a Kafka topic, and who may not have it stored."""

import time
from collections.abc import Callable
from typing import Any

import pika
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pika.exceptions import ChannelClosedByBroker, NackError

from headrace.testing import BrokerThread
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
from tests.support.queues.restarts import eventually

# What is refused


def test_a_topic_that_was_deleted_refuses_publishes_until_it_is_there_again(
    broker: BrokerThread, connection: Any
) -> None:
    create(broker, "orders")
    connection.channel().exchange_declare(**stored("shop", "orders"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["orders"])["orders"].result(SECONDS)
    eventually(lambda: "orders" not in broker.call(lambda server: server.broker.image.topics))
    code, told = closed(lambda: confirming(connection).basic_publish("shop", "k", b"x"))
    assert (code, told) == (
        404,
        "NOT_FOUND - no Kafka topic 'orders', in which the exchange stores its messages: create it"
        " again, or delete the exchange",
    )
    connection.channel().exchange_declare(**stored("shop", "orders"))  # makes it again
    confirming(connection).basic_publish("shop", "k", b"y", pika.BasicProperties(delivery_mode=2))
    assert [record.value() for record in records(broker, "orders", 1)] == [b"y"]


def test_a_message_that_the_topic_may_not_take_closes_the_channel(
    broker: BrokerThread, connection: Any
) -> None:
    create(broker, "small", max_message_bytes="1000")
    create(broker, "compacted", cleanup_policy="compact")
    for topic in ("small", "compacted"):
        connection.channel().exchange_declare(**stored(topic, topic, exchange_type="fanout"))
    code, told = closed(lambda: confirming(connection).basic_publish("small", "k", bytes(1000)))
    assert (code, "message too large for Kafka topic 'small'" in told) == (406, True), told
    code, told = closed(lambda: confirming(connection).basic_publish("compacted", "", b"x"))
    assert (code, "message without a key for Kafka topic 'compacted'" in told) == (406, True), told
    confirming(connection).basic_publish("compacted", "k", b"x")
    confirming(connection).basic_publish("small", "k", bytes(500))
    assert len(records(broker, "compacted", 1)) == 1


def test_what_the_partition_does_not_take_is_nacked(broker: BrokerThread, connection: Any) -> None:
    create(broker, "orders", 1)
    channel = confirming(connection)
    channel.exchange_declare(**stored("shop", "orders"))

    def resign(server: Any) -> None:
        server.broker.partition("orders", 0).role.resign()

    broker.call(resign)
    with pytest.raises(NackError):
        channel.basic_publish("shop", "k", b"x", pika.BasicProperties(delivery_mode=2))


def test_write_on_the_topic_is_asked_when_declaring_and_at_each_publish() -> None:
    config = CONFIG | {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with BrokerThread(config) as broker, connected(broker) as connection:
        create(broker, "orders")
        refusal = (403, "ACCESS_REFUSED - write access to Kafka topic 'orders' refused for user"
                        " 'guest'")  # fmt: skip
        declared = stored("shop", "orders", exchange_type="fanout")
        assert closed(lambda: connection.channel().exchange_declare(**declared)) == refusal
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        may_write = ("orders", ResourcePatternType.LITERAL, "User:guest", "*", AclOperation.WRITE,
                     AclPermissionType.ALLOW)  # fmt: skip
        binding = AclBinding(ResourceType.TOPIC, *may_write)
        admin.create_acls([binding])[binding].result(SECONDS)
        front = connection.channel()
        _soon(lambda: connection.channel().exchange_declare(**declared))
        front.exchange_declare("front", "fanout")
        front.exchange_bind("shop", "front")
        channel, ahead = confirming(connection), confirming(connection)
        for name in ("shop", "front"):
            channel.basic_publish(name, "k", b"x", pika.BasicProperties(delivery_mode=2))
        admin.delete_acls([AclBindingFilter(ResourceType.TOPIC, *may_write)])
        eventually(lambda: not _may_write(broker))
        assert closed(lambda: channel.basic_publish("shop", "k", b"x")) == refusal
        assert closed(lambda: ahead.basic_publish("front", "k", b"x")) == refusal
        assert closed(lambda: connection.channel().exchange_bind("shop", "amq.topic")) == refusal
        dead = {"x-dead-letter-exchange": "shop"}
        assert closed(lambda: connection.channel().queue_declare("q", arguments=dead)) == refusal
        code, told = closed(lambda: connection.channel().exchange_declare(**stored("e", "new")))
        assert (code, "write access to Kafka topic 'new'" in told) == (403, True)
        assert len(records(broker, "orders", 2)) == 2


def test_to_have_a_topic_made_asks_kafkas_create() -> None:
    config = CONFIG | {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with BrokerThread(config) as broker, connected(broker) as connection:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})

        def allow(kind: ResourceType, name: str, operation: AclOperation) -> None:
            binding = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:guest", "*",
                                 operation, AclPermissionType.ALLOW)  # fmt: skip
            admin.create_acls([binding])[binding].result(SECONDS)

        allow(ResourceType.TOPIC, "new", AclOperation.WRITE)
        eventually(lambda: _may_write(broker, "new"))
        code, told = closed(lambda: connection.channel().exchange_declare(**stored("e", "new")))
        assert (code, "configure access to Kafka topic 'new' refused" in told) == (403, True), told
        allow(ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE)
        _soon(lambda: connection.channel().exchange_declare(**stored("e", "new")))
        assert "new" in broker.call(lambda server: server.broker.image.topics)


def _may_write(broker: BrokerThread, topic: str = "orders") -> bool:
    from headrace.security.authorizer import Operation, Resource
    from headrace.security.authorizer import ResourceType as Kind
    from tests.support.amqp.access import identity_of

    return broker.call(
        lambda server: server.broker.authorizer.allows(
            identity_of("guest"), Operation.WRITE, Resource(Kind.TOPIC, topic)
        )
    )


def _soon(declare: Callable[[], object]) -> None:
    """Declare once the rule that allows it has come through."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            declare()
        except ChannelClosedByBroker:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return
