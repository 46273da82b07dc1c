"""Durable queues of a whole broker: over a restart, and as the topics that Kafka's clients see."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from headrace.frontends.amqp import durable_queues
from headrace.ports.store import SessionLost
from headrace.testing import BrokerThread
from headrace.wire.amqp.content import Message
from headrace.wire.amqp.control_methods import ChannelClose, ConfirmSelect
from headrace.wire.amqp.field_table import FieldTable
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicReject,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from headrace.wire.amqp.properties import Properties, make_header
from tests.support.amqp_messages import publish_frames
from tests.support.amqp_wire import AmqpWire, Gone

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,AMQP://127.0.0.1:0",
    "amqp.preview": "true",
    "amqp.guest": "true",
}


class Started:
    """A broker on a directory, and a client of AMQP."""

    def __init__(self, directory: Path) -> None:
        self.broker = BrokerThread(SETTINGS, directory=str(directory)).start()
        port = self.broker.call(lambda server: server.listeners[1].port)
        self.client = AmqpWire(port)
        self.client.ask(ConfirmSelect())

    def stop(self) -> None:
        """Stop cleanly."""
        self.client.close()
        self.broker.stop()

    def declare(self, name: str = "q", arguments: FieldTable | None = None, **flags: bool) -> Any:
        """Declare a durable queue; returns the answer."""
        declared = QueueDeclare(queue=name, durable=True, arguments=arguments or {}, **flags)
        return self.client.ask(declared)

    def publish(
        self, *bodies: bytes, exchange: str = "", key: str = "q", **properties: Any
    ) -> None:
        """Publish, and wait for the confirms."""
        wanted = Properties(**({"delivery_mode": 2} | properties))
        for body in bodies:
            message = Message(exchange, key, make_header(len(body), wanted), body)
            self.client.send(publish_frames(1, message, 0))
            answer = self.client.method()
            assert isinstance(answer, BasicAck), answer

    def get(self, name: str = "q", *, no_ack: bool = True) -> tuple[bytes, BasicGetOk] | None:
        """Get a message."""
        self.client.send(encode_method(1, BasicGet(queue=name, no_ack=no_ack)))
        answer, body = self.client.received()
        if isinstance(answer, BasicGetEmpty):
            return None
        assert isinstance(answer, BasicGetOk), answer
        return body, answer

    def gets(self, name: str = "q") -> list[str]:
        """Get all there is; `*` behind what is redelivered."""
        found = []
        while (got := self.get(name)) is not None:
            found.append(got[0].decode() + ("*" if got[1].redelivered else ""))
        return found

    def topics(self) -> list[str]:
        """The topics that there are."""
        return self.broker.call(lambda server: sorted(server.broker.image.topics))

    def ready(self, name: str = "q") -> int:
        """How many messages are ready."""
        answer = self.client.ask(QueueDeclare(queue=name, passive=True))
        return int(answer.message_count)


Start = Callable[[], Started]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the broker, which is stopped cleanly where it runs."""
    running: list[Started] = []

    def started() -> Started:
        while running:
            running.pop().stop()
        running.append(Started(tmp_path))
        return running[-1]

    yield started
    while running:
        running.pop().stop()


def eventually(look: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + 20
    while not look():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


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


# What cannot be stored


def kept_queues(broker: BrokerThread) -> Any:
    """What keeps the declarations of a broker."""
    return broker.call(lambda server: cast("Any", server.frontends)._others[0]._kept.queues)


class FailingStore:
    """A metadata store that is not to be written to."""

    def __init__(self, store: Any) -> None:
        self.store = store

    async def multi(self, operations: Any) -> Any:
        """Fail."""
        raise SessionLost("the disk is full")


def test_what_cannot_be_stored_is_said_and_stored_once_it_can_be(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_queues, "RETRY_SECONDS", 0.05)
    first = start()
    queues = kept_queues(first.broker)
    works = queues._store
    queues._store = FailingStore(works)
    first.client.send(encode_method(1, QueueDeclare(queue="q", durable=True)))
    with pytest.raises(Gone, match="what was declared could not be stored: the disk is full"):
        first.client.received()
    queues._store = works
    eventually(lambda: bool(queues._stored) and queues._running is None)
    again = start()
    assert again.ready() == 0


def test_a_declaration_that_nobody_can_read_leaves_all_messages_where_they_are(
    start: Start,
) -> None:
    first = start()
    first.declare()
    first.publish(b"a")
    queues = kept_queues(first.broker)
    (node,) = queues._stored
    path = f"{durable_queues.DECLARATIONS}/{node}"
    good = first.broker.run(lambda server: server._store.get(path))  # type: ignore[union-attr]
    first.broker.run(lambda server: server._store.set(path, b"?"))  # type: ignore[union-attr]
    second = start()
    assert second.topics() == ["__amqp.queue.q"]
    second.broker.run(lambda server: server._store.set(path, good.value))  # type: ignore[union-attr]
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
        queues._delete = nothing_deleted

    async def nothing_deleted(_: object) -> None:
        """Do as a kill at that moment."""

    first.broker.run(forget)
    first.client.ask(QueueDelete(queue="q"))
    assert first.topics() == ["__amqp.queue.q"]
    again = start()
    eventually(lambda: again.topics() == [])
    again.declare()
    assert again.gets() == []


# The second door


def consumed(broker: BrokerThread, topic: str, count: int) -> list[Any]:
    """The first records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = consumer.consume(count, 20)
        assert len(found) == count
        return found
    finally:
        consumer.close()


def produce(broker: BrokerThread, topic: str, *values: bytes, **settings: Any) -> None:
    """Produce records, and have them acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for value in values:
        producer.produce(topic, value, key=b"k", partition=0)
    assert producer.flush(20) == 0


def test_what_is_published_by_amqp_is_read_by_kafkas_consumers(start: Start) -> None:
    here = start()
    here.declare("my_orders")
    here.publish(b"a", b"b", key="my_orders", content_type="text/plain")
    first, second = consumed(here.broker, "__amqp.queue.my__orders", 2)
    assert (first.key(), first.value(), second.value()) == (b"my_orders", b"a", b"b")
    headers = dict(first.headers())
    assert set(headers) == {"amqp.header", "amqp.exchange"}
    assert b"text/plain" in headers["amqp.header"]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_a_kafka_producer_writes_is_delivered_by_amqp(start: Start, compression: str) -> None:
    here = start()
    here.declare()
    here.client.send(encode_method(1, BasicConsume(queue="q", consumer_tag="c", no_ack=True)))
    here.client.method()
    produce(here.broker, "__amqp.queue.q", b"a", b"b", **{"compression.type": compression})
    assert [here.client.received()[1] for _ in range(2)] == [b"a", b"b"]


def test_what_both_write_is_delivered_in_the_order_of_the_log(start: Start) -> None:
    here = start()
    here.declare()
    here.publish(b"a")
    produce(here.broker, "__amqp.queue.q", b"b")
    here.publish(b"c")
    eventually(lambda: here.ready() == 3)
    assert here.gets() == ["a", "b", "c"]
    produce(here.broker, "__amqp.queue.q", b"d")
    assert start().gets() == ["d"]


def test_any_priority_may_be_written_to_by_kafkas_producers(start: Start) -> None:
    here = start()
    here.declare(arguments={"x-max-priority": 2})
    here.publish(b"low")
    producer = Producer({"bootstrap.servers": here.broker.bootstrap})
    producer.produce("__amqp.queue.q", b"high", partition=2)
    assert producer.flush(20) == 0
    eventually(lambda: here.ready() == 2)
    assert here.gets() == ["high", "low"]


def refused(futures: dict[Any, Any]) -> bool:
    """Tell whether it was refused as a policy's violation."""
    (future,) = futures.values()
    with pytest.raises(KafkaException) as refusal:
        future.result(20)
    return bool(refusal.value.args[0].code() == KafkaError.POLICY_VIOLATION)


def test_kafkas_clients_change_no_queues_topic(start: Start) -> None:
    here = start()
    here.declare()
    here.publish(b"a")
    topic = "__amqp.queue.q"
    admin = AdminClient({"bootstrap.servers": here.broker.bootstrap})
    assert refused(admin.create_topics([NewTopic("__amqp.queue.r", 1, 1)]))
    assert refused(admin.delete_topics([topic]))
    assert refused(admin.create_partitions([NewPartitions(topic, 2)]))
    compaction = ConfigEntry(
        "cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[compaction])
    assert refused(admin.incremental_alter_configs([resource]))
    assert refused(admin.delete_records([TopicPartition(topic, 0, 1)]))
    assert here.gets() == ["a"]


def test_a_topic_of_no_queue_is_not_made_by_who_asks_for_it(start: Start) -> None:
    here = start()
    producer = Producer({"bootstrap.servers": here.broker.bootstrap, "message.timeout.ms": 2000})
    producer.produce("__amqp.queue.nobody", b"a")
    producer.flush(20)
    assert here.topics() == []


def test_a_queue_keeps_all_while_nobody_serves_amqp(start: Start, tmp_path: Path) -> None:
    first = start()
    first.declare()
    first.publish(b"a", b"b")
    first.stop()
    with BrokerThread(directory=str(tmp_path)) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert refused(admin.delete_records([TopicPartition("__amqp.queue.q", 0, 1)]))
        assert refused(admin.delete_topics(["__amqp.queue.q"]))
        assert [record.value for record in broker.records("__amqp.queue.q")] == [b"a", b"b"]
    assert start().gets() == ["a", "b"]
