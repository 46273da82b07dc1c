"""A queue whose state contradicts itself is closed, alone: 541 to its users, the others go on."""

import logging

import pytest

from headrace.model.invariant import InvariantError
from headrace.wire.amqp.control_methods import ConfirmSelect, ConnectionClose
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    QueueBind,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
)
from headrace.wire.amqp.reply_codes import ReplyCode
from tests.support.amqp.channels import QueueClient, QueueRoom, bodies, names


def room_of_two() -> tuple[QueueRoom, QueueClient, QueueClient, QueueClient]:
    """Queues `q`, consumed by two clients, and `other`, consumed by a third."""
    room = QueueRoom()
    first, second, third = (room.client() for _ in range(3))
    first.declare()
    third.declare("other")
    first.consume()
    second.consume()
    third.consume("other")
    return room, first, second, third


def broken(room: QueueRoom, by: QueueClient) -> None:
    """Break the invariant of `q` that as many deliveries are settled as were made."""
    by.publish(b"1", b"2", b"3", b"4")
    room.queues["q"].unacked = 0


def closed(client: QueueClient) -> bool:
    """Whether the client's connection is closed with 541."""
    found = [heard.method for heard in client.heard() if isinstance(heard.method, ConnectionClose)]
    return [method.reply_code for method in found] == [ReplyCode.INTERNAL_ERROR]


def test_broken_invariant_closes_connections_of_both_consumers() -> None:
    room, first, second, third = room_of_two()
    broken(room, third)
    first.heard()
    second.heard()
    first.connection.take(_ack(1), room.clock.now)
    room.broker.pass_done()
    assert (closed(first), closed(second)) == (True, True)
    assert bodies(third.publish(b"goes on", key="other")) == [b"goes on"]


def _ack(tag: int) -> bytes:
    return encode_method(1, BasicAck(tag, False))


def break_q() -> tuple[QueueRoom, QueueClient]:
    """A room whose queue `q` is closed, and the client that does not use it."""
    room, first, _, third = room_of_two()
    broken(room, third)
    first.connection.take(_ack(1), room.clock.now)
    room.broker.pass_done()
    third.heard()
    return room, third


def test_closed_queue_refuses_gets_consumers_and_purges() -> None:
    for method in (BasicGet(queue="q"), BasicConsume(queue="q"), QueuePurge(queue="q")):
        room, _ = break_q()
        (heard,) = room.client().say(method)
        assert heard.method.reply_code == ReplyCode.INTERNAL_ERROR
        assert "was closed because of an internal error" in heard.method.reply_text


def test_publish_to_closed_queue_is_nacked() -> None:
    _, third = break_q()
    third.ask(ConfirmSelect())
    (heard,) = third.publish(b"x")
    assert heard.method == BasicNack(1, False, False)


def test_closed_queue_can_be_deleted_and_declared_again() -> None:
    room, third = break_q()
    assert isinstance(third.ask(QueueDelete(queue="q")), QueueDeleteOk)
    assert third.declare("q").message_count == 0
    assert third.consume("q", tag="again") == []
    assert bodies(third.publish(b"new")) == [b"new"]
    assert room.queues["q"].refused is None


def test_closed_queue_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    room, third = break_q()
    assert room.broker.virtual_hosts.turns.broken == 1
    assert "queue 'q' in vhost '/' is closed" in caplog.text
    third.publish(b"x")
    assert room.broker.virtual_hosts.turns.broken == 1


@pytest.mark.parametrize("call", ["deliver", "publish", "expire", "take_one"])
def test_broken_invariant_is_found_in_every_call(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, first, _, third = room_of_two()
    queue = room.queues["q"]

    def contradicts(*_: object) -> None:
        raise InvariantError("a test")

    monkeypatch.setattr(queue, call, contradicts)
    if call == "expire":
        queue._hooks.time_up(queue)
    elif call == "take_one":
        (heard,) = room.client().say(BasicGet(queue="q"))
        assert heard.method.reply_code == ReplyCode.INTERNAL_ERROR
    else:
        third.publish(b"x")
    room.broker.pass_done()
    assert closed(first)
    assert names(third.publish(b"y", key="other")) == ["BasicDeliver"]


@pytest.mark.parametrize("broken_one", ["q", "other"])
def test_queues_of_the_same_route_get_what_a_broken_one_does_not(
    broken_one: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, first, _, third = room_of_two()
    for queue in ("q", "other"):
        third.say(QueueBind(queue=queue, exchange="amq.fanout"))

    def contradicts(*_: object) -> None:
        raise InvariantError("a test")

    monkeypatch.setattr(room.queues[broken_one], "publish", contradicts)
    heard = third.publish(b"x", exchange="amq.fanout") + first.heard()
    assert bodies([each for each in heard if each.body]) == [b"x"]
