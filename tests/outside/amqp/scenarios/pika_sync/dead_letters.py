"""Dead letters: why, whence and how often."""

import time
from typing import Any

from pika.exceptions import NackError

from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import (
    Consumer,
    Message,
    arrived,
    channel,
    declared,
    drained,
    get,
    publish,
    ready,
    scenario,
    unused,
)
from tests.outside.matrix.scenario import eventually, raises


def _dying(opened: Any, **arguments: Any) -> tuple[str, str]:
    """A queue, and the one where its dead letters go."""
    dead = declared(opened)
    fields = {"dead_letter_exchange": "", "dead_letter_routing_key": dead}
    return declared(opened, **fields | arguments), dead


def _check(message: Message, queue: str, reason: str, count: int = 1) -> dict[str, Any]:
    headers = message.properties.headers
    death: dict[str, Any] = headers["x-death"][0]
    assert set(death) - {"original-expiration"} == {
        "count", "reason", "queue", "time", "exchange", "routing-keys",
    }, death  # fmt: skip
    assert (death["queue"], death["reason"], death["count"]) == (queue, reason, count), death
    assert headers["x-last-death-queue"] == queue
    assert headers["x-last-death-reason"] == reason
    assert "x-last-death-exchange" in headers
    return death


@scenario
def a_rejected_message_dies(address: Address) -> None:
    with channel(address) as opened:
        queue, dead = _dying(opened)
        publish(opened, queue, "a", "b", headers={"own": 1}, message_id="m")
        consumer = Consumer(opened, queue)
        consumer.wait(2)
        opened.basic_reject(1, requeue=False)
        opened.basic_nack(2, requeue=False)
        for message, body in zip(arrived(opened, dead, 2), (b"a", b"b"), strict=True):
            assert message.body == body
            death = _check(message, queue, "rejected")
            assert (death["exchange"], death["routing-keys"]) == ("", [queue])
            headers = message.properties.headers
            assert headers["own"] == 1
            assert headers["x-first-death-queue"] == queue
            assert headers["x-first-death-reason"] == "rejected"
            assert headers["x-first-death-exchange"] == ""
            assert message.properties.message_id == "m"
            assert message.method.routing_key == dead


@scenario
def an_expired_message_dies_without_its_expiration(address: Address) -> None:
    with channel(address) as opened:
        queue, dead = _dying(opened)
        publish(opened, queue, "own", expiration="100")
        (message,) = arrived(opened, dead, 1)
        assert message.properties.expiration is None
        assert _check(message, queue, "expired")["original-expiration"] == "100"
        queue, dead = _dying(opened, message_ttl=100)
        publish(opened, queue, "queue's")
        (message,) = arrived(opened, dead, 1)
        assert "original-expiration" not in _check(message, queue, "expired")


@scenario
def a_message_too_many_dies(address: Address) -> None:
    with channel(address) as opened:
        queue, dead = _dying(opened, max_length=1)
        opened.confirm_delivery()
        publish(opened, queue, "a", "b")
        (message,) = arrived(opened, dead, 1)
        assert message.body == b"a"
        _check(message, queue, "maxlen")
        assert drained(opened, queue) == [b"b"]


@scenario
def a_full_queue_rejects_and_the_rejected_message_dies(address: Address) -> None:
    with channel(address) as opened:
        queue, dead = _dying(opened, max_length=1, overflow="reject-publish-dlx")
        opened.confirm_delivery()
        publish(opened, queue, "a")
        with raises(NackError):
            publish(opened, queue, "b")
        (message,) = arrived(opened, dead, 1)
        assert message.body == b"b"
        _check(message, queue, "maxlen")
        assert drained(opened, queue) == [b"a"]


@scenario
def a_message_delivered_too_often_dies(address: Address) -> None:
    with channel(address) as opened:
        dead = declared(opened)
        queue = declared(
            opened, exclusive=False, durable=True, queue_type="quorum", delivery_limit=2,
            dead_letter_exchange="", dead_letter_routing_key=dead,
        )  # fmt: skip
        publish(opened, queue, "poison", delivery_mode=2)
        counts = []
        for _ in range(3):
            message = _get_when_there(opened, queue)
            counts.append((message.properties.headers or {}).get("x-delivery-count"))
            opened.basic_nack(message.method.delivery_tag, requeue=True)
        assert counts == [None, 1, 2], counts
        (message,) = arrived(opened, dead, 1)
        _check(message, queue, "delivery_limit")
        opened.queue_delete(queue)


def _get_when_there(opened: Any, queue: str) -> Message:
    found: list[Message] = []

    def _take() -> bool:
        message = get(opened, queue, auto_ack=False)
        found.extend([message] if message else [])
        return bool(found)

    eventually(_take, "a message")
    return found[0]


@scenario
def without_a_key_of_its_own_a_dead_letter_keeps_its_key(address: Address) -> None:
    with channel(address) as opened:
        graves = unused("e")
        opened.exchange_declare(graves, "topic", auto_delete=True)
        dead = declared(opened)
        opened.queue_bind(dead, graves, "orders.#")
        queue = declared(opened, dead_letter_exchange=graves)
        opened.queue_bind(queue, "amq.topic", "orders.paid")
        publish(opened, "orders.paid", "a", exchange="amq.topic")
        Consumer(opened, queue).wait(1)
        opened.basic_nack(1, requeue=False)
        (message,) = arrived(opened, dead, 1)
        assert (message.method.exchange, message.method.routing_key) == (graves, "orders.paid")
        death = _check(message, queue, "rejected")
        assert (death["exchange"], death["routing-keys"]) == ("amq.topic", ["orders.paid"])


@scenario
def deaths_are_counted_by_queue_and_reason_the_newest_first(address: Address) -> None:
    """Rejected in one queue, expired in the other, round and round."""
    with channel(address) as opened:
        first, second = unused(), unused()
        declared(opened, first, dead_letter_exchange="", dead_letter_routing_key=second)
        declared(
            opened, second, message_ttl=50, dead_letter_exchange="", dead_letter_routing_key=first
        )
        publish(opened, first, "round")
        for _ in range(3):
            message = _get_when_there(opened, first)
            opened.basic_nack(message.method.delivery_tag, requeue=False)
        message = _get_when_there(opened, first)
        deaths = message.properties.headers["x-death"]
        found = [(death["queue"], death["reason"], death["count"]) for death in deaths]
        assert found == [(second, "expired", 3), (first, "rejected", 3)], found
        headers = message.properties.headers
        assert (headers["x-first-death-queue"], headers["x-first-death-reason"]) == (
            first,
            "rejected",
        )
        assert (headers["x-last-death-queue"], headers["x-last-death-reason"]) == (
            second,
            "expired",
        )


@scenario
def a_circle_that_nobody_rejects_in_ends(address: Address) -> None:
    with channel(address) as opened:
        one, two = unused(), unused()
        for queue, other in ((one, two), (two, one)):
            fields = {"dead_letter_exchange": "", "dead_letter_routing_key": other}
            declared(opened, queue, message_ttl=50, **fields)
        publish(opened, one, "round")
        time.sleep(1)
        assert (ready(opened, one), ready(opened, two)) == (0, 0)


@scenario
def without_an_exchange_a_dead_letter_is_gone(address: Address) -> None:
    with channel(address) as opened:
        queue = declared(opened, dead_letter_exchange=unused("none"))
        publish(opened, queue, "gone")
        Consumer(opened, queue).wait(1)
        opened.basic_nack(1, requeue=False)
        assert ready(opened, queue) == 0
        assert opened.is_open


@scenario
def purged_and_deleted_messages_do_not_die(address: Address) -> None:
    with channel(address) as opened:
        queue, dead = _dying(opened)
        publish(opened, queue, "a")
        eventually(lambda: ready(opened, queue) == 1, "it is there")
        opened.queue_purge(queue)
        publish(opened, queue, "b")
        eventually(lambda: ready(opened, queue) == 1, "it is there")
        opened.queue_delete(queue)
        time.sleep(0.2)
        assert ready(opened, dead) == 0


@scenario
def copies_of_a_dead_letter_keep_their_keys_in_its_history(address: Address) -> None:
    with channel(address) as opened:
        queue, dead = _dying(opened)
        other, hidden = declared(opened), declared(opened)
        publish(opened, queue, "a", headers={"CC": [other], "BCC": [hidden]})
        Consumer(opened, queue).wait(1)
        opened.basic_nack(1, requeue=False)
        (message,) = arrived(opened, dead, 1)
        assert _check(message, queue, "rejected")["routing-keys"] == [queue, other]
