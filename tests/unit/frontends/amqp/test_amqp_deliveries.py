"""Consumers by AMQP: deliveries, settlements, credit, dead letters and ends."""

from typing import Any

import pytest

from headrace.queues.engine import delivery_turns
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ChannelClose, ChannelOpen, ConnectionClose
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicReject,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.channels import QueueClient, QueueRoom, bodies, names
from tests.support.amqp.messages import publish_frames


def queue_client(room: QueueRoom, **queue: Any) -> QueueClient:
    """Return a client with the queue `q`."""
    client = room.client()
    client.declare(**queue)
    return client


def test_a_consumer_gets_what_is_there_and_what_others_publish() -> None:
    room = QueueRoom()
    client, other = queue_client(room), room.client()
    other.publish(b"a", b"b")
    assert bodies(client.consume()) == [b"a", b"b"]
    other.publish(b"c", message_id="m")
    (heard,) = client.heard()
    assert (heard.body, heard.properties.message_id) == (b"c", "m")
    assert heard.method == ("c", 3, False, "", "q")


def test_an_empty_name_is_the_queue_declared_last() -> None:
    client = QueueRoom().client()
    name = client.declare("").queue
    assert name.startswith("amq.gen-")
    client.publish(b"a", key=name)
    assert bodies(client.say(BasicGet())) == [b"a"]
    assert client.ask(QueuePurge()) == QueuePurgeOk(0)
    assert client.ask(QueueDelete()) == QueueDeleteOk(0)


def test_without_a_declaration_an_empty_name_is_none() -> None:
    closing = QueueRoom().client().ask(BasicGet())
    assert closing == ChannelClose(404, "NOT_FOUND - no previously declared queue", 60, 70)


def test_nowait_is_answered_by_nothing() -> None:
    client = QueueRoom().client()
    assert client.say(QueueDeclare(queue="q", nowait=True)) == []
    assert client.say(BasicConsume(queue="q", consumer_tag="c", nowait=True)) == []
    assert client.say(BasicCancel("c", nowait=True)) == []


def test_a_tag_is_used_once_and_made_where_none_is_given() -> None:
    client = queue_client(QueueRoom())
    tag = client.ask(BasicConsume(queue="q")).consumer_tag
    assert tag.startswith("amq.ctag-")
    closing = client.ask(BasicConsume(queue="q", consumer_tag=tag))
    assert isinstance(closing, ConnectionClose)
    assert closing.reply_text == f"NOT_ALLOWED - attempt to reuse consumer tag '{tag}'"


def test_prefetch_bounds_each_consumer_and_an_ack_lets_more_come() -> None:
    client = queue_client(QueueRoom())
    client.say(BasicQos(0, 2))
    client.publish(b"1", b"2", b"3", b"4", b"5")
    assert bodies(client.consume()) == [b"1", b"2"]
    assert bodies(client.say(BasicAck(2, True))) == [b"3", b"4"]
    assert bodies(client.say(BasicAck(3), BasicAck(4))) == [b"5"]


def test_global_prefetch_is_for_all_consumers_of_a_channel() -> None:
    client = queue_client(QueueRoom())
    client.say(BasicQos(0, 3, True))
    client.consume(tag="c")
    client.consume(tag="d")
    assert len(client.publish(b"1", b"2", b"3", b"4", b"5", b"6")) == 3
    assert len(client.say(BasicQos(0, 4, True))) == 2, "its answer, and one more"
    assert len(client.say(BasicQos(0, 9))) > 2, (
        "a limit of each consumer lifts that of all together"
    )


def three_queues(client: QueueClient) -> None:
    """Have three queues with three messages each consumed on one channel, one at a time."""
    client.say(BasicQos(0, 1, True))
    for name in ("q", "r", "s"):
        client.declare(name)
        client.publish(*[f"{name}{number}".encode() for number in range(3)], key=name)
    for name in ("q", "r", "s"):
        client.say(BasicConsume(queue=name, consumer_tag=name))


def test_queues_have_what_a_channel_may_hold_in_turn() -> None:
    client = QueueRoom().client()
    three_queues(client)
    came = [bodies(client.say(BasicAck(tag))) for tag in range(1, 9)]
    assert b" ".join(map(b"".join, came)) == b"r0 s0 q1 r1 s1 q2 r2 s2", "q0 came first"


def test_a_queue_that_is_published_to_has_no_turn_before_the_others() -> None:
    client = QueueRoom().client()
    three_queues(client)
    came = []
    for tag in range(1, 4):
        message = Message("", "q", make_header(1, Properties()), b"n")
        ack = encode_method(1, BasicAck(tag))
        came += bodies(client.raw(publish_frames(1, message, 0) + ack))
    assert came == [b"r0", b"s0", b"q1"]


def test_a_limit_of_bytes_is_not_served() -> None:
    closing = QueueRoom().client().ask(BasicQos(7, 1))
    assert closing.reply_text == "NOT_IMPLEMENTED - prefetch_size!=0 (7)"


@pytest.mark.parametrize("settle", [BasicNack(1, False, True), BasicReject(1, True)])
def test_what_is_put_back_comes_again_redelivered(settle: Any) -> None:
    client = queue_client(QueueRoom())
    client.publish(b"a")
    client.consume()
    (heard,) = client.say(settle)
    assert (heard.body, heard.method.redelivered) == (b"a", True)


def test_recover_puts_all_back_and_nothing_else_is_served() -> None:
    client = queue_client(QueueRoom())
    client.publish(b"a", b"b")
    client.consume()
    heard = client.say(BasicRecover(True))
    assert names(heard) == ["BasicRecoverOk", "BasicDeliver", "BasicDeliver"]
    assert client.ask(BasicRecover(False)).reply_text == "NOT_IMPLEMENTED - requeue=false"


def test_an_unknown_tag_closes_the_channel_after_what_was_known() -> None:
    room = QueueRoom()
    client = queue_client(room)
    client.publish(b"a", b"b")
    client.say(BasicGet(queue="q"), BasicGet(queue="q"))
    (heard,) = client.say(BasicAck(1), BasicAck(1))
    assert heard.method == ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 1", 60, 80)
    assert (room.queues["q"].ready, room.queues["q"].unacked) == (1, 0)


def test_a_deleted_queue_cancels_its_consumers_if_they_understand_it() -> None:
    room = QueueRoom()
    client, deaf = queue_client(room), room.client({})
    client.consume()
    deaf.consume(tag="d")
    assert [each.method for each in client.say(QueueDelete(queue="q"))] == [
        QueueDeleteOk(0),
        BasicCancel("c", True),
    ]
    assert deaf.heard() == []
    assert client.ask(BasicCancel("c")) == BasicCancelOk("c")


def test_an_auto_delete_queue_goes_with_its_last_consumer_and_an_exclusive_one_with_its_owner() -> (
    None
):
    room = QueueRoom()
    client, other = queue_client(room, auto_delete=True), room.client()
    client.declare("mine", exclusive=True)
    assert other.ask(QueueDeclare(queue="mine", passive=True)).reply_code == 405
    client.consume()
    client.connection.lost()
    assert room.queues == {}


def test_a_closed_channel_puts_back_what_it_held() -> None:
    room = QueueRoom()
    client, other = queue_client(room), room.client()
    client.publish(b"a")
    client.consume()
    other.consume(tag="d")
    client.connection.lost()
    room.clock.advance()
    (heard,) = other.heard()
    assert (heard.body, heard.method.redelivered) == (b"a", True)


def test_who_leaves_too_much_unread_gets_nothing_until_there_is_room() -> None:
    room = QueueRoom()
    client, other = queue_client(room), room.client()
    client.consume()
    client.has_room = False
    other.publish(b"a")
    other.publish(b"b")
    assert bodies(client.heard()) == [b"a"], "what filled it is the last"
    client.say(ChannelOpen(), channel=2)
    client.consume(tag="d", channel=2)
    other.publish(b"c")
    assert client.heard() == [], "nor do new channels"
    client.has_room = True
    client.connection.room()
    room.broker.pass_done()
    assert bodies(client.heard()) == [b"b", b"c"]


def test_channels_of_a_slow_client_have_the_room_in_turn() -> None:
    room = QueueRoom()
    client, other = room.client(), room.client()
    for channel, name in enumerate(("q", "r", "s"), 2):
        client.say(ChannelOpen(), channel=channel)
        client.declare(name)
        client.consume(name, channel=channel)
    client.has_room = False
    came = []
    for _ in range(6):
        for name in ("q", "r", "s"):
            other.publish(name.encode(), key=name)
        came.append(bodies(client.heard()))
        client.connection.room()
        room.broker.pass_done()
    assert [each[:1] for each in came] == [[name] for name in (b"q", b"r", b"s") * 2]


def test_a_turn_is_bounded_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_turns, "TURN_QUEUES_MAX", 1)
    room = QueueRoom()
    client = room.client()
    for queue in ("q", "r"):
        client.declare(queue)
        client.say(QueueBind(queue=queue, exchange="amq.fanout"))
        client.consume(queue, tag=queue)
        room.clock.advance()
    assert bodies(client.publish(b"a", exchange="amq.fanout")) == [b"a"]
    room.clock.advance()
    assert bodies(client.heard()) == [b"a"]


def test_dead_letters_tell_of_their_death_and_lose_their_expiration() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare("dead")
    client.declare(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    client.publish(b"a", expiration="100", headers={"mine": 1, "x-death": [{"count": 9}]})
    assert names(client.say(BasicGet(queue="dead"))) == ["BasicGetEmpty"]
    room.clock.advance(0.2)
    (heard,) = client.say(BasicGet(queue="dead"))
    headers: Any = heard.properties.headers
    (death,) = headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == ("q", "expired", 1)
    assert death["original-expiration"] == "100"
    assert (headers["mine"], heard.properties.expiration) == (1, None)
    assert headers["x-first-death-reason"] == "expired"


def test_a_death_is_counted_where_the_broker_told_of_the_last_one() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    client.publish(b"a")
    for count in (1, 2, 3):
        client.say(BasicGet(queue="q"))
        client.say(BasicReject(count, False))
    (heard,) = client.say(BasicGet(queue="q"))
    headers: Any = heard.properties.headers
    assert [death["count"] for death in headers["x-death"]] == [3]


def test_a_dead_letter_is_settled_once_its_target_keeps_it() -> None:
    room = QueueRoom(late=True)
    client = room.client()
    client.declare("dead", durable=True)
    client.declare(
        durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    client.publish(b"a", delivery_mode=2)
    client.say(BasicGet(queue="q"))
    client.say(BasicReject(1, False))
    assert room.stores["q"].read(0, 1)[1], "a kill now must not lose it"
    room.stores["dead"].keep()
    assert not room.stores["q"].read(0, 1)[1]


@pytest.mark.parametrize("limit", [{}, {"x-delivery-limit": -1}], ids=["bound", "no bound"])
def test_a_quorum_queue_counts_what_comes_back(limit: dict[str, int]) -> None:
    arguments = {"x-queue-type": "quorum", **limit}
    client = queue_client(QueueRoom(), durable=True, arguments=arguments)
    client.publish(b"a")
    client.consume()
    for count in (1, 2):
        (heard,) = client.say(BasicNack(count, False, True))
        assert heard.properties.headers == {"x-delivery-count": count}


def test_a_message_and_a_queue_live_as_long_as_was_said() -> None:
    room = QueueRoom()
    client = queue_client(room, arguments={"x-message-ttl": 1000})
    client.declare("short", arguments={"x-expires": 3000})
    client.publish(b"a")
    client.publish(b"b", expiration="500")
    room.clock.advance(0.6)
    assert room.queues["q"].ready == 2, "behind the head it waits for that"
    room.clock.advance(0.5)
    assert room.queues["q"].ready == 0
    assert "short" in room.queues
    room.clock.advance(3)
    assert list(room.queues) == ["q"]


def test_a_stream_without_a_log_is_refused_and_not_made_something_else() -> None:
    room = QueueRoom()
    arguments = {"x-queue-type": "stream"}
    closing = room.client().declare(durable=True, arguments=arguments)
    assert closing.reply_text == (
        "PRECONDITION_FAILED - queue 'q' in vhost '/' cannot be a stream: this broker keeps all"
        " queues in memory; declare it as a classic or a quorum queue"
    )
    assert room.queues == {}
    assert isinstance(room.client().declare(), QueueDeclareOk)
