"""Actions of pika's clients at three brokers: publish, consume, wait, be refused."""

from collections.abc import Callable
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker
from pika.spec import Basic

from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import until

PERSISTENT = pika.BasicProperties(delivery_mode=2)
Received = list[tuple[Basic.Deliver, pika.BasicProperties, bytes]]


def publish(channel: BlockingChannel, queue: str, *bodies: bytes, exchange: str = "") -> None:
    """Publish persistent messages; return once each is confirmed, and was routed."""
    for body in bodies:
        channel.basic_publish(exchange, queue, body, PERSISTENT, mandatory=True)


def consume(channel: BlockingChannel, queue: str, **settings: Any) -> Received:
    """Begin to consume without acknowledgements; return the list of deliveries to come."""
    received: Received = []
    channel.basic_consume(
        queue,
        lambda _, method, properties, body: received.append((method, properties, body)),
        auto_ack=settings.pop("auto_ack", True),
        **settings,
    )
    return received


def wait(connection: BlockingConnection, holds: Callable[[], object], what: str) -> None:
    """Serve a connection until something holds; fail, naming it, after 20 s."""

    def look() -> object:
        connection.process_data_events(0.05)
        return holds()

    until(look, what, 20)


def bodies(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    """Consume messages; return their bodies."""
    received = consume(channel, queue)
    wait(channel.connection, lambda: len(received) >= count, f"{count} messages of {queue}")
    return [body for _, _, body in received]


def refusal(cluster: AmqpCluster, at: int, method: Callable[[BlockingChannel], object]) -> int:
    """Return the code with which a broker closes the channel of a method; 0: it does not."""
    with cluster.channel(at) as channel:
        try:
            method(channel)
        except ChannelClosedByBroker as closed:
            return int(closed.reply_code)
    return 0


def exists(cluster: AmqpCluster, at: int, queue: str) -> bool:
    return not refusal(cluster, at, lambda channel: channel.queue_declare(queue, passive=True))
