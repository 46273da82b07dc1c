"""Publishes by AMQP: confirms, returns, refusals and transactions."""

from typing import TYPE_CHECKING, Any

import pytest

from headrace.model.invariant import InvariantError
from headrace.queue_stores.memory.memory_messages import MemoryMessages
from headrace.queue_stores.memory.message_run import MESSAGE_BYTES
from headrace.queues.permissions.definitions import UserDefinition
from headrace.wire.amqp.control_methods import (
    ChannelClose,
    ConfirmSelect,
    ConnectionClose,
    TxCommit,
    TxRollback,
    TxSelect,
)
from headrace.wire.amqp.hot import IMMEDIATE, MANDATORY
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    QueueBind,
)
from tests.support.amqp.channels import QueueClient, QueueRoom, bodies, names
from tests.support.amqp.messages import message, publish_frames
from tests.support.queues.queues import memory_of

if TYPE_CHECKING:
    from headrace.queues.engine.hosted_queue import MakeStore


def confirming(room: QueueRoom, **queue: Any) -> QueueClient:
    """Return a client in confirm mode with the queue `q`."""
    client = room.client()
    client.declare(**queue)
    client.say(ConfirmSelect())
    return client


def methods(heard: list[Any]) -> list[Any]:
    """Return the methods that came."""
    return [each.method for each in heard]


def test_what_one_pass_brings_is_confirmed_by_one_ack() -> None:
    client = confirming(QueueRoom())
    assert methods(client.publish(b"a")) == [BasicAck(1, False)]
    assert methods(client.publish(b"b", b"c", b"d")) == [BasicAck(4, True)]


def test_refused_publish_is_refused_once_and_not_with_later_passes() -> None:
    client = QueueRoom().client()
    client.declare(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.ask(ConfirmSelect())
    heard = client.publish(b"a", b"b")
    assert [each.method for each in heard] == [BasicAck(1, False), BasicNack(2, False, False)]
    client.say(BasicGet(queue="q", no_ack=True))
    (heard_later,) = client.publish(b"c")
    assert heard_later.method == BasicAck(3, False)


def test_a_return_comes_before_the_confirm_and_has_the_message() -> None:
    client = confirming(QueueRoom())
    heard = client.publish(b"a", key="nobody", flags=MANDATORY, message_id="m")
    assert names(heard) == ["BasicReturn", "BasicAck"]
    assert heard[0].method[:4] == (312, "NO_ROUTE", "", "nobody")
    assert (heard[0].body, heard[0].properties.message_id) == (b"a", "m")


def test_what_a_full_queue_refuses_is_nacked_at_its_place() -> None:
    client = confirming(QueueRoom(), arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    heard = client.publish(b"a", b"b", b"c")
    assert methods(heard) == [BasicAck(2, True), BasicNack(3, False, False)]


def test_a_persistent_message_is_confirmed_once_its_store_keeps_it() -> None:
    room = QueueRoom(late=True)
    client = confirming(room, durable=True)
    assert client.publish(b"a", delivery_mode=2) == []
    assert client.publish(b"b") == [], "confirms keep the order of their publishes"
    room.stores["q"].keep()
    assert methods(client.heard()) == [BasicAck(1, False), BasicAck(2, False)]


def test_a_queue_that_keeps_all_confirms_what_is_not_persistent_once_it_has_it() -> None:
    room = QueueRoom(late=True)
    client = confirming(room, durable=True, arguments={"x-queue-type": "quorum"})
    assert client.publish(b"a") == []
    room.stores["q"].keep()
    assert methods(client.heard()) == [BasicAck(1, False)]


def test_a_message_that_its_store_loses_is_nacked() -> None:
    room = QueueRoom(late=True)
    client = confirming(room, durable=True)
    client.publish(b"a", b"b", delivery_mode=2)
    room.stores["q"].keep(False)
    assert methods(client.heard()) == [BasicNack(2, True, False)]


def test_a_message_in_several_stores_is_confirmed_after_the_last() -> None:
    room = QueueRoom(late=True)
    client = confirming(room, durable=True)
    client.declare("r", durable=True)
    for queue in ("q", "r"):
        client.say(QueueBind(queue=queue, exchange="amq.fanout"))
    client.publish(b"a", exchange="amq.fanout", delivery_mode=2)
    room.stores["q"].keep()
    assert client.heard() == []
    room.stores["r"].keep()
    assert methods(client.heard()) == [BasicAck(1, False)]


def test_what_was_taken_before_an_error_is_confirmed_before_the_channel_closes() -> None:
    client = confirming(QueueRoom())
    right = message(b"a", routing_key="q")
    heard = client.raw(publish_frames(1, right) + publish_frames(1, message(exchange="none")))
    assert methods(heard) == [
        BasicAck(1, False),
        ChannelClose(404, "NOT_FOUND - no exchange 'none' in vhost '/'", 60, 40),
    ]


def bounded(queue: Any, priority: int) -> MemoryMessages:
    """A store with room for one message of 100 bytes."""
    return MemoryMessages(memory_of(MESSAGE_BYTES + 150))


@pytest.mark.parametrize("confirms", [True, False])
def test_what_no_memory_is_left_for_is_never_dropped_in_silence(confirms: bool) -> None:
    make: MakeStore = bounded
    client = QueueRoom(make=make).client()
    client.declare()
    if confirms:
        client.say(ConfirmSelect())
    assert methods(client.publish(bytes(100))) == ([BasicAck(1, False)] if confirms else [])
    (heard,) = client.publish(bytes(100))
    if confirms:
        assert heard.method == BasicNack(2, False, False)
    else:
        assert isinstance(heard.method, ConnectionClose)
        assert heard.method.reply_code == 506
        assert "queue 'q' in vhost '/' could not keep a message: queues in memory hold" in (
            heard.method.reply_text
        )


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"expiration": "abc"}, "invalid expiration 'abc': no_integer"),
        ({"expiration": "1s"}, "invalid expiration '1s': {leftover_string,\"s\"}"),
        ({"expiration": "-1"}, "invalid expiration '-1': {value_negative,-1}"),
        (
            {"user_id": "bob"},
            "user_id property set to 'bob' but authenticated user was 'guest'",
        ),
        ({"reply_to": "amq.rabbitmq.reply-to"}, "fast reply consumer does not exist"),
        (
            {"headers": {"CC": "x"}},
            'invalid message: {unacceptable_type_in_header,"CC",longstr}',
        ),
    ],
)
def test_what_a_message_may_not_say_closes_the_channel(
    properties: dict[str, Any], text: str
) -> None:
    client = QueueRoom().client()
    client.declare()
    (heard,) = client.publish(b"a", **properties)
    assert heard.method == ChannelClose(406, f"PRECONDITION_FAILED - {text}", 60, 40)


def test_an_impersonator_may_publish_in_anothers_name_as_long_as_he_is_one() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    definitions = room.broker._admission.definitions
    definitions.put_user("guest", UserDefinition(("administrator", "impersonator")))
    assert client.publish(b"a", user_id="bob") == []
    (heard,) = client.say(BasicGet(queue="q"))
    assert heard.properties.user_id == "bob"
    definitions.put_user("guest", UserDefinition(("administrator",)))
    (heard,) = client.publish(b"a", user_id="bob")
    assert heard.method.reply_code == 406


def test_immediate_closes_the_connection() -> None:
    client = QueueRoom().client()
    (heard,) = client.publish(b"a", flags=IMMEDIATE)
    assert heard.method == ConnectionClose(540, "NOT_IMPLEMENTED - immediate=true", 60, 40)


def test_copies_go_to_cc_and_bcc_and_only_cc_is_told() -> None:
    client = QueueRoom().client()
    for queue in ("q", "cc", "bcc"):
        client.declare(queue)
    client.publish(b"a", headers={"CC": ["cc"], "BCC": ["bcc"], "x": 1})
    for queue in ("q", "cc", "bcc"):
        (heard,) = client.say(BasicGet(queue=queue, no_ack=True))
        assert heard.properties.headers == {"CC": ["cc"], "x": 1}


def test_a_transaction_publishes_and_settles_with_its_commit_alone() -> None:
    room = QueueRoom()
    client, other = room.client(), room.client()
    client.declare()
    client.publish(b"held")
    client.say(BasicGet(queue="q"))
    client.say(TxSelect())
    client.publish(b"new")
    client.say(BasicAck(1))
    assert names(other.say(BasicGet(queue="q"))) == ["BasicGetEmpty"]
    assert room.queues["q"].unacked == 1
    assert names(client.say(TxCommit())) == ["TxCommitOk"]
    assert room.queues["q"].unacked == 0
    assert bodies(other.say(BasicGet(queue="q"))) == [b"new"]


def test_a_rollback_forgets_publishes_and_holds_what_was_settled() -> None:
    room = QueueRoom()
    client = room.client()
    client.declare()
    client.publish(b"a", b"b")
    client.say(TxSelect(), BasicGet(queue="q"), BasicGet(queue="q"))
    client.publish(b"new")
    client.say(BasicAck(2, True))
    client.say(TxRollback())
    assert (room.queues["q"].ready, room.queues["q"].unacked) == (0, 2)
    client.say(BasicAck(2, True))
    client.say(TxCommit())
    assert room.queues["q"].unacked == 0


def test_a_commit_is_answered_once_its_stores_keep_what_it_published() -> None:
    room = QueueRoom(late=True)
    client = room.client()
    client.declare(durable=True)
    client.say(TxSelect())
    client.publish(b"a", delivery_mode=2)
    assert client.say(TxCommit()) == []
    room.stores["q"].keep()
    assert names(client.heard()) == ["TxCommitOk"]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (ConfirmSelect(), TxSelect(), "cannot switch from confirm to tx mode"),
        (TxSelect(), ConfirmSelect(), "cannot switch from tx to confirm mode"),
        (ConfirmSelect(), TxCommit(), "channel is not transactional"),
    ],
)
def test_a_channel_has_one_mode(first: Any, second: Any, text: str) -> None:
    client = QueueRoom().client()
    client.say(first)
    closing = client.ask(second)
    assert closing.reply_text == f"PRECONDITION_FAILED - {text}"


def test_a_request_is_answered_without_a_queue() -> None:
    room = QueueRoom()
    client, server = room.client(), room.client()
    server.declare()
    client.say(BasicConsume(queue="amq.rabbitmq.reply-to", consumer_tag="r", no_ack=True))
    client.publish(b"question", reply_to="amq.rabbitmq.reply-to", headers={"n": 1})
    (asked,) = server.say(BasicGet(queue="q", no_ack=True))
    reply_to = asked.properties.reply_to
    assert reply_to is not None
    assert reply_to.startswith("amq.rabbitmq.reply-to.")
    assert asked.properties.headers == {"n": 1}
    assert server.publish(b"answer", key=reply_to, flags=MANDATORY) == []
    (answered,) = client.heard()
    assert (answered.body, answered.method.consumer_tag) == (b"answer", "r")
    client.connection.lost()
    assert names(server.publish(b"late", key=reply_to, flags=MANDATORY)) == ["BasicReturn"]


def both_bound(client: QueueClient) -> None:
    """Bind `q` and `full`, which refuses a second message, to the exchange amq.fanout."""
    client.declare()
    client.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for queue in ("q", "full"):
        client.say(QueueBind(queue=queue, exchange="amq.fanout"))


@pytest.mark.parametrize("told", [True, False], ids=["told by a nack", "told by a close"])
def test_former_store_failure_closes_no_later_publisher(told: bool) -> None:
    room = QueueRoom(make=bounded)
    failed, later = room.client(), room.client()
    both_bound(later)
    if told:
        failed.say(ConfirmSelect())
    failed.publish(bytes(100))
    (heard,) = failed.publish(bytes(100))
    assert isinstance(heard.method, BasicNack if told else ConnectionClose)
    later.publish(b"a", key="full")
    later.say(BasicGet(queue="q", no_ack=True))
    assert later.publish(b"b", exchange="amq.fanout") == []
    assert bodies(later.say(BasicGet(queue="q", no_ack=True))) == [b"b"]


def test_former_store_failure_is_not_told_when_another_queue_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = QueueRoom(make=bounded)
    failed, later = room.client(), room.client()
    both_bound(later)
    failed.say(ConfirmSelect())
    failed.publish(bytes(100))
    failed.publish(bytes(100))
    later.say(BasicGet(queue="q", no_ack=True))

    def contradicts(*_: object) -> None:
        raise InvariantError("a test")

    monkeypatch.setattr(room.queues["full"], "publish", contradicts)
    assert later.publish(b"b", exchange="amq.fanout") == []
    assert bodies(later.say(BasicGet(queue="q", no_ack=True))) == [b"b"]


def test_store_failure_is_told_though_another_queue_refuses_too() -> None:
    for order in (("q", "full"), ("full", "q")):
        room = QueueRoom(make=bounded)
        client = room.client()
        client.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        client.declare()
        for queue in order:
            client.say(QueueBind(queue=queue, exchange="amq.fanout"))
        assert client.publish(bytes(100), exchange="amq.fanout") == []
        (heard,) = client.publish(bytes(100), exchange="amq.fanout")
        assert isinstance(heard.method, ConnectionClose)
        assert "queue 'q' in vhost '/' could not keep" in heard.method.reply_text
