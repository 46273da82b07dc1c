"""Queues that keep what is settled, and those that do not: pika and Kafka's clients, one broker."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pika.exceptions import AMQPError, ChannelClosedByBroker

import headrace.arrow
from headrace.queue_stores.queue_settings import QueueSettings, QueueType
from headrace.testing import BrokerThread
from headrace.vhosts import queue_topics
from headrace.vhosts.queue_topics import topic_config
from tests.support.processes.process import BrokerProcess, free_port
from tests.support.queues.restarts import SETTINGS, eventually

TOPIC = "__amqp.queue.q"
SECONDS = 20
KEPT = {"x-headrace-retention": "1h"}
SEGMENT = 1 << 20
LARGE = 250_000
"""Four of these make a segment."""


class Kept:
    """A broker on a directory, pika, and what Kafka's clients see."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.begin()

    def begin(self) -> None:
        settings = {**SETTINGS, "log.retention.check.interval.ms": "100"}
        self.broker = BrokerThread(settings, directory=str(self.directory)).start()
        self.port = self.broker.call(lambda server: server.listeners[1].port)
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def end(self) -> None:
        if self.connection.is_open:
            self.connection.close()
        self.broker.stop()

    def restart(self) -> None:
        self.end()
        self.begin()

    def declare(self, **arguments: Any) -> None:
        self.channel.queue_declare("q", durable=True, arguments=KEPT | arguments)

    def publish(self, *bodies: bytes) -> None:
        for body in bodies:
            self.channel.basic_publish("", "q", body, pika.BasicProperties(delivery_mode=2))

    def gets(self, *, leave: int = 0) -> list[bytes]:
        """Get all there is and acknowledge it, but for the first `leave`."""
        return taken(self.channel, leave=leave)

    def records(self) -> list[bytes]:
        return read(self.broker.bootstrap)

    def watermarks(self) -> tuple[int, int]:
        return watermarks(self.broker.bootstrap)

    @property
    def bases(self) -> list[int]:
        return self.broker.call(
            lambda server: [
                segment.base_offset for segment in server.broker.partition(TOPIC, 0).log.segments
            ]
        )

    def delete_records(self, before: int) -> int:
        """Delete as Kafka's clients do; returns where the log starts then."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        (answer,) = admin.delete_records([TopicPartition(TOPIC, 0, before)]).values()
        return int(answer.result(SECONDS).low_watermark)


def taken(channel: Any, *, leave: int = 0) -> list[bytes]:
    found = []
    while (got := channel.basic_get("q"))[0] is not None:
        found.append(got[2])
        if len(found) > leave:
            channel.basic_ack(got[0].delivery_tag)
    return found


@contextmanager
def reading(bootstrap: str) -> Iterator[Any]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    try:
        yield consumer
    finally:
        consumer.close()


def watermarks(bootstrap: str) -> tuple[int, int]:
    with reading(bootstrap) as consumer:
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=SECONDS)
        return low, high


def read(bootstrap: str) -> list[bytes]:
    """All that a Kafka consumer finds from the earliest offset on."""
    with reading(bootstrap) as consumer:
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=SECONDS)
        consumer.assign([TopicPartition(TOPIC, 0, low)])
        found: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        while low < high and time.monotonic() < deadline:
            for record in consumer.consume(100, 0.2):
                assert record.error() is None
                found.append(record.value())
            (position,) = consumer.position([TopicPartition(TOPIC, 0)])
            if position.offset >= high:
                break
        return found


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """A broker whose queues' segments are small."""
    monkeypatch.setattr(queue_topics, "SEGMENT_BYTES", SEGMENT)
    monkeypatch.setitem(queue_topics._TOPIC_CONFIG, "segment.bytes", str(SEGMENT))
    here = Kept(tmp_path)
    yield here
    here.end()


def large(*numbers: int) -> list[bytes]:
    return [b"%d" % number + bytes(LARGE) for number in numbers]


def test_what_amqp_has_consumed_kafkas_clients_still_read_over_a_restart(kept: Kept) -> None:
    bodies = large(*range(8))
    kept.declare()
    kept.publish(*bodies)
    assert kept.gets() == bodies
    assert kept.records() == bodies
    kept.restart()
    kept.declare()
    assert kept.gets() == []
    assert kept.channel.queue_declare("q", passive=True).method.message_count == 0
    kept.publish(b"d")
    assert kept.gets() == [b"d"]
    assert kept.records() == [*bodies, b"d"]
    assert len(kept.bases) > 1
    config = kept.broker.call(lambda server: dict(server.broker.image.topics[TOPIC].config))
    assert config["retention.ms"] == "3600000"


def test_what_is_settled_goes_when_its_time_is_over_and_what_is_not_stays(kept: Kept) -> None:
    kept.declare(**{"x-headrace-retention": "2s"})
    bodies = large(*range(16))
    kept.publish(*bodies)
    assert kept.gets(leave=1) == bodies
    assert kept.watermarks() == (0, 16)
    eventually(lambda: len(kept.bases) <= 2)
    left = [body[:2].rstrip(b"\0") for body in kept.records()]
    assert left[0] == b"0"
    assert len(left) <= 2 * SEGMENT // LARGE
    kept.restart()
    assert [body[:1] for body in kept.gets()] == [b"0"]
    eventually(lambda: kept.watermarks() == (16, 16))
    assert kept.records() == []


def test_without_retention_segments_go_at_once_behind_a_held_one_and_readers_go_on(
    kept: Kept, tmp_path: Path
) -> None:
    kept.channel.queue_declare("q", durable=True)
    bodies = large(*range(20))
    kept.publish(*bodies)
    assert kept.gets(leave=1) == bodies
    eventually(lambda: len(kept.bases) == 2)
    base = kept.bases[-1]
    assert base > 4, "all between the first and the active one are gone"
    wanted = [*bodies[: SEGMENT // LARGE], *bodies[base:]]
    assert kept.records() == wanted
    assert [record.value for record in kept.broker.records(TOPIC)] == wanted
    kept.end()
    table = headrace.arrow.open(str(tmp_path), TOPIC).read_all()
    assert table.column("value").to_pylist() == wanted
    kept.begin()
    assert kept.bases == [0, base]
    assert kept.gets() == [bodies[0]]
    eventually(lambda: kept.bases == [base])


def test_what_is_purged_stays_for_so_long_and_a_queue_that_is_deleted_takes_all(kept: Kept) -> None:
    kept.declare()
    kept.publish(b"a", b"b")
    assert kept.channel.queue_purge("q").method.message_count == 2
    assert kept.records() == [b"a", b"b"]
    kept.restart()
    assert kept.gets() == []
    kept.channel.queue_delete("q")
    eventually(
        lambda: TOPIC not in kept.broker.call(lambda server: list(server.broker.image.topics))
    )
    kept.declare()
    kept.publish(b"again")
    assert kept.records() == [b"again"]


@pytest.mark.parametrize(("before", "low"), [(3, 3), (-1, 5), (5, 5)])
def test_records_that_kafkas_clients_delete_are_read_by_nobody_any_more(
    kept: Kept, before: int, low: int
) -> None:
    kept.declare()
    kept.publish(b"0", b"1", b"2", b"3", b"4")
    method, _, _ = kept.channel.basic_get("q", auto_ack=True)
    assert method is not None
    assert kept.delete_records(before) == low
    assert kept.records() == [b"%d" % number for number in range(low, 5)]
    assert kept.gets() == [b"%d" % number for number in range(low, 5)]
    kept.restart()
    assert kept.watermarks()[0] == low


def test_of_records_that_were_consumed_those_go_that_are_deleted(kept: Kept) -> None:
    kept.declare()
    kept.publish(b"0", b"1", b"2")
    assert len(kept.gets()) == 3
    assert kept.delete_records(1) == 1
    assert kept.records() == [b"1", b"2"]


def test_records_that_are_out_are_deleted_for_nobody(kept: Kept) -> None:
    kept.declare()
    kept.publish(b"0", b"1", b"2", b"3")
    tags = [kept.channel.basic_get("q")[0].delivery_tag for _ in range(2)]
    kept.channel.basic_ack(tags[0])
    assert kept.delete_records(-1) == 1
    assert kept.records() == [b"1", b"2", b"3"]
    kept.channel.basic_nack(tags[1])
    assert kept.gets() == [b"1"]


def test_records_before_one_that_is_out_are_deleted_though_nothing_was_settled_since(
    kept: Kept,
) -> None:
    """Before it there is what was aborted: nobody settles that."""
    kept.declare()
    kept.publish(b"a")
    assert kept.gets() == [b"a"]
    time.sleep(0.3)
    producer = Producer({"bootstrap.servers": kept.broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(TOPIC, b"aborted", partition=0)
    producer.flush(SECONDS)
    producer.abort_transaction(SECONDS)
    kept.publish(b"b")
    assert kept.gets(leave=1) == [b"b"]
    assert kept.delete_records(3) == 3


def refused(kept: Kept, declare: Callable[[Any], object]) -> tuple[int, str]:
    with pytest.raises(ChannelClosedByBroker) as told:
        declare(kept.connection.channel())
    return told.value.reply_code, told.value.reply_text


def test_pika_is_told_what_cannot_be_kept_and_what_is_declared_otherwise(kept: Kept) -> None:
    assert refused(kept, lambda channel: channel.queue_declare("t", arguments=KEPT)) == (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-headrace-retention' for queue 't' in vhost '/': a"
        " queue that is not durable, or exclusive, keeps nothing that is settled; declare it"
        " durable",
    )
    stream = {"x-queue-type": "stream", **KEPT}
    assert refused(
        kept, lambda channel: channel.queue_declare("t", durable=True, arguments=stream)
    ) == (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-headrace-retention' for queue 't' in vhost '/' of"
        " queue type rabbit_stream_queue: it is 'x-max-age' there",
    )
    kept.declare()
    other = {"x-headrace-retention": "2h"}
    code, text = refused(
        kept, lambda channel: channel.queue_declare("q", durable=True, arguments=other)
    )
    assert code == 406
    assert text.endswith("received '2h' but current is '1h'")
    kept.restart()
    kept.declare()


def test_a_kill_brings_nothing_back_that_was_settled_and_kept(tmp_path: Path) -> None:
    port, kafka = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{kafka},AMQP://127.0.0.1:{port}"
    settings: dict[str, Any] = {name.replace(".", "_"): of for name, of in SETTINGS.items()}
    settings["listeners"] = listeners
    broker = BrokerProcess(tmp_path, kafka, **settings)
    broker.start()
    bodies = [b"%d" % number for number in range(200)]
    try:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True, arguments=KEPT)
        for body in bodies:
            channel.basic_publish("", "q", body, pika.BasicProperties(delivery_mode=2))
        assert taken(channel, leave=1) == bodies
        time.sleep(0.5)
        broker.kill()
        with suppress(AMQPError):
            connection.close()
        broker.start()
        assert read(broker.bootstrap) == bodies
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        assert taken(connection.channel()) == bodies[:1]
        connection.close()
        assert read(broker.bootstrap) == bodies
    finally:
        broker.kill()


def test_a_topics_configuration_has_what_the_queue_was_declared_with() -> None:
    def config(**settings: Any) -> tuple[str, str, str]:
        found = topic_config(QueueSettings(**settings))
        return found["retention.ms"], found["retention.bytes"], found["message.timestamp.type"]

    for queue_type in (QueueType.CLASSIC, QueueType.QUORUM):
        assert config(queue_type=queue_type) == ("-1", "-1", "CreateTime")
        assert config(queue_type=queue_type, retention_ms=5) == ("5", "-1", "LogAppendTime")
        assert config(queue_type=queue_type, retention_bytes=5) == ("-1", "5", "LogAppendTime")
    most = config(retention_ms=1 << 70, retention_bytes=1 << 70)
    assert most == (str((1 << 63) - 1), str((1 << 63) - 1), "LogAppendTime")
