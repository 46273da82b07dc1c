"""The cases on Headrace, and the operator of its broker."""

import time
from pathlib import Path

import pika
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import BrokerThread
from tests.outside.rocketmq.first_start.programs import (
    COLD,
    EXPIRED,
    FOREIGN,
    OLD,
    RESETS,
    STARTS,
    WARM,
    Play,
    Target,
    client,
    played,
)
from tests.support.rocketmq.kit import SETTINGS, port_of
from tests.support.rocketmq.recorded_starts import Case

LISTENERS = "PLAINTEXT://127.0.0.1:0,ROCKETMQ://127.0.0.1:0,AMQP://127.0.0.1:0"
EXPIRED_BELOW = 2726
"""The first offset that is left of 3,000, as on the RocketMQ 5.5.0 that was recorded."""
HOUR_MS = 3_600_000
COLD_SETTINGS = {"rocketmq.zero.offset.memory.bytes": "1"}
"""With them rule `4.9` takes every message to be on disk, as RocketMQ 4.9 with
`accessMessageInMemoryMaxRatio=0`."""


def play_rule(rule: str, folder: Path) -> dict[Case, str]:
    """Play all cases with a rule; return what happened in each."""
    version = "4.9.7" if rule == "4.9" else "5.5.0"
    with_client = client(version, folder)
    plays: tuple[Play, ...] = (*STARTS, EXPIRED, WARM, OLD, FOREIGN)
    if rule == "5":
        plays = (*RESETS, *plays)
    settings = SETTINGS | {
        "listeners": LISTENERS, "amqp.guest": "true", "rocketmq.zero.offset.rule": rule,
    }  # fmt: skip
    with BrokerThread(settings) as broker:
        found = played(with_client, _target(broker), plays)
    with BrokerThread(settings | COLD_SETTINGS) as broker:
        return found | played(with_client, _target(broker), (COLD,))


def _target(broker: BrokerThread) -> Target:
    address = f"127.0.0.1:{port_of(broker)}"
    return Target("ours", address, address, lambda what: _operate(broker, what))


def _operate(broker: BrokerThread, what: str) -> None:
    verb, *words = what.split()
    if verb == "expire":
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        place = TopicPartition(words[0], 0, EXPIRED_BELOW)
        admin.delete_records([place])[place].result(30)
    elif verb == "create":
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(words[0], 1, 1)])[words[0]].result(30)
    else:
        assert verb == "send"
        by, topic = words
        if by.startswith("amqp"):
            _send_by_amqp(broker, topic, is_dated="dated" in by)
        else:
            _send_by_kafka(broker, topic, is_dated="dated" in by)


def _send_by_kafka(broker: BrokerThread, topic: str, *, is_dated: bool) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(3):
        dated = {"timestamp": int(time.time() * 1000) - HOUR_MS} if is_dated else {}
        producer.produce(topic, b"old-%d" % number, **dated)
    assert producer.flush(30) == 0


def _send_by_amqp(broker: BrokerThread, topic: str, *, is_dated: bool) -> None:
    port = broker.call(lambda server: server.listeners[2].port)
    at = int(time.time()) - HOUR_MS // 1000 if is_dated else None
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare(
            f"to-{topic}", "fanout", durable=True, arguments={"x-headrace-topic": topic}
        )
        for number in range(3):
            properties = pika.BasicProperties(delivery_mode=2, timestamp=at)
            channel.basic_publish(f"to-{topic}", "", b"old-%d" % number, properties)
    finally:
        connection.close()
