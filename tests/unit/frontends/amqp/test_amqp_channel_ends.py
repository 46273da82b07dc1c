"""Nothing is kept of a channel that has ended, however it ended; bounds of consumers."""

import gc
import weakref
from typing import Any

import pytest

from headrace.frontends.amqp.channel.direct_replies import QUEUE_NAME
from headrace.frontends.amqp.channel_consumers import CONSUMER_BYTES
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    TxSelect,
)
from headrace.wire.amqp.frames import FRAME_OVERHEAD_BYTES
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    QueueDeclare,
    QueueDelete,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.channels import QueueClient, QueueRoom, bodies, names
from tests.support.amqp.messages import publish_frames

ENDS = ["closed by its client", "closed for an error", "connection closed", "connection lost"]


def end_channel(client: QueueClient, end: str) -> None:
    """End channel 2."""
    if end == "closed by its client":
        client.say(ChannelClose(200, "", 0, 0), channel=2)
    elif end == "closed for an error":
        assert names(client.say(BasicAck(999), channel=2)) == ["ChannelClose"]
        client.say(ChannelCloseOk(), channel=2)
    elif end == "connection closed":
        client.say(ConnectionClose(200, "", 0, 0), channel=0)
    else:
        client.connection.lost()


def used_channel(room: QueueRoom, mode: type, end: str) -> tuple[QueueClient, Any]:
    """A client whose channel 2 is in all registries: returns it and the channel."""
    client = room.client()
    client.say(ChannelOpen(), channel=2)
    client.say(BasicConsume(queue=QUEUE_NAME, consumer_tag="r", no_ack=True), channel=2)
    client.ask(mode(), channel=2)
    client.say(QueueDeclare(queue="q", durable=True), channel=2)
    client.consume(channel=2, tag="c")
    client.consume(channel=2, tag="d")
    client.publish(b"a", b"b", channel=2, reply_to=QUEUE_NAME, delivery_mode=2)
    if end.startswith("connection"):  # a body that never comes whole
        body = bytes(200_000)
        message = Message("", "q", make_header(len(body), Properties()), body)
        last_frame = FRAME_OVERHEAD_BYTES + len(body) - (131_072 - FRAME_OVERHEAD_BYTES)
        client.raw(publish_frames(2, message, 0)[:-last_frame])
    channels: Any = client.connection._channels
    return client, channels._channels[2].port


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("mode", [ConfirmSelect, TxSelect])
def test_no_registry_keeps_a_channel_that_ended(end: str, mode: type) -> None:
    room = QueueRoom(consumer_timeout_ms=90_000)
    client, port = used_channel(room, mode, end)
    broker = room.broker
    assert broker.replies._channels
    assert broker.held_consumers.count == 2
    channel = weakref.ref(port)
    del port
    end_channel(client, end)
    gc.collect()
    assert channel() is None
    assert (broker.replies._channels, broker._publishing) == ({}, {})
    assert (broker.held_consumers.count, len(room.queues["q"].consumers)) == (0, 0)
    assert (broker.unfinished.bytes, broker.unfinished._of) == (0, {})
    open_now = 0 if end.startswith("connection") else 1
    assert broker.clients.channels_of("guest") == open_now
    assert len(list(broker.clients)) == open_now


@pytest.mark.parametrize("end", ENDS)
def test_reply_to_a_channel_that_ended_goes_nowhere(end: str) -> None:
    room = QueueRoom()
    client, port = used_channel(room, ConfirmSelect, end)
    token = port.reply_token
    end_channel(client, end)
    other = room.client()
    (returned,) = other.publish(b"reply", key=token, flags=1)
    assert names([returned]) == ["BasicReturn"]
    declared = other.ask(QueueDeclare(queue=token, passive=True))
    assert declared.reply_text.startswith("NOT_FOUND")


def test_clients_that_stay_are_counted_when_others_leave() -> None:
    room = QueueRoom()
    first, second = room.client(), room.client()
    first.connection.lost()
    clients = room.broker.clients
    assert (clients.count_in("/"), clients.count_of("guest")) == (1, 1)
    second.connection.lost()
    assert (clients.count_in("/"), clients.count_of("guest")) == (0, 0)
    assert list(clients) == []


def test_second_reply_consumer_of_a_channel_has_a_name_of_its_own() -> None:
    room = QueueRoom()
    client = room.client()
    consume = BasicConsume(queue=QUEUE_NAME, consumer_tag="r", no_ack=True)
    client.say(consume)
    (first,) = room.broker.replies._channels
    client.say(BasicCancel("r"))
    assert room.broker.replies._channels == {}
    client.say(consume)
    (second,) = room.broker.replies._channels
    assert first != second


# Bounds of consumers


def test_channel_takes_more_consumers_than_10000() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    count = 10_050
    heard = client.raw(
        b"".join(encode_method(1, BasicConsume(queue="q", consumer_tag="")) for _ in range(count))
    )
    assert {type(each.method) for each in heard} == {BasicConsumeOk}
    assert len(heard) == len(room.queues["q"].consumers) == count
    client.connection.lost()
    assert len(room.queues["q"].consumers) == 0


@pytest.mark.parametrize("freed", ["cancel", "channel", "queue", "connection"])
def test_consumers_of_all_clients_have_a_bound_of_memory(freed: str) -> None:
    room = QueueRoom(consumers_bytes_max=3 * CONSUMER_BYTES)
    first, second, third = room.client(), room.client(), room.client()
    first.declare()
    first.consume(tag="a")
    first.consume(tag="b")
    second.consume(tag="c")
    assert third.ask(BasicConsume(queue="q", consumer_tag="d")) == ConnectionClose(
        506,
        "RESOURCE_ERROR - 3 consumers of all clients take 3072 bytes of memory, and 3072 are"
        " allowed (half of amqp.memory.bytes.max)",
        60,
        20,
    )
    if freed == "cancel":
        first.say(BasicCancel("a"))
    elif freed == "channel":
        first.say(ChannelClose(200, "", 0, 0))
    elif freed == "queue":
        first.say(QueueDelete(queue="q"))
        room.clock.advance()
        room.client().declare()
    else:
        first.connection.lost()
    fourth = room.client()
    fourth.consume(tag="d")


def test_refused_consumer_counts_nowhere() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    client.consume(tag="a", exclusive=True)
    other = room.client()
    assert other.ask(BasicConsume(queue="q", consumer_tag="b")).reply_code == 403
    assert room.broker.held_consumers.count == 1


@pytest.mark.parametrize("single_active", [False, True])
def test_consumers_leave_in_any_order_and_the_others_are_served(single_active: bool) -> None:
    room = QueueRoom()
    client = room.client()
    client.declare(arguments={"x-single-active-consumer": single_active})
    for number in range(60):
        client.consume(tag=f"c{number}")
    client.publish(*[b"m"] * 7)
    for number in range(59):
        client.say(BasicCancel(f"c{number * 37 % 59}"))
    heard = client.publish(b"x", b"y")
    assert bodies(heard) == [b"x", b"y"]
    assert {each.method.consumer_tag for each in heard} == {"c59"}
