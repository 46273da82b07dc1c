"""Messages by key (12), by id (33), and the entries of queues (321)."""

import json

import pytest
from confluent_kafka import Producer

from headrace.frontends.rocketmq.administration import message_queries
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.message_ids import physical_offset_of
from headrace.wire.rocketmq.stored_messages import encode_message
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import code, fields, made


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
    assert bodies(ask(client, topic, "A", indexType="T")) == [b"one", b"three", b"two"]
    assert code(ask(client, topic, "A")) is ResponseCode.QUERY_NOT_FOUND, "a tag is no key"
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


def test_a_message_is_viewed_by_its_id(client: RemotingClient) -> None:
    topic = made(client, "viewed", 2)
    client.send(topic, b"other", e=1)
    sent = client.send(topic, b"mine", e=1)
    physical = physical_offset_of(fields(sent)["msgId"])
    viewed = client.call(33, {"offset": physical, "topic": topic})
    (message,) = messages_in(viewed)
    assert (message.body, message.queue_id, message.queue_offset) == (b"mine", 1, 1)
    assert viewed.body == client.pull(topic, 1, queueId=1).body, "as it is pulled"
    for absent in (physical + 1, (1 << 62), -1):
        refused = client.call(33, {"offset": absent})
        assert code(refused) is ResponseCode.SYSTEM_ERROR
        assert refused.remark == f"can not find message by the offset, {absent}"
    client.call(215, {"topic": topic})
    assert code(client.call(33, {"offset": physical})) is ResponseCode.SYSTEM_ERROR
    made(client, topic, 2)
    client.send(topic, e=1)
    assert code(client.call(33, {"offset": physical})) is ResponseCode.SYSTEM_ERROR, "of before"


def test_entries_of_a_queue_name_places_sizes_and_tags(client: RemotingClient) -> None:
    topic = made(client, "entries")
    for tag in ("A", "B", ""):
        client.send(topic, i=f"TAGS\x01{tag}\x02" if tag else "")
    asked = {"topic": topic, "queueId": 0, "index": 0, "count": 2, "consumerGroup": "CG_cq"}
    pulled = messages_in(client.pull(topic))
    sizes = [len(encode_message(message)) for message in pulled]
    answer = client.call(321, asked)
    body = json.loads(bytes(answer.body))
    assert list(body) == ["filterData", "maxQueueIndex", "minQueueIndex", "queueData"]
    assert body["filterData"] == f"CG_cq@{topic} is not online!"
    assert (body["minQueueIndex"], body["maxQueueIndex"]) == (0, 3)
    assert body["queueData"] == [
        {"eval": False, "physicOffset": message.physical_offset, "physicSize": size,
         "tagsCode": code_of_tag}
        for message, size, code_of_tag in zip(pulled[:2], sizes, (65, 66), strict=False)
    ]  # fmt: skip
    client.heartbeat("one", "CG_cq", {topic: "A"}, version=3)
    last = json.loads(bytes(client.call(321, asked | {"index": 2}).body))
    assert [entry["tagsCode"] for entry in last["queueData"]] == [0]
    assert last["filterData"] == "null"
    assert last["subscriptionData"]["subString"] == "A"
    beyond = client.call(321, asked | {"index": 3})
    assert (code(beyond), beyond.body) == (ResponseCode.SUCCESS, b"")
    assert beyond.remark == f"Index 3 of 0@{topic} is not exist!"
    assert code(client.call(321, asked | {"queueId": 1})) is ResponseCode.SYSTEM_ERROR


def test_live_producers_of_a_group_are_listed(client: RemotingClient) -> None:
    none = client.call(204, {"producerGroup": "PG_list"})
    assert (code(none), none.remark) == (
        ResponseCode.SYSTEM_ERROR, "the producer group[PG_list] not exist",
    )  # fmt: skip
    body = {"clientID": "p1", "producerDataSet": [{"groupName": "PG_list"}]}
    client.call(34, {}, json.dumps(body).encode())
    answer = json.loads(bytes(client.call(204, {"producerGroup": "PG_list"}).body))
    (connection,) = answer["connectionSet"]
    assert (connection["clientId"], connection["language"], connection["version"]) == (
        "p1", "JAVA", 513,
    )  # fmt: skip
    client.call(35, {"producerGroup": "PG_list", "clientID": "p1"})
    assert code(client.call(204, {"producerGroup": "PG_list"})) is ResponseCode.SYSTEM_ERROR
