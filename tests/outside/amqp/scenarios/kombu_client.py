"""Scenarios of kombu, over py-amqp."""

import socket
from contextlib import suppress
from typing import Any

import kombu
from kombu.pidbox import Mailbox
from kombu.pools import connections, producers, reset
from kombu.utils.uuid import uuid

from amqp.exceptions import (
    AMQPNotImplementedError,
    MessageNacked,
    NotFound,
    PreconditionFailed,
)
from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import unused
from tests.outside.matrix.scenario import (
    WAIT_SECONDS_MAX,
    Scenarios,
    eventually,
    raises,
)

scenario = Scenarios("kombu", "as used")


def _connection(address: Address, **options: Any) -> Any:
    return kombu.Connection(address.url, connect_timeout=WAIT_SECONDS_MAX, **options)


def _take(connection: Any, queue: Any, count: int, **options: Any) -> list[Any]:
    """So many messages' bodies, acknowledged. AssertionError where they do not come."""
    found: list[Any] = []

    def _got(body: Any, message: Any) -> None:
        found.append(body)
        message.ack()

    def _enough() -> bool:
        with suppress(TimeoutError):
            connection.drain_events(timeout=0.1)
        return len(found) >= count

    with connection.Consumer([queue], callbacks=[_got], **options):
        eventually(_enough, f"{count} messages")
    return found


@scenario
def objects_go_through_as_json_and_as_pickle_compressed(address: Address) -> None:
    with _connection(address) as connection:
        queue = kombu.Queue(unused(), auto_delete=True)
        with connection.Producer() as producer:
            for serializer in ("json", "pickle"):
                options = {"serializer": serializer, "compression": "zlib"}
                producer.publish(
                    {"n": 1, "s": "größe"}, routing_key=queue.name, declare=[queue], **options
                )
        found = _take(connection, queue, 2, accept=["json", "pickle"])
        assert found == [{"n": 1, "s": "größe"}] * 2


@scenario
def maybe_declared_queues_and_exchanges_are_there(address: Address) -> None:
    with _connection(address) as connection:
        exchange = kombu.Exchange(unused("e"), "topic", durable=False, auto_delete=True)
        queue = kombu.Queue(unused(), exchange, "orders.#", auto_delete=True)
        with connection.Producer(exchange=exchange) as producer:
            producer.publish({"id": 1}, routing_key="orders.paid", declare=[queue], retry=True)
            producer.publish({"id": 2}, routing_key="letters", retry=True)
            producer.publish({"id": 3}, routing_key="orders", retry=True)
        assert _take(connection, queue, 2) == [{"id": 1}, {"id": 3}]


@scenario
def priorities_keep_their_order_when_requeued(address: Address) -> None:
    with _connection(address) as connection:
        queue = kombu.Queue(unused(), max_priority=10, auto_delete=True)
        with connection.Producer() as producer:
            for priority in (0, 3, 6, 3, 9):
                producer.publish(
                    priority, routing_key=queue.name, priority=priority, declare=[queue]
                )
        bound = queue(connection.default_channel)
        eventually(lambda: bound.queue_declare(passive=True).message_count == 5, "five messages")
        first = bound.get()
        assert first.payload == 9
        first.requeue()
        assert _take(connection, queue, 5) == [9, 6, 3, 3, 0]


@scenario
def both_modes_of_prefetch_are_served(address: Address) -> None:
    with _connection(address) as connection:
        for apply_global in (False, True):
            queue = kombu.Queue(unused(), auto_delete=True)
            channel = connection.channel()
            with connection.Producer() as producer:
                for number in range(10):
                    producer.publish(number, routing_key=queue.name, declare=[queue])
            got: list[Any] = []
            consumer = kombu.Consumer(channel, [queue], callbacks=[lambda _, m: got.append(m)])  # noqa: B023
            consumer.qos(prefetch_count=3, apply_global=apply_global)
            with consumer:
                _drain(connection)
                assert len(got) == 3, (apply_global, len(got))
                got[0].ack()
                _drain(connection)
                assert len(got) == 4, (apply_global, len(got))
            channel.close()


def _drain(connection: Any) -> None:
    """Take what comes until nothing more does."""
    with suppress(TimeoutError):
        while True:
            connection.drain_events(timeout=0.5)


@scenario
def confirms_are_waited_for(address: Address) -> None:
    with _connection(address, transport_options={"confirm_publish": True}) as connection:
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = kombu.Queue(unused(), auto_delete=True, queue_arguments=arguments)
        with connection.Producer() as producer:
            producer.publish("a", routing_key=queue.name, declare=[queue])
            with raises(MessageNacked):
                producer.publish("b", routing_key=queue.name)
        assert _take(connection, queue, 1) == ["a"]


@scenario
def a_broadcast_reaches_every_listener(address: Address) -> None:
    with _connection(address) as one, _connection(address) as two:
        exchange = kombu.Exchange(unused("e"), "fanout", durable=False, auto_delete=True)
        queues = [kombu.Queue(unused(), exchange, auto_delete=True, durable=False) for _ in "12"]
        for connection, queue in zip((one, two), queues, strict=True):
            queue(connection.default_channel).declare()
        with one.Producer(exchange=exchange) as producer:
            producer.publish({"ping": 1})
        for connection, queue in zip((one, two), queues, strict=True):
            assert _take(connection, queue, 1) == [{"ping": 1}]


@scenario
def a_remote_control_answers(address: Address) -> None:
    """As Celery's: transient queues that are shared, and expire."""
    mailbox = Mailbox(unused("box"), type="direct", accept=["json"])
    with _connection(address) as here, _connection(address) as there:
        node = mailbox(there).Node("node", channel=there.default_channel)
        node.handlers["ping"] = lambda _, n: {"pong": n}
        consumer = node.listen()
        asking = mailbox(here)
        ticket = uuid()
        replies = asking.get_reply_queue()(here.default_channel)
        replies.declare()
        asking._publish(
            "ping", {"n": 7}, destination=["node"], reply_ticket=ticket, timeout=WAIT_SECONDS_MAX
        )
        there.drain_events(timeout=WAIT_SECONDS_MAX)
        answers = asking._collect(ticket, limit=1, timeout=WAIT_SECONDS_MAX)
        assert answers == [{"node": {"pong": 7}}], answers
        consumer.cancel()


@scenario
def connections_and_producers_come_from_pools(address: Address) -> None:
    connection = _connection(address)
    queue = kombu.Queue(unused(), auto_delete=True)
    with producers[connection].acquire(block=True, timeout=WAIT_SECONDS_MAX) as producer:
        producer.publish("pooled", routing_key=queue.name, declare=[queue])
    with connections[connection].acquire(block=True, timeout=WAIT_SECONDS_MAX) as pooled:
        assert _take(pooled, queue, 1) == ["pooled"]
    reset()


@scenario
def a_lost_connection_is_made_again(address: Address) -> None:
    with _connection(address) as connection:
        queue = kombu.Queue(unused(), expires=60)
        producer = connection.Producer()
        producer.publish("a", routing_key=queue.name, declare=[queue], retry=True)
        connection.connection.transport.sock.shutdown(socket.SHUT_RDWR)
        producer.publish("b", routing_key=queue.name, retry=True)
        assert _take(connection, queue, 2) == ["a", "b"]
        queue(connection.default_channel).delete()


@scenario
def immediate_is_not_implemented_in_these_very_words(address: Address) -> None:
    with _connection(address) as connection:
        channel = connection.default_channel
        with raises(AMQPNotImplementedError) as refused:
            message = channel.prepare_message("x", content_encoding="utf-8")
            channel.basic_publish(message, routing_key="q", immediate=True)
            connection.drain_events(timeout=WAIT_SECONDS_MAX)
        error = refused.error
        assert error.reply_code == 540
        assert error.reply_text == "NOT_IMPLEMENTED - immediate=true"
        assert error.method_name == "Basic.publish"


@scenario
def refusals_are_errors_of_their_own(address: Address) -> None:
    name = unused()
    with _connection(address) as connection:
        with raises(NotFound) as refused:
            kombu.Queue(name)(connection.channel()).queue_declare(passive=True)
        assert refused.error.reply_text == f"NOT_FOUND - no queue '{name}' in vhost '/'"
        queue = kombu.Queue(name, durable=True)(connection.channel())
        queue.declare()
        with raises(PreconditionFailed):
            kombu.Queue(name, durable=False)(connection.channel()).declare()
        connection.channel().queue_delete(name)


@scenario
def heartbeats_are_counted(address: Address) -> None:
    with _connection(address, heartbeat=2) as connection:
        connection.connect()
        assert connection.get_heartbeat_interval() == 2

        def _beats() -> bool:
            connection.heartbeat_check(rate=2)
            _drain(connection)
            return bool(connection.connection.prev_recv > 2)

        eventually(_beats, "the broker's heartbeats")
        assert connection.connected
