"""Queues and exchanges of all kinds on three brokers, used by connections to different ones."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker, UnroutableError
from pika.spec import Basic

from headrace.wire.amqp.reply_codes import ReplyCode
from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import until
from tests.support.zookeeper import ZooKeeper

PERSISTENT = pika.BasicProperties(delivery_mode=2)
KINDS = ["classic", "quorum"]
Received = list[tuple[Basic.Deliver, pika.BasicProperties, bytes]]


@pytest.fixture(scope="module")
def brokers(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeper
) -> Iterator[AmqpCluster]:
    with AmqpCluster(tmp_path_factory.mktemp("kinds"), zookeeper.hosts) as found:
        yield found


@pytest.fixture
def cluster(brokers: AmqpCluster) -> Iterator[AmqpCluster]:
    """Three brokers, all of which run again for the next test."""
    yield brokers
    brokers.mend()


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


# Exclusive, transient and auto-delete queues


def test_exclusive_queue_is_published_to_and_locked_at_other_brokers(cluster: AmqpCluster) -> None:
    with cluster.channel(0) as owner, cluster.channel(1, confirms=True) as publisher:
        queue = owner.queue_declare("", exclusive=True).method.queue
        publish(publisher, queue, b"reply")
        assert bodies(owner, queue, 1) == [b"reply"]
        for use in (
            lambda channel: channel.queue_declare(queue, passive=True),
            lambda channel: channel.basic_consume(queue, lambda *_: None),
            lambda channel: channel.basic_get(queue),
            lambda channel: channel.queue_bind(queue, "amq.direct", "key"),
            lambda channel: channel.queue_purge(queue),
            lambda channel: channel.queue_delete(queue),
        ):
            assert refusal(cluster, 2, use) == ReplyCode.RESOURCE_LOCKED


def test_exclusive_queue_is_declared_again_after_its_connection_closed(
    cluster: AmqpCluster,
) -> None:
    for turn in range(6):
        with cluster.channel(turn % 3) as channel:
            channel.queue_declare("only-mine", exclusive=True)
    assert not exists(cluster, 0, "only-mine")


def test_transient_queue_is_used_by_clients_of_all_brokers(cluster: AmqpCluster) -> None:
    with cluster.channel(0) as first, cluster.channel(1, confirms=True) as second:
        first.queue_declare("transient")
        publish(second, "transient", b"1", b"2", b"3")
        with cluster.channel(2) as third:
            assert third.basic_get("transient", auto_ack=True)[2] == b"1"
            assert third.queue_purge("transient").method.message_count == 2
            third.queue_delete("transient")
        with pytest.raises(UnroutableError):
            publish(second, "transient", b"4")


@pytest.mark.parametrize("durable", [False, True])
def test_auto_delete_queue_ends_with_its_last_consumer_at_any_broker(
    durable: bool, cluster: AmqpCluster
) -> None:
    queue = f"auto-delete-{durable}"
    with cluster.channel(0) as first, cluster.channel(2) as other:
        first.queue_declare(queue, durable=durable, auto_delete=True)
        with cluster.channel(1) as last:
            tag = other.basic_consume(queue, lambda *_: None)
            last.basic_consume(queue, lambda *_: None)
            other.basic_cancel(tag)
            assert exists(cluster, 0, queue)
        until(lambda: not exists(cluster, 0, queue), "the queue ends with its consumer")


@pytest.mark.parametrize("durable", [False, True])
def test_unused_queue_expires_and_used_one_does_not(durable: bool, cluster: AmqpCluster) -> None:
    used, unused = f"used-{durable}", f"unused-{durable}"
    with cluster.channel(0) as first, cluster.channel(1) as other:
        for queue in (used, unused):
            first.queue_declare(queue, durable=durable, arguments={"x-expires": 1500})
        other.basic_consume(used, lambda *_: None)
        until(lambda: not exists(cluster, 2, unused), "the unused queue expires", 20)
        assert exists(cluster, 2, used)


def test_queues_in_memory_end_with_their_broker(cluster: AmqpCluster) -> None:
    connection = cluster.connect_to(0)
    owner = connection.channel()
    exclusive = owner.queue_declare("", exclusive=True).method.queue
    owner.queue_declare("of-0")
    with cluster.channel(1, confirms=True) as publisher, cluster.channel(2) as consumer:
        cancelled: list[object] = []
        consumer.add_on_cancel_callback(cancelled.append)
        consume(consumer, "of-0")
        publish(publisher, "of-0", b"1")
        cluster.brokers[0].kill()
        wait(consumer.connection, lambda: cancelled, "basic.cancel")
        for queue in (exclusive, "of-0"):
            with pytest.raises(UnroutableError):
                publish(publisher, queue, b"2")
        assert consumer.queue_declare("of-0").method.message_count == 0


# Direct replies


def test_direct_reply_reaches_the_requester_at_another_broker(cluster: AmqpCluster) -> None:
    with cluster.channel(0) as requester, cluster.channel(1) as server:
        server.queue_declare("requests")
        replies = consume(requester, "amq.rabbitmq.reply-to")
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
        for number in range(20):
            requester.basic_publish("", "requests", b"%d" % number, properties)
        asked = consume(server, "requests")
        wait(server.connection, lambda: len(asked) == 20, "the requests")
        for _, request, body in asked:
            server.basic_publish("", str(request.reply_to), b"reply " + body)
        wait(requester.connection, lambda: len(replies) == 20, "the replies")
        assert [body for _, _, body in replies] == [b"reply %d" % number for number in range(20)]


def test_direct_reply_without_a_requester_is_returned(cluster: AmqpCluster) -> None:
    with cluster.channel(0) as requester, cluster.channel(1, confirms=True) as server:
        server.queue_declare("questions")
        replies = consume(requester, "amq.rabbitmq.reply-to")
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
        requester.basic_publish("", "questions", b"?", properties)
        asked = consume(server, "questions")
        wait(server.connection, lambda: asked, "the request")
        name = str(asked[0][1].reply_to)
        server.basic_publish("", name, b"reply", mandatory=True)
        wait(requester.connection, lambda: replies, "the reply")
        assert exists(cluster, 2, name)
        requester.close()
        with pytest.raises(UnroutableError):
            server.basic_publish("", name, b"late", mandatory=True)
        assert not exists(cluster, 2, name)


# Alarms


def test_disk_alarm_of_any_broker_blocks_publishers_on_all(cluster: AmqpCluster) -> None:
    broker = cluster.brokers[2]
    broker.stop()
    broker.settings["amqp.disk.free.bytes.min"] = 1 << 60
    connection = cluster.connect_to(0)
    told: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
    channel = connection.channel()
    channel.queue_declare("alarmed")
    broker.start()
    cluster.until_all_are_here()
    deadline = time.monotonic() + 20
    while not told:
        assert time.monotonic() < deadline, "publishers are not blocked"
        channel.basic_publish("", "alarmed", b"1")
        connection.process_data_events(0.05)
    del broker.settings["amqp.disk.free.bytes.min"]
    broker.kill()
    wait(connection, lambda: len(told) == 2, "publishers go on without the broker")
    assert told == ["low on disk", "unblocked"]
    connection.close()
