"""The log of durable declarations of a whole broker: `__amqp.declarations`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
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

from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.client.sync import connect, run
from headrace.model.errors import ConfigError, ErrorCode
from headrace.queues.queue_names import DECLARATIONS_TOPIC
from headrace.testing import BrokerThread
from headrace.vhosts import durable_queues
from headrace.wire.amqp.methods import encode_method
from headrace.wire.amqp.model_methods import (
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from tests.support.amqp.wire import Gone
from tests.support.queues.restarts import SETTINGS, Start, Started, eventually, starting

MANY = 1_000


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the broker."""
    yield from starting(tmp_path)


def declared(here: Started) -> Any:
    """The model of the vhost /."""
    return here.broker.call(
        lambda server: server.frontends._others[0].broker.virtual_hosts.hosts["/"].model  # type: ignore[attr-defined]
    )


def partitions(here: Started) -> dict[int, int]:
    """The end offsets of the log's partitions that are not empty."""
    return here.broker.call(
        lambda server: {
            index: int(partition.log.end_offset)
            for (topic, index), partition in server.broker.partitions.items()
            if topic == DECLARATIONS_TOPIC and partition.log.end_offset
        }
    )


def has_log(here: Started) -> bool:
    """Tell whether the topic exists."""
    return here.broker.call(lambda server: DECLARATIONS_TOPIC in server.broker.image.topics)


def test_topic_is_created_with_the_first_durable_declaration(start: Start) -> None:
    here = start()
    here.client.ask(QueueDeclare(queue="transient"))
    here.client.ask(QueueDeclare(queue="exclusive", durable=True, exclusive=True))
    assert not has_log(here)
    here.declare()
    assert has_log(here)
    assert len(partitions(here)) == 1
    assert list(declared(start()).queues) == ["q"]


def test_deleted_declarations_stay_deleted_after_restarts(start: Start) -> None:
    first = start()
    first.client.ask(ExchangeDeclare(exchange="e", type="topic", durable=True))
    for name in ("kept", "deleted", "again"):
        first.declare(name)
        first.client.ask(QueueBind(queue=name, exchange="e", routing_key=f"{name}.#"))
    first.client.ask(QueueUnbind(queue="kept", exchange="e", routing_key="kept.#"))
    first.client.ask(QueueDelete(queue="deleted"))
    second = start()
    assert set(declared(second).queues) == {"kept", "again"}
    second.client.ask(QueueDelete(queue="again"))
    second.declare("again", {"x-max-length": 5})
    second.client.ask(ExchangeDeclare(exchange="f", type="direct", durable=True))
    third = start()
    model = declared(third)
    assert set(model.queues) == {"kept", "again"}
    assert model.queues["again"].arguments["x-max-length"] == 5
    assert {"e", "f"} <= set(model.exchanges)
    assert not model.exchanges["e"].bindings


def test_many_declarations_of_one_write_are_all_restored(start: Start) -> None:
    first = start()
    names = [f"q{number}" for number in range(MANY)]
    first.client.send(
        b"".join(
            encode_method(1, QueueDeclare(queue=name, durable=True, nowait=True)) for name in names
        )
    )
    first.declare("last")
    second = start()
    assert set(declared(second).queues) == {*names, "last"}
    again = "".join(str(each) for each in partitions(second).values())
    assert again == str(MANY + 1), "nothing is appended by a restart"


def test_declarations_of_a_vhost_are_in_one_partition(start: Start) -> None:
    here = start()
    with connect(here.broker.bootstrap) as client:
        run(ask_amqp(client, "vhost.create", name="shop"))
        permissions = {"configure": ".*", "write": ".*", "read": ".*"}
        run(ask_amqp(client, "permission.set", user="guest", vhost="shop", **permissions))
    port = here.broker.call(lambda server: server.listeners[1].port)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, "shop")) as shop:
        for number in range(3):
            shop.channel().queue_declare(f"s{number}", durable=True)
    here.declare("a")
    here.declare("b")
    assert sorted(partitions(here).values()) == [2, 3]


# Kafka's clients


def test_clients_of_kafka_neither_read_nor_write_the_log(start: Start) -> None:
    here = start()
    here.declare()
    servers = {"bootstrap.servers": here.broker.bootstrap}
    errors: list[KafkaError] = []
    producer = Producer(servers)
    producer.produce(
        DECLARATIONS_TOPIC, b"v", b"k", on_delivery=lambda error, _: errors.append(error)
    )
    producer.flush(20)
    assert [error.code() for error in errors] == [KafkaError.TOPIC_EXCEPTION]
    consumer = Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(DECLARATIONS_TOPIC, next(iter(partitions(here))), 0)])
    found = consumer.consume(1, 20)
    assert [each.error().code() for each in found] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    consumer.close()


def test_clients_of_kafka_do_not_change_the_log(start: Start) -> None:
    here = start()
    here.declare()
    here.publish(b"a")
    admin = AdminClient({"bootstrap.servers": here.broker.bootstrap})
    topic = ConfigResource(
        ResourceType.TOPIC,
        DECLARATIONS_TOPIC,
        incremental_configs=[
            ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    (index,) = partitions(here)
    for asked in (
        admin.delete_topics([DECLARATIONS_TOPIC]),
        admin.create_topics([NewTopic(DECLARATIONS_TOPIC, 1)]),
        admin.create_partitions([NewPartitions(DECLARATIONS_TOPIC, 20)]),
        admin.incremental_alter_configs([topic]),
        admin.delete_records([TopicPartition(DECLARATIONS_TOPIC, index, 1)]),
    ):
        (future,) = asked.values()
        with pytest.raises(KafkaException) as refusal:
            future.result(20)
        assert refusal.value.args[0].code() == KafkaError.POLICY_VIOLATION
    assert start().gets() == ["a"]


# The disk


def test_compaction_of_the_log_is_held_up_by_nothing(start: Start) -> None:
    for _ in range(2):
        here = start()
        here.declare()
        (index,) = partitions(here)

        def held(server: Any, index: int = index) -> bool:
            partition = server.broker.partition(DECLARATIONS_TOPIC, index)
            return bool(partition.log.context.holds.wants(partition.topic_partition, 0, 1))

        assert not here.broker.call(held)


def test_declarations_are_flushed_whatever_the_setting(tmp_path: Path) -> None:
    here = Started(tmp_path, SETTINGS | {"log.flush.on.ack": "false"})
    here.declare()
    (index,) = partitions(here)

    def unflushed(server: Any) -> int:
        log = server.broker.partition(DECLARATIONS_TOPIC, index).log
        return int(log.end_offset - log.flushed_offset)

    assert here.broker.call(unflushed) == 0
    here.stop()


def test_declaration_is_refused_while_the_disk_is_almost_full(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_queues, "RETRY_SECONDS", 0.05)
    here = start()
    here.declare("first")
    (index,) = partitions(here)

    def set_low(server: Any, text: str) -> None:
        server.broker.partition(DECLARATIONS_TOPIC, index).log.context.low = text

    here.broker.call(lambda server: set_low(server, "1 MiB is left"))
    here.client.send(encode_method(1, QueueDelete(queue="first", nowait=True)))
    here.client.send(encode_method(1, QueueDeclare(queue="second", durable=True)))
    with pytest.raises(Gone, match="1 MiB is left"):
        here.client.received()
    assert partitions(here) == {index: 2}, "the deletion is stored"
    here.broker.call(lambda server: set_low(server, ""))
    eventually(lambda: partitions(here) == {index: 3})
    assert list(declared(start()).queues) == ["second"]


def test_declarations_and_messages_are_there_after_the_metadata_store_was_lost(
    tmp_path: Path,
) -> None:
    here = Started(tmp_path)
    here.declare()
    here.publish(b"a")
    here.stop()
    for path in tmp_path.glob("headrace-metadata.db*"):
        path.unlink()
    again = Started(tmp_path)
    assert again.gets() == ["a"]

    def policy(server: Any) -> Any:
        return server.broker.partition(DECLARATIONS_TOPIC, 0).log.config.cleanup_policy

    assert "compact" in str(again.broker.call(policy))
    again.stop()


def test_declaration_names_the_log_that_went_offline(start: Start) -> None:
    here = start()
    here.declare("first")
    (index,) = partitions(here)

    def close(server: Any) -> None:
        partition = server.broker.partition(DECLARATIONS_TOPIC, index)
        server.broker._close(partition, ErrorCode.KAFKA_STORAGE_ERROR)

    here.broker.call(close)
    here.client.send(encode_method(1, QueueDeclare(queue="second", durable=True)))
    with pytest.raises(Gone, match=r"__amqp\.declarations is offline: repair its log directory"):
        here.client.received()


def test_start_is_refused_where_the_log_cannot_be_read(tmp_path: Path) -> None:
    here = Started(tmp_path)
    here.declare()
    here.publish(b"a")
    (index,) = partitions(here)
    here.stop()
    (segment,) = tmp_path.glob(f"{DECLARATIONS_TOPIC}-{index}/*.log")
    good = segment.read_bytes()
    segment.write_bytes(bytes([*good[:80], good[80] ^ 1, *good[81:]]))
    with pytest.raises(ConfigError, match=f"{DECLARATIONS_TOPIC}-{index}"):
        BrokerThread(SETTINGS, directory=str(tmp_path)).start()
    segment.write_bytes(good)
    again = Started(tmp_path)
    assert again.gets() == ["a"]
    again.stop()
