"""Durable queues of a whole broker, over restarts."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pika
import pytest

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.client.sync import connect, run
from headrace.model.errors import ApiError, ErrorCode
from headrace.queues.model.stored_model import durable_records
from headrace.queues.model.stored_records import encode_record
from headrace.testing import BrokerThread
from headrace.vhosts import durable_queues
from headrace.vhosts.declarations.stored_changes import Change
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ChannelClose
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicReject,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp.messages import publish_frames
from tests.support.queues.restarts import Start, eventually, starting

if TYPE_CHECKING:
    from headrace.wire.amqp.field_table import FieldTable
from tests.support.amqp.wire import Gone


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the broker."""
    yield from starting(tmp_path)


# Over a restart


def test_what_is_durable_is_there_after_a_restart_and_nothing_else(start: Start) -> None:
    first = start()
    first.client.ask(ExchangeDeclare(exchange="kept", type="topic", durable=True))
    first.client.ask(ExchangeDeclare(exchange="gone", type="topic"))
    first.declare()
    first.client.ask(QueueDeclare(queue="transient"))
    for exchange in ("kept", "gone", "amq.direct"):
        first.client.ask(QueueBind(queue="q", exchange=exchange, routing_key="a.*"))
    first.client.ask(QueueBind(queue="transient", exchange="kept", routing_key="#"))
    first.publish(b"one", exchange="kept", key="a.b")
    first.publish(b"two", exchange="gone", key="a.b")
    first.publish(b"three", delivery_mode=1)
    again = start()
    assert again.ready() == 2, "what is not persistent is gone"
    again.publish(b"four", exchange="kept", key="a.c")
    again.publish(b"five", exchange="amq.direct", key="a.*")
    assert again.gets() == ["one", "two", "four", "five"]
    same = ExchangeDeclare(exchange="kept", type="topic", durable=True)
    assert again.client.ask(same) == ExchangeDeclareOk()
    refusal = again.client.ask(ExchangeDeclare(exchange="gone", passive=True))
    assert (type(refusal), refusal.reply_code) == (ChannelClose, 404)


def test_arguments_keep_their_kinds_over_a_restart(start: Start) -> None:
    arguments: FieldTable = {"x-max-length": 5, "x-max-priority": 3, "x-note": {"deep": [1, "a"]}}
    start().declare(arguments=arguments)
    again = start()
    assert again.declare(arguments=arguments).message_count == 0
    other = again.declare(arguments=arguments | {"x-max-length": 6})
    assert isinstance(other, ChannelClose)
    assert "inequivalent arg 'x-max-length'" in other.reply_text


def test_what_was_out_comes_back_redelivered_and_what_was_not_does_not(start: Start) -> None:
    first = start()
    first.declare()
    first.publish(b"a", b"b", b"c")
    got = first.get(no_ack=False)
    assert got is not None
    second = first.get(no_ack=False)
    assert second is not None
    first.client.send(encode_method(1, BasicAck(second[1].delivery_tag, False)))
    assert first.ready() == 1
    assert start().gets() == ["a*", "c"]


def test_priorities_outlive_a_restart(start: Start) -> None:
    first = start()
    first.declare(arguments={"x-max-priority": 2})
    for priority in (0, 2, 1, 9):
        first.publish(b"%d" % priority, priority=priority)
    again = start()
    assert again.ready() == 4
    assert again.gets() == ["2", "9", "1", "0"]


def test_a_quorum_queue_counts_returns_over_a_restart(start: Start) -> None:
    first = start()
    first.declare(arguments={"x-queue-type": "quorum", "x-delivery-limit": 2})
    first.publish(b"a")
    first.publish(b"transient", delivery_mode=1)
    for _ in range(2):
        got = first.get(no_ack=False)
        assert got is not None
        first.client.send(encode_method(1, BasicReject(got[1].delivery_tag, True)))
    again = start()
    assert again.ready() == 2, "a quorum queue keeps all"
    got = again.get(no_ack=False)
    assert got is not None
    assert got[0] == b"a"
    again.client.send(encode_method(1, BasicReject(got[1].delivery_tag, True)))
    eventually(lambda: again.ready() == 1)
    assert again.gets() == ["transient"], "its third return was one too many"


def test_messages_expire_while_the_broker_is_down(start: Start) -> None:
    first = start()
    first.declare(arguments={"x-message-ttl": 300})
    first.publish(b"a")
    first.stop()
    time.sleep(0.5)
    again = start()
    assert again.gets() == []
    again.publish(b"b")
    assert again.gets() == ["b"]


def test_what_a_dead_letter_exchange_took_is_there_once_after_a_restart(start: Start) -> None:
    first = start()
    first.declare("dead")
    first.declare(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    first.publish(b"a", b"b")
    got = first.get(no_ack=False)
    assert got is not None
    first.client.send(encode_method(1, BasicReject(got[1].delivery_tag, False)))
    eventually(lambda: first.ready("dead") == 1)
    again = start()
    assert (again.gets("dead"), again.gets()) == (["a"], ["b"])


def test_message_that_dies_while_the_broker_stops_is_not_lost(start: Start) -> None:
    first = start()
    first.declare("dead")
    dies: FieldTable = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    first.declare(arguments=dies | {"x-max-length": 1})
    first.publish(b"a")
    assert first.get(no_ack=False) is not None
    first.publish(b"b")
    first.broker.stop()  # with a, which is requeued when its channel closes, the queue is too long
    again = start()
    assert again.gets() == ["b"]
    assert again.gets("dead") == ["a"]


# What cannot be stored


def kept_queues(broker: BrokerThread) -> Any:
    """What keeps the declarations of a broker."""
    return broker.call(lambda server: cast("Any", server.frontends)._others[0].kept.queues)


def queue_hosts(broker: BrokerThread) -> Any:
    """The hosts of a broker's vhosts."""
    return broker.call(
        lambda server: cast("Any", server.frontends)._others[0].broker.virtual_hosts.hosts
    )


def append_raw(broker: BrokerThread, changes: dict[bytes, Change]) -> None:
    """Append to the log of declarations."""
    log = kept_queues(broker)._declarations

    async def append(_: object) -> None:
        await log.append(changes)

    broker.run(append)


class FailingLog:
    """A log of declarations that cannot be appended to."""

    async def append(self, changes: Any) -> None:
        """Fail."""
        if changes:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")


def test_what_cannot_be_stored_is_said_and_stored_once_it_can_be(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_queues, "RETRY_SECONDS", 0.05)
    first = start()
    queues = kept_queues(first.broker)
    works = queues._declarations
    queues._declarations = FailingLog()
    first.client.send(encode_method(1, QueueDeclare(queue="q", durable=True)))
    with pytest.raises(
        Gone, match=r"the changed declarations could not be stored: .*the disk is full"
    ):
        first.client.received()
    queues._declarations = works
    eventually(lambda: queues._next.is_empty and queues._running is None)
    again = start()
    assert again.ready() == 0


class SlowFailingLog(FailingLog):
    """A log that fails after a while."""

    asked = failures = 0

    async def append(self, changes: Any) -> None:
        """Fail later."""
        if changes:
            self.asked += 1
            await asyncio.sleep(0.3)
            self.failures += 1
        await super().append(changes)


def test_queue_deleted_while_the_log_fails_is_deleted_with_its_topic(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_queues, "RETRY_SECONDS", 0.05)
    first = start()
    first.declare()
    first.publish(b"a")
    queues = kept_queues(first.broker)
    works = queues._declarations
    queues._declarations = FailingLog()
    first.client.send(encode_method(1, QueueDelete(queue="q")))
    with pytest.raises(Gone):
        first.client.received()
    queues._declarations = works
    topics = first.broker.call(lambda server: server.broker.image.topics)
    eventually(lambda: not queues._stored and "__amqp.queue.q" not in topics)
    again = start()
    assert again.client.ask(QueueDeclare(queue="q", passive=True)).reply_code == 404


def test_queue_deleted_while_its_declaration_fails_does_not_come_back(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_queues, "RETRY_SECONDS", 0.05)
    first = start()
    queues = kept_queues(first.broker)
    works = queues._declarations
    failing = queues._declarations = SlowFailingLog()
    first.client.send(encode_method(1, QueueDeclare(queue="q", durable=True)))
    eventually(lambda: failing.asked > 0)
    first.client.send(encode_method(1, QueueDelete(queue="q")))
    eventually(lambda: failing.failures > 0)
    queues._declarations = works
    eventually(lambda: queues._next.is_empty and queues._running is None)
    assert not queues._stored
    again = start()
    assert again.client.ask(QueueDeclare(queue="q", passive=True)).reply_code == 404


def test_a_declaration_that_nobody_can_read_leaves_all_messages_where_they_are(
    start: Start,
) -> None:
    first = start()
    first.declare()
    first.publish(b"a")
    queues = kept_queues(first.broker)
    (key,) = queues._stored
    (record,) = durable_records(queue_hosts(first.broker)["/"].model)
    append_raw(first.broker, {key: Change("/", b"?")})
    second = start()
    assert second.topics() == ["__amqp.queue.q"]
    append_raw(second.broker, {key: Change("/", encode_record("/", record))})
    assert start().gets() == ["a"]


# A queue that goes


def test_a_queue_that_is_deleted_takes_its_messages_along(start: Start) -> None:
    first = start()
    first.declare()
    first.publish(b"a", b"b")
    assert first.topics() == ["__amqp.queue.q"]
    assert first.client.ask(QueueDelete(queue="q")).message_count == 2
    assert first.topics() == []
    first.declare()
    assert first.gets() == []
    first.publish(b"c")
    assert start().gets() == ["c"]


def test_a_queue_is_declared_published_to_and_deleted_in_one_write(start: Start) -> None:
    first = start()
    header = make_header(1, Properties(delivery_mode=2))
    declare = encode_method(1, QueueDeclare(queue="q", durable=True, nowait=True))
    delete = encode_method(1, QueueDelete(queue="q", nowait=True))
    publish = publish_frames(1, Message("", "q", header, b"a"), 0)
    first.client.send(3 * (declare + publish + delete) + declare + publish)
    acks = [first.client.method()]
    while acks[-1].delivery_tag < 4:
        acks.append(first.client.method())
    assert all(isinstance(ack, BasicAck) for ack in acks)
    assert first.ready() == 1
    assert start().gets() == ["a"]


def test_what_is_purged_stays_away(start: Start) -> None:
    first = start()
    first.declare()
    first.publish(b"a", b"b")
    assert first.client.ask(QueuePurge(queue="q")).message_count == 2
    first.publish(b"c")
    assert start().gets() == ["c"]


def test_a_topic_whose_queue_was_deleted_by_a_broker_that_was_killed_goes(start: Start) -> None:
    first = start()
    first.declare()
    first.publish(b"a")
    queues = kept_queues(first.broker)

    async def forget(_: object) -> None:
        queues.of_queues.delete = nothing_deleted

    async def nothing_deleted(_: object) -> None:
        """Do as a kill at that moment."""

    first.broker.run(forget)
    first.client.ask(QueueDelete(queue="q"))
    assert first.topics() == ["__amqp.queue.q"]
    again = start()
    eventually(lambda: again.topics() == [])
    again.declare()
    assert again.gets() == []


def test_a_vhost_that_is_deleted_takes_all_that_was_declared_along(start: Start) -> None:
    def ask(operation: str, **question: Any) -> None:
        with connect(first.broker.bootstrap) as client:
            run(ask_amqp(client, operation, **question))

    first = start()
    ask("vhost.create", name="shop")
    ask("permission.set", user="guest", vhost="shop", configure=".*", write=".*", read=".*")
    port = first.broker.call(lambda server: server.listeners[1].port)
    parameters = pika.ConnectionParameters("127.0.0.1", port, "shop")
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("kept", durable=True)
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "kept", "a")
        channel.basic_publish("kept", "a", b"one", pika.BasicProperties(delivery_mode=2))
    assert len(first.topics()) == 1
    ask("vhost.delete", name="shop")
    eventually(lambda: not first.topics())
    again = start()
    hosts = again.broker.call(lambda server: declared(server))
    assert hosts == ["/"]


def declared(server: Any) -> list[str]:
    """The names of the vhosts that there are at work."""
    (frontend,) = server.frontends._others
    return list(frontend.broker.virtual_hosts.hosts)
