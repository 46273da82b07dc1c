"""Messages by key (12): found by a scan that is bounded."""

import pytest
from confluent_kafka import Producer

from headrace.frontends.rocketmq.administration import message_queries
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import code, made


def ask(client: RemotingClient, topic: str, key: str, **more: object) -> RemotingCommand:
    """Ask for the messages with a key."""
    asked = {
        "topic": topic, "key": key, "maxNum": 64, "beginTimestamp": 0,
        "endTimestamp": (1 << 63) - 1, "indexType": "K", "_UNIQUE_KEY_QUERY": "false",
    }  # fmt: skip
    return client.call(12, asked | more)


def bodies(answer: RemotingCommand) -> list[bytes]:
    """Return the bodies of the messages in an answer."""
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    return [message.body for message in messages_in(answer)]


def send(
    client: RemotingClient, topic: str, body: bytes, keys: str, unique: str, queue: int
) -> None:
    """Send a message with keys and a unique key."""
    properties = f"KEYS\x01{keys}\x02UNIQ_KEY\x01{unique}\x02TAGS\x01A\x02"
    assert code(client.send(topic, body, i=properties, e=queue)) is ResponseCode.SUCCESS


def test_messages_are_found_by_key_and_by_unique_key(client: RemotingClient) -> None:
    topic = made(client, "keys", 2)
    send(client, topic, b"one", "order-1 customer-7", "U1", 0)
    send(client, topic, b"two", "order-2 customer-7", "U2", 1)
    send(client, topic, b"three", "order-10", "U3", 0)
    assert bodies(ask(client, topic, "customer-7")) == [b"one", b"two"]
    assert bodies(ask(client, topic, "order-1")) == [b"one"], "a whole key, not its beginning"
    assert bodies(ask(client, topic, "U2", indexType="U")) == [b"two"]
    assert bodies(ask(client, topic, "customer-7", maxNum=1)) == [b"one"]
    none = ask(client, topic, "order")
    assert code(none) is ResponseCode.QUERY_NOT_FOUND
    assert none.remark == "can not find message, maybe time range not correct"
    assert code(ask(client, "never", "order-1")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(ask(client, topic, "")) is ResponseCode.SYSTEM_ERROR


def test_times_bound_a_query_by_key(client: RemotingClient) -> None:
    topic = made(client, "key-times")
    send(client, topic, b"one", "k", "U1", 0)
    (first,) = messages_in(client.pull(topic))
    at = first.stored_at_ms
    assert bodies(ask(client, topic, "k", beginTimestamp=at, endTimestamp=at)) == [b"one"]
    late = ask(client, topic, "k", beginTimestamp=at + 1)
    assert code(late) is ResponseCode.QUERY_NOT_FOUND
    early = ask(client, topic, "k", endTimestamp=at - 1)
    assert code(early) is ResponseCode.QUERY_NOT_FOUND


def test_a_record_of_a_kafka_producer_is_found_by_its_key(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "kafka-keys")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"of kafka", key=b"k1")
    assert producer.flush(30) == 0
    assert bodies(ask(client, topic, "k1")) == [b"of kafka"]


def test_a_query_reads_the_newest_records_of_each_queue_alone(
    client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = made(client, "key-bound", 2)
    for number in range(6):
        send(client, topic, b"%d" % number, "k", f"U{number}", 0)
    send(client, topic, b"other queue", "k", "U", 1)
    monkeypatch.setattr(message_queries, "SCANNED_RECORDS_MAX", 4)
    assert bodies(ask(client, topic, "k")) == [b"4", b"5", b"other queue"]
    assert code(ask(client, topic, "U0")) is ResponseCode.QUERY_NOT_FOUND
