"""Dead letters, limits, single active consumers and transactions at three brokers."""

import pytest
from pika.exceptions import NackError

from tests.support.cluster.amqp_clients import (
    PERSISTENT,
    bodies,
    consume,
    publish,
    wait,
)
from tests.support.cluster.amqp_cluster import AmqpCluster
from tests.support.cluster.broker_cluster import until

KINDS = ["classic", "quorum"]


@pytest.mark.parametrize("kind", KINDS)
def test_dead_letters_go_to_a_queue_of_another_leader(kind: str, amqp: AmqpCluster) -> None:
    base = {"x-queue-type": kind}
    dead, source, short = f"dead-{kind}", f"source-{kind}", f"short-{kind}"
    with (
        amqp.channel(0) as first,
        amqp.channel(1, confirms=True) as second,
        amqp.channel(2) as third,
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
        assert {amqp.leader_of(dead), amqp.leader_of(source)} <= {0, 1, 2}
        assert amqp.leader_of(dead) != amqp.leader_of(source)


@pytest.mark.parametrize("kind", KINDS)
def test_full_queue_rejects_publishes_of_other_brokers(kind: str, amqp: AmqpCluster) -> None:
    arguments = {"x-queue-type": kind, "x-max-length": 2, "x-overflow": "reject-publish"}
    with amqp.channel(0) as first, amqp.channel(1, confirms=True) as second:
        first.queue_declare(f"full-{kind}", durable=True, arguments=arguments)
        publish(second, f"full-{kind}", b"0", b"1")
        until(
            lambda: first.queue_declare(f"full-{kind}", passive=True).method.message_count == 2,
            "both messages are ready",
        )
        with pytest.raises(NackError):
            publish(second, f"full-{kind}", b"2")


def test_delivery_limit_counts_deliveries_at_all_brokers(amqp: AmqpCluster) -> None:
    with amqp.channel(0, confirms=True) as first, amqp.channel(1) as second:
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


def test_single_active_consumer_is_followed_by_one_at_another_broker(amqp: AmqpCluster) -> None:
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    with amqp.channel(1, confirms=True) as publisher, amqp.channel(2) as second:
        with amqp.channel(0) as first:
            first.queue_declare("single", durable=True, arguments=arguments)
            active = consume(first, "single")
            waiting = consume(second, "single")
            publish(publisher, "single", b"0", b"1")
            wait(first.connection, lambda: len(active) == 2, "the active consumer's messages")
        publish(publisher, "single", b"2")
        wait(second.connection, lambda: waiting, "the next active consumer's message")
        assert [body for _, _, body in waiting] == [b"2"]


def test_unrouted_message_goes_by_the_alternate_exchange(amqp: AmqpCluster) -> None:
    with amqp.channel(0) as first, amqp.channel(1, confirms=True) as second:
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


def test_transaction_is_committed_to_queues_of_several_leaders(amqp: AmqpCluster) -> None:
    queues = [f"tx-{number}" for number in range(3)]

    def counts() -> list[int]:
        with amqp.channel(2) as channel:
            return [channel.queue_declare(q, passive=True).method.message_count for q in queues]

    with amqp.channel(0) as channel, amqp.channel(1) as publisher:
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
