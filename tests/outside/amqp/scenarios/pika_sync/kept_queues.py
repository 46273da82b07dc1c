"""The other kinds of queue: quorum, and stream."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import (
    PERSISTENT,
    Consumer,
    Message,
    channel,
    connected,
    declared,
    drained,
    get,
    publish,
    refused,
    scenario,
    unused,
)
from tests.outside.matrix.scenario import eventually


@contextmanager
def _kept(address: Address, kind: str, *bodies: str, **arguments: Any) -> Iterator[tuple[Any, str]]:
    """A channel and a durable queue of this kind that has these messages."""
    with channel(address) as opened:
        fields: dict[str, Any] = {"exclusive": False, "durable": True, "queue_type": kind}
        queue = declared(opened, **fields, **arguments)
        opened.confirm_delivery()
        publish(opened, queue, *bodies, delivery_mode=PERSISTENT)
        try:
            yield opened, queue
        finally:
            with channel(address) as other:
                other.queue_delete(queue)


def _taken(opened: Any, queue: str) -> Message:
    found: list[Message] = []

    def _take() -> bool:
        message = get(opened, queue, auto_ack=False)
        found.extend([message] if message else [])
        return bool(found)

    eventually(_take, "a message")
    return found[0]


@scenario
def a_quorum_queue_keeps_order_and_counts_deliveries(address: Address) -> None:
    with _kept(address, "quorum", "a", "b") as (opened, queue):
        first = _taken(opened, queue)
        assert first.properties.headers is None
        opened.basic_nack(first.method.delivery_tag, requeue=True)
        again = _taken(opened, queue)
        assert again.body == b"a", "it is back at its place"
        assert again.method.redelivered
        assert again.properties.headers["x-delivery-count"] == 1
        opened.basic_ack(again.method.delivery_tag)
        assert drained(opened, queue) == [b"b"]


@scenario
def a_quorum_queue_drops_what_was_delivered_too_often(address: Address) -> None:
    with _kept(address, "quorum", "poison", delivery_limit=1) as (opened, queue):
        for _ in range(2):
            message = _taken(opened, queue)
            opened.basic_nack(message.method.delivery_tag, requeue=True)
        opened.connection.process_data_events(0.5)
        assert get(opened, queue) is None


@scenario
def a_quorum_queue_has_to_be_durable_and_shared(address: Address) -> None:
    arguments = {"x-queue-type": "quorum"}
    with connected(address) as connection:
        name = unused()
        with refused(406, f"invalid property 'non-durable' for queue '{name}' in vhost '/'"):
            connection.channel().queue_declare(name, arguments=arguments)
        with refused(406, f"invalid property 'exclusive-owner' for queue '{name}' in vhost '/'"):
            connection.channel().queue_declare(
                name, durable=True, exclusive=True, arguments=arguments
            )


def _read(address: Address, queue: str, offset: Any, count: int) -> list[Message]:
    with channel(address) as opened:
        opened.basic_qos(prefetch_count=100)
        reader = Consumer(opened, queue, arguments={"x-stream-offset": offset})
        found = reader.wait(count)
        reader.settle()
        return found


@scenario
def a_stream_is_read_by_many_from_where_they_want(address: Address) -> None:
    bodies = [str(number) for number in range(10)]
    with _kept(address, "stream", *bodies) as (_, queue):
        for _ in range(2):
            found = _read(address, queue, "first", 10)
            assert [message.body.decode() for message in found] == bodies
            assert [message.properties.headers["x-stream-offset"] for message in found] == [
                *range(10)
            ]
        assert [message.body for message in _read(address, queue, 7, 3)] == [b"7", b"8", b"9"]
        # Where a chunk begins is the broker's affair.
        assert _read(address, queue, "last", 1)[-1].body == b"9"
        past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        assert len(_read(address, queue, past, 10)) == 10
        assert _read(address, queue, "next", 0) == []


@scenario
def a_streams_reader_gets_what_comes(address: Address) -> None:
    with _kept(address, "stream", "before") as (opened, queue), channel(address) as other:
        other.basic_qos(prefetch_count=2)
        reader = Consumer(other, queue, arguments={"x-stream-offset": "next"})
        publish(opened, queue, "a", "b", "c")
        reader.wait(2)
        assert reader.bodies == [b"a", b"b"]
        other.basic_ack(2, multiple=True)
        reader.wait(3)


@scenario
def a_streams_reader_says_how_much_it_takes_and_acknowledges(address: Address) -> None:
    with _kept(address, "stream") as (_, queue), channel(address) as opened:
        text = (
            f"PRECONDITION_FAILED - consumer prefetch count is not set for stream queue '{queue}'"
        )
        with refused(406, text):
            Consumer(opened, queue)
