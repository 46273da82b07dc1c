"""Retention, and a disk above RocketMQ's watermark, through a RocketMQ listener."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, SETTINGS, code, fields, made, port_of, served


@pytest.fixture
def small() -> Iterator[BrokerThread]:
    """A broker with a watermark, whose disk has space."""
    changed = {
        "rocketmq.disk.max.used.percent": "90",
        "rocketmq.file.reserved.hours": "5",
        "log.dirs.free.bytes.min": "0",
    }
    with BrokerThread(SETTINGS | changed) as broker:
        fill(broker, 50)
        yield broker


def fill(broker: BrokerThread, percent: int) -> None:
    """Have the disk used so far, and measured by the next send."""

    def filled(server: Server) -> None:
        remoting = served(server)
        disk: Any = remoting.broker.disk
        if not hasattr(disk, "used_percent"):
            disk.total_bytes = lambda path: 1000
            disk.free_bytes = lambda path: 1000 - 10 * disk.used_percent
        disk.used_percent = percent
        remoting.watermark._look_at.clear()

    broker.call(filled)


def test_above_the_watermark_sends_are_refused_and_all_else_goes_on(small: BrokerThread) -> None:
    with RemotingClient(port_of(small)) as client, RemotingClient(port_of(small)) as reader:
        topic = made(client, "full")
        assert code(client.send(topic, b"before")) is ResponseCode.SUCCESS
        fill(small, 91)
        for refused in (client.send(topic), client.send(topic, i="DELAY\x011\x02")):
            assert code(refused) is ResponseCode.SERVICE_NOT_AVAILABLE
            assert "90 % full" in (refused.remark or "")
        assert [each.body for each in messages_in(reader.pull(topic))] == [b"before"]
        offset = {"consumerGroup": "CG", "topic": topic, "queueId": 0}
        assert code(reader.call(15, offset | {"commitOffset": 1})) is ResponseCode.SUCCESS
        assert fields(reader.call(14, offset))["offset"] == "1"
        # Kafka's producers have a limit of their own.
        producer = Producer({"bootstrap.servers": small.bootstrap})
        parked = reader.ask_pull(topic, 1, **PARKED)
        producer.produce(topic, b"kafka")
        assert producer.flush(30) == 0
        assert [each.body for each in messages_in(reader.answer(parked))] == [b"kafka"]
        fill(small, 90)
        assert fields(client.send(topic, b"after"))["queueOffset"] == "2"


def test_topics_of_rocketmq_clients_have_the_retention_of_the_setting(small: BrokerThread) -> None:
    with RemotingClient(port_of(small)) as client:
        topic = made(client, "retained")
        client.send("sent")
        sent = messages_in(client.pull("sent"))[0]
        back = {"offset": sent.physical_offset, "group": "G", "delayLevel": -1,
                "originMsgId": "", "originTopic": "sent"}  # fmt: skip
        assert code(client.call(36, back)) is ResponseCode.SUCCESS
        topics = small.call(lambda server: dict(server.broker.image.topics))
        for name in (topic, "sent", "__rocketmq..25DLQ.25G"):
            assert topics[name].config["retention.ms"] == str(5 * 3_600_000)
        found = client.call(26)
        assert b"fileReservedTime=5\n" in bytes(found.body)
