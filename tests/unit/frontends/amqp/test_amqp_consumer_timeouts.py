"""Deliveries that are not acknowledged in time: RabbitMQ's words, and the messages go elsewhere."""

import gc
import weakref
from typing import Any

import pytest

from headrace.frontends.amqp.channel.consumer_timeouts import LOOK_SECONDS
from headrace.wire.amqp.control_methods import ChannelClose, ChannelOpen, TxSelect
from headrace.wire.amqp.model_methods import BasicAck, BasicGet, BasicQos, QueueDelete
from tests.support.amqp.channels import QueueClient, QueueRoom, bodies, names

TIMED_OUT = ChannelClose(
    406,
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used:"
    " 90000 ms. This timeout value can be configured, see consumers doc guide to learn more",
    0,
    0,
)


def holding(room: QueueRoom, **queue: Any) -> QueueClient:
    """A client that holds the only message of `q`."""
    client = room.client()
    client.declare(**queue)
    client.consume()
    assert bodies(client.publish(b"a")) == [b"a"]
    return client


def wait(room: QueueRoom, seconds: float) -> None:
    """Let time pass."""
    room.clock.advance(seconds)


def test_a_channel_is_closed_when_its_time_is_up_and_its_messages_go_to_others() -> None:
    room = QueueRoom(consumer_timeout_ms=90_000)
    client = holding(room)
    other = room.client()
    other.consume()
    wait(room, 89.9)
    assert client.heard() == other.heard() == []
    wait(room, 0.2)
    assert [heard.method for heard in client.heard()] == [TIMED_OUT]
    (again,) = other.heard()
    assert (again.body, again.method.redelivered) == (b"a", True)


def test_what_is_acknowledged_in_time_closes_nothing_and_the_next_has_its_own() -> None:
    room = QueueRoom(consumer_timeout_ms=90_000)
    client = holding(room)
    wait(room, 80)
    client.publish(b"b")
    client.say(BasicAck(1))
    wait(room, 89)
    assert client.heard() == []
    wait(room, 1 + LOOK_SECONDS)
    assert names(client.heard()) == ["ChannelClose"]


def test_a_channel_that_holds_nothing_any_more_has_no_timer() -> None:
    room = QueueRoom(consumer_timeout_ms=90_000)
    client = holding(room)
    client.say(BasicAck(1))
    wait(room, 100)
    assert room.clock.timers == 0
    assert client.heard() == []


def test_a_message_that_was_asked_for_has_its_time_too() -> None:
    room = QueueRoom(consumer_timeout_ms=90_000)
    client = room.client()
    client.declare()
    client.publish(b"a")
    assert bodies(client.say(BasicGet())) == [b"a"]
    wait(room, 91)
    assert names(client.heard()) == ["ChannelClose"]
    assert room.queues["q"].ready == 1


@pytest.mark.parametrize(("timeout_ms", "closed"), [(0, False), (5000, True)])
def test_a_queues_own_timeout_goes_before_the_brokers_and_may_be_none(
    timeout_ms: int, closed: bool
) -> None:
    room = QueueRoom(consumer_timeout_ms=90_000)
    client = holding(room, arguments={"x-consumer-timeout": timeout_ms})
    wait(room, 5.1)
    assert bool(client.heard()) == closed
    wait(room, 1e6)
    assert bool(room.queues["q"].ready) == closed


def test_a_broker_without_a_timeout_closes_only_for_queues_that_have_one() -> None:
    room = QueueRoom(consumer_timeout_ms=0)
    client = holding(room)
    limited = room.client()
    limited.declare("r", arguments={"x-consumer-timeout": 1000})
    limited.consume("r")
    limited.publish(b"b", key="r")
    wait(room, 1e6)
    assert client.heard() == []
    assert names(limited.heard()) == ["ChannelClose"]


def test_other_channels_of_the_connection_go_on() -> None:
    room = QueueRoom(consumer_timeout_ms=90_000)
    client = holding(room)
    client.say(ChannelOpen(), channel=2)
    wait(room, 91)
    client.heard()
    assert names(client.say(BasicQos(), channel=2)) == ["BasicQosOk"]


def test_what_a_transaction_acknowledged_has_no_time_any_more() -> None:
    room = QueueRoom(consumer_timeout_ms=90_000)
    client = room.client()
    client.declare()
    client.say(TxSelect())
    client.consume()
    room.client().publish(b"a")
    client.heard()
    client.say(BasicAck(1))
    wait(room, 1000)
    assert client.heard() == []


def test_a_channel_that_was_closed_before_is_not_closed_again() -> None:
    room = QueueRoom(consumer_timeout_ms=90_000)
    client = holding(room)
    client.say(ChannelClose(200, "", 0, 0))
    wait(room, 200)
    assert client.heard() == []


def test_a_channel_that_is_closed_and_a_queue_that_is_deleted_are_let_go_at_once() -> None:
    room = QueueRoom(consumer_timeout_ms=90_000)
    client = holding(room, arguments={"x-expires": 1_000_000_000})
    (channel,) = client.connection._channels._channels.values()  # type: ignore[union-attr]
    gone = [weakref.ref(channel.port), weakref.ref(room.queues["q"])]
    del channel
    client.say(QueueDelete(queue="q"))
    client.say(ChannelClose(200, "", 0, 0))
    gc.collect()
    assert [each() for each in gone] == [None, None]
