"""Everything that clients of AMQP and `headrace amqp` can read, as JSON."""

import time
from typing import Any

import pika

from tests.support.version_before.fill_amqp import QUEUES, connected
from tests.support.version_before.stored_broker import PASSWORDS, StoredBroker

STREAMS = ("stream", "topic-stream")
SHOP = ("own.queue", "read.me")
LISTED = ("vhost", "user", "exchange", "binding", "permission", "topic-permission", "queue")
COUNTS = ("connections", "consumers")
"""Counts of clients that are connected while it is asked."""
STREAM_QUIET_SECONDS = 3


def plain(value: object) -> Any:
    """A field value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def message(method: Any, properties: Any, body: bytes) -> dict[str, Any]:
    """A delivery without its tag."""
    given = {key: plain(item) for key, item in vars(properties).items() if item is not None}
    return {
        "body": body.decode(),
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "redelivered": method.redelivered,
        "properties": given,
    }


def queue(channel: Any, name: str) -> list[dict[str, Any]]:
    """All messages of a queue in their order; none of them is acknowledged."""
    found: list[dict[str, Any]] = []
    while True:
        method, properties, body = channel.basic_get(name)
        if method is None:
            return found
        found.append(message(method, properties, body))


def stream(channel: Any, name: str) -> list[dict[str, Any]]:
    """All messages of a stream from its first offset."""
    found: list[dict[str, Any]] = []
    channel.basic_qos(prefetch_count=1000)

    def delivered(_: Any, method: Any, properties: Any, body: bytes) -> None:
        found.append(message(method, properties, body))

    tag = channel.basic_consume(name, delivered, arguments={"x-stream-offset": "first"})
    seen, quiet_from = 0, time.monotonic()
    while time.monotonic() < quiet_from + STREAM_QUIET_SECONDS:
        channel.connection.process_data_events(0.2)
        if len(found) > seen:
            seen, quiet_from = len(found), time.monotonic()
    channel.basic_cancel(tag)
    return found


def listed(broker: StoredBroker) -> dict[str, Any]:
    """Each list of `headrace amqp`, of both vhosts."""
    found = {}
    for kind in LISTED:
        rows: list[dict[str, Any]] = []
        vhosts = ["/", "shop"] if kind in ("exchange", "binding", "queue") else [None]
        for vhost in vhosts:
            rows += broker.ask("amqp", kind, "list", *(["--vhost", vhost] if vhost else []))
        for row in rows:
            for name in COUNTS:
                row.pop(name, None)
        found[kind] = sorted(rows, key=str)
    return found


def opened(broker: StoredBroker) -> dict[str, str]:
    """Which vhosts each user may open."""
    found = {}
    for user, password in PASSWORDS.items():
        for vhost in ("/", "shop"):
            try:
                connected(broker, user, password, vhost).close()
                found[f"{user} {vhost}"] = "opened"
            except pika.exceptions.AMQPConnectionError:
                found[f"{user} {vhost}"] = "refused"
    return found


def declared_again(channel: Any) -> bool:
    """Declare every queue with its arguments: a difference closes the channel."""
    for name, arguments in QUEUES.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
    return True


def observe_amqp(broker: StoredBroker) -> dict[str, Any]:
    """Read everything; messages are redelivered afterwards."""
    found: dict[str, Any] = {"listed": listed(broker), "opened": opened(broker)}
    connection = connected(broker)
    channel = connection.channel()
    found["declared_again"] = declared_again(channel)
    found["queues"] = {name: queue(channel, name) for name in QUEUES if name not in STREAMS}
    found["streams"] = {name: stream(channel, name) for name in STREAMS}
    connection.close()
    connection = connected(broker, "alice", PASSWORDS["alice"], "shop")
    channel = connection.channel()
    found["shop"] = {name: queue(channel, name) for name in SHOP}
    connection.close()
    return found
