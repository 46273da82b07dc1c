"""RabbitMQ's clients on three brokers: any of them serves all queues, whichever leads them."""

from collections.abc import Callable
from threading import Thread
from typing import Any, Self

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import until

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def publish(channel: BlockingChannel, queue: str, *bodies: str) -> None:
    """Publish persistent messages; return once each is confirmed."""
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), PERSISTENT, mandatory=True)


def consumed(channel: BlockingChannel, queue: str, count: int) -> list[str]:
    """Consume and acknowledge messages; return their bodies."""
    bodies: list[str] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=30):
        assert method is not None, f"only {bodies} in 30 s"
        bodies.append(body.decode())
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == count:
            break
    channel.cancel()
    return bodies


def got(channel: BlockingChannel, queue: str) -> tuple[Any, Any, bytes]:
    """Get and acknowledge the next message, once there is one."""
    found: list[tuple[Any, Any, bytes]] = []

    def take() -> bool:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            found.append((method, properties, body))
        return bool(found)

    until(take, f"a message in {queue}")
    return found[0]


def is_unroutable(channel: BlockingChannel, queue: str) -> bool:
    """Tell whether no queue has this name."""
    try:
        channel.basic_publish("", queue, b"", mandatory=True)
    except UnroutableError:
        return True
    return False


def until_heard(holds: Callable[[], object], what: str, *channels: BlockingChannel) -> None:
    """Have channels handle what arrives until `holds` answers something true."""

    def heard() -> object:
        for channel in channels:
            channel.connection.process_data_events(0.02)
        return holds()

    until(heard, what)


class Consuming:
    """A consumer on a thread, which acknowledges all that it is delivered."""

    def __init__(self, amqp: AmqpCluster, number: int, queue: str) -> None:
        self.bodies: list[str] = []
        self._connection = amqp.connect_to(number)
        self._channel = self._connection.channel()
        self._channel.basic_qos(prefetch_count=20)
        self._channel.basic_consume(queue, self._take)
        self._thread = Thread(target=self._channel.start_consuming)

    def _take(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.bodies.append(body.decode())
        channel.basic_ack(method.delivery_tag)

    def until_has(self, body: str) -> None:
        until(lambda: body in self.bodies, f"{body} is delivered")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.add_callback_threadsafe(self._channel.stop_consuming)
        self._thread.join()
        self._connection.close()


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_queue_is_declared_published_and_consumed_at_three_brokers(
    kind: str, amqp: AmqpCluster
) -> None:
    arguments: Any = {"x-queue-type": kind}
    with (
        amqp.channel(0) as first,
        amqp.channel(1, confirms=True) as second,
        amqp.channel(2) as third,
    ):
        first.queue_declare(f"q-{kind}", durable=True, arguments=arguments)
        publish(second, f"q-{kind}", *map(str, range(100)))
        assert consumed(third, f"q-{kind}", 100) == [str(number) for number in range(100)]


def test_binding_of_another_broker_routes_and_unroutable_messages_return(
    amqp: AmqpCluster,
) -> None:
    with (
        amqp.channel(0) as first,
        amqp.channel(1) as second,
        amqp.channel(2, confirms=True) as third,
    ):
        first.exchange_declare("events", "topic", durable=True)
        second.queue_declare("orders", durable=True)
        with pytest.raises(UnroutableError):
            third.basic_publish("events", "order.new", b"early", PERSISTENT, mandatory=True)
        second.queue_bind("orders", "events", "order.*")
        third.basic_publish("events", "order.new", b"routed", PERSISTENT, mandatory=True)
        assert consumed(first, "orders", 1) == ["routed"]
        first.queue_unbind("orders", "events", "order.*")
        with pytest.raises(UnroutableError):
            third.basic_publish("events", "order.new", b"late", PERSISTENT, mandatory=True)


def test_exclusive_reply_queue_is_used_by_clients_of_other_brokers(amqp: AmqpCluster) -> None:
    with amqp.channel(0) as first, amqp.channel(1, confirms=True) as second:
        first.queue_declare("requests", durable=True)
        replies = first.queue_declare("", exclusive=True).method.queue
        to = pika.BasicProperties(reply_to=replies)
        first.basic_publish("", "requests", b"2", to)
        _, properties, body = got(second, "requests")
        second.basic_publish("", properties.reply_to, body * 2, mandatory=True)
        assert consumed(first, replies, 1) == ["22"]
        with pytest.raises(ChannelClosedByBroker, match="RESOURCE_LOCKED"):
            second.queue_declare(replies, passive=True)
    with amqp.channel(1, confirms=True) as second:
        until(lambda: is_unroutable(second, replies), "the reply queue is deleted")


def test_deletion_at_another_broker_cancels_consumers_and_empties(amqp: AmqpCluster) -> None:
    cancelled: list[str] = []
    with amqp.channel(0) as first, amqp.channel(1, confirms=True) as second:
        first.queue_declare("short", durable=True)
        first.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        tag = first.basic_consume("short", lambda *_: None, auto_ack=False)
        publish(second, "short", "a", "b")
        second.queue_delete("short")
        until_heard(lambda: cancelled, "basic.cancel", first)
        assert cancelled == [tag]
        assert second.queue_declare("short", durable=True).method.message_count == 0
        assert second.basic_get("short") == (None, None, None)


def test_single_active_consumer_is_followed_by_one_of_another_broker(amqp: AmqpCluster) -> None:
    arguments = {"x-single-active-consumer": True}
    heard: list[tuple[int, str]] = []

    def listen(channel: BlockingChannel, number: int) -> str:
        def take(of: Any, method: Any, properties: Any, body: bytes) -> None:
            heard.append((number, body.decode()))
            of.basic_ack(method.delivery_tag)

        tag: str = channel.basic_consume("single", take)
        return tag

    with (
        amqp.channel(0) as first,
        amqp.channel(1) as second,
        amqp.channel(2, confirms=True) as third,
    ):
        first.queue_declare("single", durable=True, arguments=arguments)
        tag = listen(first, 0)
        listen(second, 1)
        publish(third, "single", "a", "b")
        until_heard(lambda: len(heard) == 2, "both are delivered", first, second)
        assert heard == [(0, "a"), (0, "b")]
        first.basic_cancel(tag)
        publish(third, "single", "c")
        until_heard(lambda: len(heard) == 3, "c is delivered", first, second)
        assert heard[2] == (1, "c")


def test_nothing_confirmed_is_lost_when_the_leader_is_killed(amqp: AmqpCluster) -> None:
    with amqp.channel(0, confirms=True) as first:
        first.queue_declare("kept", durable=True, arguments={"x-queue-type": "quorum"})
        publish(first, "kept", "0")
    leader = amqp.until_queue_led("kept")
    publisher, consumer = (number for number in range(3) if number != leader)
    with Consuming(amqp, consumer, "kept") as consuming:
        with amqp.channel(publisher, confirms=True) as channel:
            publish(channel, "kept", *map(str, range(1, 200)))
            amqp.brokers[leader].kill()
            publish(channel, "kept", *map(str, range(200, 400)))
        amqp.brokers[leader].start()
        with amqp.channel(leader, confirms=True) as channel:
            publish(channel, "kept", "400")
        consuming.until_has("400")
    assert consuming.bodies == [str(number) for number in range(401)]


def test_messages_are_there_after_all_brokers_were_stopped(amqp: AmqpCluster) -> None:
    with amqp.channel(0, confirms=True) as first:
        for name, kind in (("left-quorum", "quorum"), ("left-classic", "classic")):
            first.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
            publish(first, name, *map(str, range(50)))
        first.basic_ack(first.basic_get("left-quorum")[0].delivery_tag)
    amqp.stop()
    amqp.start()
    with amqp.channel(1) as second:
        assert consumed(second, "left-quorum", 49) == [str(number) for number in range(1, 50)]
        assert consumed(second, "left-classic", 50) == [str(number) for number in range(50)]
