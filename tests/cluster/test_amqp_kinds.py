"""Queues and exchanges of all kinds on three brokers, used by connections to different ones."""

import time

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from headrace.wire.amqp.reply_codes import ReplyCode
from tests.support.cluster.amqp_clients import (
    PERSISTENT,
    bodies,
    consume,
    exists,
    publish,
    refusal,
    wait,
)
from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import until

# Exclusive, transient and auto-delete queues


def test_exclusive_queue_is_published_to_and_locked_at_other_brokers(amqp: AmqpCluster) -> None:
    with amqp.channel(0) as owner, amqp.channel(1, confirms=True) as publisher:
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
            assert refusal(amqp, 2, use) == ReplyCode.RESOURCE_LOCKED


def test_exclusive_queue_is_declared_again_after_its_connection_closed(
    amqp: AmqpCluster,
) -> None:
    for turn in range(6):
        with amqp.channel(turn % 3) as channel:
            channel.queue_declare("only-mine", exclusive=True)
    assert not exists(amqp, 0, "only-mine")


def test_transient_queue_is_used_by_clients_of_all_brokers(amqp: AmqpCluster) -> None:
    with amqp.channel(0) as first, amqp.channel(1, confirms=True) as second:
        first.queue_declare("transient")
        publish(second, "transient", b"1", b"2", b"3")
        with amqp.channel(2) as third:
            assert third.basic_get("transient", auto_ack=True)[2] == b"1"
            assert third.queue_purge("transient").method.message_count == 2
            third.queue_delete("transient")
        with pytest.raises(UnroutableError):
            publish(second, "transient", b"4")


@pytest.mark.parametrize("durable", [False, True])
def test_auto_delete_queue_ends_with_its_last_consumer_at_any_broker(
    durable: bool, amqp: AmqpCluster
) -> None:
    queue = f"auto-delete-{durable}"
    with amqp.channel(0) as first, amqp.channel(2) as other:
        first.queue_declare(queue, durable=durable, auto_delete=True)
        with amqp.channel(1) as last:
            tag = other.basic_consume(queue, lambda *_: None)
            last.basic_consume(queue, lambda *_: None)
            other.basic_cancel(tag)
            assert exists(amqp, 0, queue)
        until(lambda: not exists(amqp, 0, queue), "the queue ends with its consumer")


@pytest.mark.parametrize("closed", ["channel", "connection"])
@pytest.mark.parametrize("durable", [False, True])
def test_close_ok_waits_for_the_deletion_of_an_auto_delete_queue(
    durable: bool, closed: str, amqp: AmqpCluster
) -> None:
    for number in range(5):
        queue = f"closed-{durable}-{closed}-{number}"
        with amqp.channel(1) as asking:
            asking.queue_declare(queue, durable=durable, auto_delete=True)
            at = (number + 1) % 3
            with amqp.channel(at) as same:
                connection = amqp.connect_to(at)
                consumer = connection.channel()
                consumer.basic_consume(queue, lambda *_: None)
                (consumer if closed == "channel" else connection).close()
                with pytest.raises(ChannelClosedByBroker) as refused:
                    same.queue_declare(queue, passive=True)
                assert refused.value.reply_code == 404
                if closed == "channel":
                    connection.close()


@pytest.mark.parametrize("durable", [False, True])
def test_unused_queue_expires_and_used_one_does_not(durable: bool, amqp: AmqpCluster) -> None:
    used, unused = f"used-{durable}", f"unused-{durable}"
    with amqp.channel(0) as first, amqp.channel(1) as other:
        for queue in (used, unused):
            first.queue_declare(queue, durable=durable, arguments={"x-expires": 1500})
        other.basic_consume(used, lambda *_: None)
        until(lambda: not exists(amqp, 2, unused), "the unused queue expires", 20)
        assert exists(amqp, 2, used)


def test_queues_in_memory_end_with_their_broker(amqp: AmqpCluster) -> None:
    connection = amqp.connect_to(0)
    owner = connection.channel()
    exclusive = owner.queue_declare("", exclusive=True).method.queue
    owner.queue_declare("of-0")
    with amqp.channel(1, confirms=True) as publisher, amqp.channel(2) as consumer:
        cancelled: list[object] = []
        consumer.add_on_cancel_callback(cancelled.append)
        consume(consumer, "of-0")
        publish(publisher, "of-0", b"1")
        amqp.brokers[0].kill()
        wait(consumer.connection, lambda: cancelled, "basic.cancel")
        for queue in (exclusive, "of-0"):
            with pytest.raises((NackError, UnroutableError)):
                publish(publisher, queue, b"2")
        until(lambda: not exists(amqp, 1, "of-0"), "the queue is deleted with its broker")
        for queue in (exclusive, "of-0"):
            with pytest.raises(UnroutableError):
                publish(publisher, queue, b"3")
        assert consumer.queue_declare("of-0").method.message_count == 0


def test_queue_with_one_replica_is_refused_at_once_and_back_with_its_broker(
    amqp: AmqpCluster,
) -> None:
    arguments = {"x-max-priority": 2}
    with amqp.channel(0, confirms=True) as owner:
        owner.queue_declare("single", durable=True, arguments=arguments)
        publish(owner, "single", b"1")
    with amqp.channel(1, confirms=True) as publisher, amqp.channel(2) as consumer:
        cancelled: list[object] = []
        consumer.add_on_cancel_callback(cancelled.append)
        consume(consumer, "single")
        amqp.brokers[0].kill()
        wait(consumer.connection, lambda: cancelled, "basic.cancel")
        for mandatory in (False, True):
            with pytest.raises(NackError):
                publisher.basic_publish("", "single", b"2", PERSISTENT, mandatory)
        consumer.basic_publish("", "single", b"3")  # without confirms
        consumer.connection.process_data_events(0.5)
        assert consumer.is_open
    for use in (
        lambda channel: channel.queue_declare("single", passive=True),
        lambda channel: channel.queue_declare("single", durable=True, arguments=arguments),
        lambda channel: channel.basic_get("single"),
        lambda channel: channel.basic_consume("single", lambda *_: None),
        lambda channel: channel.queue_purge("single"),
    ):
        assert refusal(amqp, 1, use) == ReplyCode.NOT_FOUND
    amqp.mend()
    until(lambda: exists(amqp, 1, "single"), "the queue is back with its broker")
    with amqp.channel(2, confirms=True) as publisher:
        publish(publisher, "single", b"4")
    with amqp.channel(1) as consumer:
        assert b"4" in bodies(consumer, "single", 1)


# Direct replies


def test_direct_reply_reaches_the_requester_at_another_broker(amqp: AmqpCluster) -> None:
    with amqp.channel(0) as requester, amqp.channel(1) as server:
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


def test_direct_reply_without_a_requester_is_returned(amqp: AmqpCluster) -> None:
    with amqp.channel(0) as requester, amqp.channel(1, confirms=True) as server:
        server.queue_declare("questions")
        replies = consume(requester, "amq.rabbitmq.reply-to")
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
        requester.basic_publish("", "questions", b"?", properties)
        asked = consume(server, "questions")
        wait(server.connection, lambda: asked, "the request")
        name = str(asked[0][1].reply_to)
        server.basic_publish("", name, b"reply", mandatory=True)
        wait(requester.connection, lambda: replies, "the reply")
        assert exists(amqp, 2, name)
        requester.close()
        with pytest.raises(UnroutableError):
            server.basic_publish("", name, b"late", mandatory=True)
        assert not exists(amqp, 2, name)


# Alarms


def test_disk_alarm_of_any_broker_blocks_publishers_on_all(amqp: AmqpCluster) -> None:
    broker = amqp.brokers[2]
    broker.stop()
    broker.settings["amqp.disk.free.bytes.min"] = 1 << 60
    connection = amqp.connect_to(0)
    told: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
    channel = connection.channel()
    channel.queue_declare("alarmed")
    broker.start()
    amqp.until_all_are_here()
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
