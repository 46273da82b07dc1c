"""Topics that no stream reads, who may not read them, and streams whose topics go or grow."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from headrace.model.nouns import TopicPartition
from headrace.testing import BrokerThread
from tests.support.amqp.topics import CONFIG, SECONDS, closed, confirming, connected, create
from tests.support.queues.read_topics import (
    ARGUMENTS,
    TOPIC,
    Reading,
    declare,
    produce,
    publish,
    read,
    reading,
)
from tests.support.queues.restarts import eventually

ACLS = CONFIG | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
QUEUE = "queue 's' in vhost '/'"
MISSING = (404, f"NOT_FOUND - no Kafka topic 'orders' for {QUEUE}: create it first")
GROWN = (
    406,
    f"PRECONDITION_FAILED - Kafka topic 'orders' for {QUEUE} has 3 partitions, and a stream reads a"
    " topic of one: consume it with a client of Kafka's",
)


def admin_of(broker: BrokerThread) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def declared(connection: Any, **more: Any) -> Callable[[], object]:
    return lambda: declare(connection.channel(), **more)


# What is declared


def test_a_topic_has_to_be_there_and_of_one_partition(
    broker: BrokerThread, connection: Any
) -> None:
    assert closed(declared(connection)) == MISSING
    assert "orders" not in broker.call(lambda server: server.broker.image.topics)
    create(broker, TOPIC, 3)
    assert closed(declared(connection)) == GROWN
    assert closed(lambda: connection.channel().queue_declare("s", passive=True))[0] == 404


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"x-max-age": "7D"}, f"invalid arg 'x-max-age' for {QUEUE}: the Kafka topic that it reads"
         " has settings of its own; leave it out"),
        ({"x-max-length-bytes": 5}, "invalid arg 'x-max-length-bytes' for"),
        ({"x-stream-max-segment-size-bytes": 5}, "invalid arg 'x-stream-max-segment-size-bytes' "),
        ({"x-queue-type": "classic"}, f"invalid arg 'x-headrace-topic' for {QUEUE} of queue type"
         " rabbit_classic_queue: a stream reads a Kafka topic"),
        ({"x-queue-type": "quorum"}, "of queue type rabbit_quorum_queue: a stream reads a Kafka"),
        ({"x-headrace-topic": 5}, "invalid type 'signedint' for arg 'x-headrace-topic' in queue"),
        ({"x-headrace-topic": "a/b"}, "invalid arg 'x-headrace-topic' 'a/b' ("),
        ({"x-headrace-topic": "__amqp.queue.q"}, "(it is kept for a queue's messages: "),
        ({"x-headrace-topic": "__consumer_offsets"}, "(it is the broker's own)"),
        ({"x-headrace-key-header": ""}, "invalid arg 'x-headrace-key-header' ("),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_is_wrong(
    broker: BrokerThread, connection: Any, more: dict[str, object], told: str
) -> None:
    create(broker, TOPIC, 1)
    code, text = closed(
        lambda: connection.channel().queue_declare("s", durable=True, arguments=ARGUMENTS | more)
    )
    assert (code, told in text) == (406, True), text


def test_it_is_declared_again_with_the_same_topic_alone(
    broker: BrokerThread, connection: Any
) -> None:
    reading(broker, connection)
    create(broker, "others", 1)
    declare(connection.channel())
    code, text = closed(declared(connection, topic="others"))
    assert (code, text.endswith("received 'others' but current is 'orders'")) == (406, True), text
    code, text = closed(
        lambda: connection.channel().queue_declare(
            "s", durable=True, arguments={"x-queue-type": "stream"}
        )
    )
    assert (code, "inequivalent arg 'x-headrace-topic'" in text) == (406, True), text


# Who may


def allow(admin: AdminClient, operation: AclOperation) -> AclBindingFilter:
    binding = AclBinding(
        ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:guest", "*", operation,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    admin.create_acls([binding])[binding].result(SECONDS)
    return AclBindingFilter(
        ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:guest", "*", operation,
        AclPermissionType.ALLOW,
    )  # fmt: skip


def soon(act: Callable[[], object]) -> None:
    """Do it once the rule that allows it has come through."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            act()
        except ChannelClosedByBroker:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def refusal(what: str) -> tuple[int, str]:
    return 403, f"ACCESS_REFUSED - {what} access to Kafka topic 'orders' refused for user 'guest'"


def test_read_on_the_topic_is_asked_of_who_declares_who_consumes_and_at_each_delivery() -> None:
    with BrokerThread(ACLS) as broker, connected(broker) as connection:
        create(broker, TOPIC, 1)
        admin = admin_of(broker)
        assert closed(declared(connection)) == refusal("read")
        may_read = allow(admin, AclOperation.READ)
        soon(declared(connection))
        produce(broker, b"0")
        reader, beside = Reading(connection), Reading(connection)
        assert [each.until(1) for each in (reader, beside)] == [[(0, b"0")]] * 2
        admin.delete_acls([may_read])[may_read].result(SECONDS)
        eventually(lambda: _is_refused(connection))
        produce(broker, b"1")
        reader.until_closed()
        beside.until_closed()
        assert closed(lambda: Reading(connection)) == refusal("read")
        assert reader.found == beside.found == [(0, b"0")]
        allow(admin, AclOperation.READ)
        soon(declared(connection))
        assert read(connection, 2) == [(0, b"0"), (1, b"1")]


def _is_refused(connection: Any) -> bool:
    try:
        declare(connection.channel())
    except ChannelClosedByBroker as told:
        return bool(told.reply_code == 403)
    return False


def test_write_on_the_topic_is_asked_of_who_publishes_to_the_stream_or_binds_it() -> None:
    with BrokerThread(ACLS) as broker, connected(broker) as connection:
        create(broker, TOPIC, 1)
        admin = admin_of(broker)
        allow(admin, AclOperation.READ)
        soon(declared(connection))
        connection.channel().exchange_declare("front", "fanout")
        assert closed(lambda: publish(confirming(connection), b"x")) == refusal("write")
        bind = lambda: connection.channel().queue_bind("s", "front")  # noqa: E731
        assert closed(bind) == refusal("write")
        may_write = allow(admin, AclOperation.WRITE)
        soon(bind)
        channel = confirming(connection)
        publish(channel, b"0")
        publish(channel, b"1", "k", "front")
        assert read(connection, 2) == [(0, b"0"), (1, b"1")]
        admin.delete_acls([may_write])[may_write].result(SECONDS)
        eventually(lambda: not _may_publish(connection))
        assert closed(lambda: publish(channel, b"x", "k", "front")) == refusal("write")


def _may_publish(connection: Any) -> bool:
    try:
        publish(confirming(connection), b"more")
    except ChannelClosedByBroker:
        return False
    return True


# What becomes of its topic


def test_a_stream_goes_with_its_topic_and_its_consumers_are_told(
    broker: BrokerThread, connection: Any
) -> None:
    reading(broker, connection)
    produce(broker, b"0")
    reader = Reading(connection)
    assert reader.until(1) == [(0, b"0")]
    admin_of_it = admin_of(broker)
    admin_of_it.delete_topics([TOPIC])[TOPIC].result(SECONDS)
    reader.until_cancelled()
    assert closed(declared(connection)) == MISSING
    assert closed(lambda: connection.channel().queue_declare("s", passive=True))[0] == 404
    create(broker, TOPIC, 1)
    declare(connection.channel())
    produce(broker, b"anew")
    assert read(connection, 1) == [(0, b"anew")]


def test_consumers_of_a_topic_that_grows_are_told_and_it_is_not_read_any_more(
    broker: BrokerThread, connection: Any
) -> None:
    channel = reading(broker, connection)
    produce(broker, b"0")
    reader = Reading(connection)
    assert reader.until(1) == [(0, b"0")]
    create(broker, "others", 3)
    produce(broker, b"beside")
    assert reader.until(2) == [(0, b"0"), (1, b"beside")], "another topic is no concern of it"
    admin = admin_of(broker)
    admin.create_partitions([NewPartitions(TOPIC, 3)])[TOPIC].result(SECONDS)
    reader.until_cancelled()
    assert channel.queue_declare("s", passive=True).method.consumer_count == 0
    assert closed(lambda: Reading(connection)) == GROWN
    assert closed(declared(connection)) == GROWN
    # What is published to it goes where the topic has it.
    publish(confirming(connection), b"1")
    assert channel.queue_delete("s").method.message_count == 0


def test_a_stream_whose_topic_went_while_nobody_served_amqp_is_deleted_by_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with BrokerThread(CONFIG, directory=str(tmp_path)) as broker, connected(broker) as connection:
        channel = reading(broker, connection)
        channel.exchange_declare("front", "fanout", durable=True)
        channel.queue_bind("s", "front")
    with BrokerThread(directory=str(tmp_path)) as broker:
        admin_of_it = admin_of(broker)
        admin_of_it.delete_topics([TOPIC])[TOPIC].result(SECONDS)
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        with BrokerThread(CONFIG, directory=str(tmp_path)) as again, connected(again) as opened:
            assert closed(declared(opened)) == MISSING
            opened.channel().exchange_declare("front", passive=True)
    told = [line for line in caplog.messages if "stream 's' (vhost '/') is deleted" in line]
    assert len(told) == 1
    assert "'orders'" in told[0]


def test_purging_and_getting_are_no_more_there_than_for_other_streams(
    broker: BrokerThread, connection: Any
) -> None:
    reading(broker, connection)
    produce(broker, b"0")
    for act in ("queue_purge", "basic_get"):
        with connected(broker) as other, pytest.raises(ConnectionClosedByBroker) as told:
            getattr(other.channel(), act)("s")
        assert "not supported by stream queues" in told.value.reply_text
    assert read(connection, 1) == [(0, b"0")]


def test_a_topic_that_moves_to_another_directory_is_read_on(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in "ab"]
    config = CONFIG | {"log.dirs": ",".join(paths)}
    with BrokerThread(config) as broker, connected(broker) as connection:
        reading(broker, connection)
        produce(broker, b"0", b"1")
        reader = Reading(connection)
        assert reader.until(2) == [(0, b"0"), (1, b"1")]

        def directory(server: Any) -> str:
            return str(server.broker.partition(TOPIC, 0).log.directory)

        (target,) = (path for path in paths if not broker.call(directory).startswith(path))
        broker.call(lambda server: server.broker.moves.ask(TopicPartition(TOPIC, 0), target))
        eventually(lambda: broker.call(directory).startswith(target))
        produce(broker, b"2")
        assert reader.until(3) == [(0, b"0"), (1, b"1"), (2, b"2")]
        assert read(connection, 3) == [(0, b"0"), (1, b"1"), (2, b"2")]
        assert read(connection, 1, "last") == [(2, b"2")]
