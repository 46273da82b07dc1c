"""State of AMQP: vhosts, users, permissions, exchanges, bindings, queues and their messages."""

from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.version_before.stored_broker import StoredBroker

STREAM = {"x-queue-type": "stream"}
QUEUES: dict[str, dict[str, Any]] = {
    "classic": {},
    "priorities": {"x-max-priority": 3},
    "quorum": {"x-queue-type": "quorum", "x-delivery-limit": 9},
    "limited": {"x-max-length": 5, "x-overflow": "drop-head"},
    "dead": {},
    "rejecting": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    "kept": {"x-headrace-retention": "400000D"},
    "single": {"x-single-active-consumer": True, "x-message-ttl": 2**31 - 1},
    "stream": {**STREAM, "x-max-length-bytes": 10_000_000_000},
    "topic-stream": {**STREAM, "x-headrace-topic": "v-read-by-amqp"},
}
"""Durable queues of the vhost /, with their arguments."""
BINDINGS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("v.topic", "classic", "a.#", {}),
    ("v.topic", "quorum", "*.b", {}),
    ("v.direct", "classic", "k", {}),
    ("v.fanout", "limited", "", {}),
    ("v.headers", "dead", "", {"x-match": "all", "colour": "red", "size": 7}),
    ("v.stored", "classic", "s", {}),
    ("amq.topic", "stream", "stream.#", {}),
]
"""(exchange, queue, routing key, arguments)."""


def connected(
    broker: StoredBroker, user: str = "guest", password: str = "guest", vhost: str = "/"
) -> Any:
    """A blocking connection of pika."""
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1", broker.amqp_port, vhost, pika.PlainCredentials(user, password)
        )
    )


def administration(broker: StoredBroker) -> None:
    """Store a vhost, tags, permissions and topic permissions."""
    for words in (
        ["vhost", "create", "shop", "--max-connections", "100", "--max-queues", "50",
         "--description", "of the shop"],
        ["user", "alter", "alice", "--tag", "monitoring", "--max-connections", "20"],
        ["permission", "set", "alice", r"^own\.", r"^own\.|^amq\.", ".*", "--vhost", "shop"],
        ["permission", "set", "bob", "", "", "^read", "--vhost", "/"],
        ["topic-permission", "set", "alice", "amq.topic", r"^{username}\.", ".*",
         "--vhost", "shop"],
    ):  # fmt: skip
        broker.run("amqp", *words)


def declare(channel: BlockingChannel) -> None:
    """Declare QUEUES, exchanges of each type, and BINDINGS."""
    for kind in ("topic", "direct", "fanout", "headers"):
        arguments = {"alternate-exchange": "v.fanout"} if kind == "direct" else {}
        channel.exchange_declare(f"v.{kind}", kind, durable=True, arguments=arguments)
    channel.exchange_declare(
        "v.stored",
        "direct",
        durable=True,
        arguments={"x-headrace-topic": "v-exchange", "x-headrace-key-header": "key"},
    )
    channel.exchange_declare("v.inner", "fanout", durable=True, internal=True)
    channel.exchange_bind("v.inner", "v.topic", "inner.*")
    for name, arguments in QUEUES.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
    for exchange, queue, key, arguments in BINDINGS:
        channel.queue_bind(queue, exchange, key, arguments)


def publish(channel: BlockingChannel, exchange: str, key: str, body: str, **more: Any) -> None:
    """Publish a persistent message; it is confirmed when this returns."""
    properties = pika.BasicProperties(delivery_mode=2, message_id=body, **more)
    channel.basic_publish(exchange, key, body.encode(), properties)


def messages(channel: BlockingChannel) -> None:
    """Publish to each queue, by its name and by bindings."""
    channel.confirm_delivery()
    for queue in QUEUES:
        if queue in ("dead", "topic-stream"):
            continue
        for number in range(8):
            priority = number % 4 if queue == "priorities" else None
            headers: dict[str, Any] = {"n": number, "text": "é", "list": [1, {"deep": True}]}
            publish(channel, "", queue, f"{queue}-{number}", priority=priority, headers=headers)
    publish(channel, "v.topic", "a.b", "by-topic", content_type="text/plain", timestamp=1_700_000)
    publish(channel, "v.direct", "unbound", "by-alternate")
    publish(channel, "v.headers", "", "by-headers", headers={"colour": "red", "size": 7})
    publish(channel, "v.stored", "s", "by-stored", headers={"key": "the key", "more": "1"})
    publish(channel, "amq.topic", "stream.x", "by-stream")
    publish(channel, "", "topic-stream", "by-topic-stream")


def settle(channel: BlockingChannel) -> None:
    """Acknowledge every other message of some queues, reject and requeue others."""
    for queue in ("classic", "priorities", "quorum", "kept"):
        for number in range(6):
            method, _, _ = channel.basic_get(queue)
            assert method is not None
            if number % 2:
                channel.basic_ack(method.delivery_tag)
            elif number == 4:
                channel.basic_nack(method.delivery_tag, requeue=True)
    for _ in range(3):
        method, _, _ = channel.basic_get("rejecting")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)


def in_shop(broker: StoredBroker) -> None:
    """As a user with permissions of the vhost shop."""
    broker.run(
        "amqp", "queue", "declare", "read.me", "--vhost", "shop", "--argument", "x-max-length=9"
    )
    connection = connected(broker, "alice", "alice-secret", "shop")
    channel = connection.channel()
    channel.queue_declare("own.queue", durable=True)
    channel.confirm_delivery()
    publish(channel, "", "own.queue", "of alice", user_id="alice")
    connection.close()


def fill_amqp(broker: StoredBroker) -> list[Any]:
    """Write all of it; the connection returned holds unacknowledged messages and must be kept."""
    administration(broker)
    connection = connected(broker)
    channel = connection.channel()
    declare(channel)
    messages(channel)
    settle(channel)
    in_shop(broker)
    connection.sleep(1)  # settled state is on disk after 100 ms, or one flush
    return [connection]
