"""Queues and exchanges of all kinds on three brokers, used by connections to different ones."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from confluent_kafka import Consumer, Producer
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError
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


# Streams and Kafka topics


def stream_from(channel: BlockingChannel, queue: str, offset: Any) -> Received:
    """Begin to read a stream at an offset."""
    channel.basic_qos(prefetch_count=1000)
    return consume(channel, queue, auto_ack=False, arguments={"x-stream-offset": offset})


def bodies_of(received: Received) -> list[bytes]:
    return [body for _, _, body in received]


def test_stream_is_read_from_each_offset_at_each_broker(cluster: AmqpCluster) -> None:
    with cluster.channel(0, confirms=True) as publisher:
        publisher.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
        published = [b"%d" % number for number in range(20)]
        publish(publisher, "stream", *published)
        for at in range(3):
            with cluster.channel(at) as reader, cluster.channel(at) as second:
                begun = stream_from(second, "stream", "next")
                expected = {"first": published, "last": published[-1:], 15: published[15:]}
                for offset, wanted in expected.items():
                    found = stream_from(reader, "stream", offset)
                    wait(reader.connection, lambda: len(found) == len(wanted), f"from {offset}")  # noqa: B023
                    assert bodies_of(found) == wanted
                    assert found[0][1].headers["x-stream-offset"] == int(wanted[0])
                publish(publisher, "stream", b"%d" % len(published))
                published.append(b"%d" % len(published))
                wait(second.connection, lambda: begun, "the next message")  # noqa: B023
                assert bodies_of(begun) == published[-1:]


def test_reader_of_a_stream_goes_on_after_its_leader_died(cluster: AmqpCluster) -> None:
    with cluster.channel(0, confirms=True) as publisher:
        publisher.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        publish(publisher, "log", b"0")
    leader = cluster.until_queue_led("log")
    at = (leader + 1) % 3
    with cluster.channel(at) as reader, cluster.channel(at, confirms=True) as publisher:
        publish(publisher, "log", *(b"%d" % number for number in range(1, 10)))
        found = stream_from(reader, "log", "first")
        wait(reader.connection, lambda: len(found) == 10, "what was published before")
        cluster.brokers[leader].kill()
        publish(publisher, "log", *(b"%d" % number for number in range(10, 20)))
        wait(reader.connection, lambda: len(found) >= 20, "what was published since")
        reader.connection.process_data_events(0.3)
        assert bodies_of(found) == [b"%d" % number for number in range(20)]


def test_exchange_stores_in_a_topic_whose_partitions_other_brokers_lead(
    cluster: AmqpCluster,
) -> None:
    cluster.create("orders", 3, 3)
    with cluster.channel(0, confirms=True) as first, cluster.channel(1, confirms=True) as second:
        arguments = {"x-headrace-topic": "orders"}
        first.exchange_declare("orders", "topic", durable=True, arguments=arguments)
        for channel in (first, second):
            for number in range(30):
                publish(channel, f"key-{number}", b"%d" % number, exchange="orders")
    found = records(cluster, "orders", 60)
    by_key: dict[str, set[int]] = {}
    for key, _, partition in found:
        by_key.setdefault(key, set()).add(partition)
    assert sorted(value for _, value, _ in found) == sorted([b"%d" % n for n in range(30)] * 2)
    assert all(len(partitions) == 1 for partitions in by_key.values())
    assert len(set.union(*by_key.values())) == 3


def test_topic_of_an_exchange_is_created_and_survives_its_leader(cluster: AmqpCluster) -> None:
    with cluster.channel(1, confirms=True) as publisher:
        arguments = {"x-headrace-topic": "created"}
        publisher.exchange_declare("created", "fanout", durable=True, arguments=arguments)
        publish(publisher, "key", b"1", exchange="created")
        leader = cluster.leader("created")
    assert leader in range(3)


def test_stream_reads_a_topic_at_each_broker_and_ends_with_it(cluster: AmqpCluster) -> None:
    cluster.create("events", 1, 3)
    produce(cluster, "events", b"0", b"1", b"2")
    arguments = {"x-queue-type": "stream", "x-headrace-topic": "events"}
    with cluster.channel(0) as channel:
        channel.queue_declare("events", durable=True, arguments=arguments)
    for at in range(3):
        with cluster.channel(at) as reader:
            found = stream_from(reader, "events", "first")
            wait(reader.connection, lambda: len(found) == 3, "the records")  # noqa: B023
            assert bodies_of(found) == [b"0", b"1", b"2"]
    admin = cluster.admin()
    admin.delete_topics(["events"])["events"].result(30)
    until(lambda: not exists(cluster, 2, "events"), "the stream ends with its topic")


def produce(cluster: AmqpCluster, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
    assert not producer.flush(30)


def records(cluster: AmqpCluster, topic: str, count: int) -> list[tuple[str, bytes, int]]:
    """Return keys, values and partitions of a topic's records."""
    found: list[tuple[str, bytes, int]] = []
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer({**config, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            key, value = record.key(), record.value()
            found.append(((key or b"").decode(), value or b"", int(record.partition() or 0)))
    consumer.close()
    return found


# Dead letters, limits, single active consumers, transactions


@pytest.mark.parametrize("kind", KINDS)
def test_dead_letters_go_to_a_queue_of_another_leader(kind: str, cluster: AmqpCluster) -> None:
    base = {"x-queue-type": kind}
    dead, source, short = f"dead-{kind}", f"source-{kind}", f"short-{kind}"
    with (
        cluster.channel(0) as first,
        cluster.channel(1, confirms=True) as second,
        cluster.channel(2) as third,
    ):
        third.queue_declare(dead, durable=True, arguments=base)
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        expiring = {**base, **to_dead, "x-message-ttl": 300}
        first.queue_declare(source, durable=True, arguments=expiring)
        publish(second, source, b"expired")
        received = consume(first, dead)
        wait(first.connection, lambda: received, "the expired message")
        assert received[0][1].headers["x-death"][0]["reason"] == "expired"
        limited = {**base, **to_dead, "x-max-length": 2}
        first.queue_declare(short, durable=True, arguments=limited)
        publish(second, short, b"0", b"1", b"2", b"3")
        wait(first.connection, lambda: len(received) == 3, "messages over the limit")
        assert [body for _, _, body in received[1:]] == [b"0", b"1"]
        for _ in range(2):
            method, _, _ = third.basic_get(short)
            third.basic_reject(method.delivery_tag, requeue=False)
        wait(first.connection, lambda: len(received) == 5, "rejected messages")
        assert {cluster.leader_of(dead), cluster.leader_of(source)} <= {0, 1, 2}
        assert cluster.leader_of(dead) != cluster.leader_of(source)


@pytest.mark.parametrize("kind", KINDS)
def test_full_queue_rejects_publishes_of_other_brokers(kind: str, cluster: AmqpCluster) -> None:
    arguments = {"x-queue-type": kind, "x-max-length": 2, "x-overflow": "reject-publish"}
    with cluster.channel(0) as first, cluster.channel(1, confirms=True) as second:
        first.queue_declare(f"full-{kind}", durable=True, arguments=arguments)
        publish(second, f"full-{kind}", b"0", b"1")
        until(
            lambda: first.queue_declare(f"full-{kind}", passive=True).method.message_count == 2,
            "both messages are ready",
        )
        with pytest.raises(NackError):
            publish(second, f"full-{kind}", b"2")


def test_delivery_limit_counts_deliveries_at_all_brokers(cluster: AmqpCluster) -> None:
    with cluster.channel(0, confirms=True) as first, cluster.channel(1) as second:
        first.queue_declare("poison-dead", durable=True)
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "poison-dead"}
        arguments = {"x-queue-type": "quorum", "x-delivery-limit": 2, **to_dead}
        first.queue_declare("poison", durable=True, arguments=arguments)
        publish(first, "poison", b"poison")
        for turn in range(3):
            channel = (first, second)[turn % 2]
            until(
                lambda: channel.queue_declare("poison", passive=True).method.message_count,  # noqa: B023
                "the message is ready again",
            )
            method, _, _ = channel.basic_get("poison")
            channel.basic_nack(method.delivery_tag, requeue=True)
        assert bodies(second, "poison-dead", 1) == [b"poison"]


def test_single_active_consumer_is_followed_by_one_at_another_broker(cluster: AmqpCluster) -> None:
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    with cluster.channel(1, confirms=True) as publisher, cluster.channel(2) as second:
        with cluster.channel(0) as first:
            first.queue_declare("single", durable=True, arguments=arguments)
            active = consume(first, "single")
            waiting = consume(second, "single")
            publish(publisher, "single", b"0", b"1")
            wait(first.connection, lambda: len(active) == 2, "the active consumer's messages")
        publish(publisher, "single", b"2")
        wait(second.connection, lambda: waiting, "the next active consumer's message")
        assert [body for _, _, body in waiting] == [b"2"]


def test_unrouted_message_goes_by_the_alternate_exchange(cluster: AmqpCluster) -> None:
    with cluster.channel(0) as first, cluster.channel(1, confirms=True) as second:
        first.exchange_declare("other", "fanout", durable=True)
        alternate = {"alternate-exchange": "other"}
        first.exchange_declare("main", "topic", durable=True, arguments=alternate)
        second.exchange_declare("inner", "direct")
        second.queue_declare("unrouted", durable=True)
        second.queue_bind("unrouted", "other")
        second.queue_declare("routed", durable=True)
        second.queue_bind("routed", "inner", "a.b")
        second.exchange_bind("inner", "main", "a.#")
        publish(second, "a.b", b"routed", exchange="main")
        publish(second, "c", b"unrouted", exchange="main")
        assert bodies(first, "routed", 1) == [b"routed"]
        assert bodies(first, "unrouted", 1) == [b"unrouted"]


def test_transaction_is_committed_to_queues_of_several_leaders(cluster: AmqpCluster) -> None:
    queues = [f"tx-{number}" for number in range(3)]

    def counts() -> list[int]:
        with cluster.channel(2) as channel:
            return [channel.queue_declare(q, passive=True).method.message_count for q in queues]

    with cluster.channel(0) as channel, cluster.channel(1) as publisher:
        for queue in queues:
            channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
        publisher.tx_select()
        publish_all = [publisher.basic_publish("", queue, b"1", PERSISTENT) for queue in queues]
        assert len(publish_all) == len(queues)
        publisher.tx_rollback()
        for queue in queues:
            publisher.basic_publish("", queue, b"2", PERSISTENT)
        assert counts() == [0, 0, 0]
        publisher.tx_commit()
        assert counts() == [1, 1, 1]
        for queue in queues:
            method, _, body = publisher.basic_get(queue)
            assert body == b"2"
            publisher.basic_ack(method.delivery_tag)
        publisher.tx_commit()
    assert counts() == [0, 0, 0]
