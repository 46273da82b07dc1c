"""Members, locks and protocols of groups through a RocketMQ listener."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.group_coordinators import GroupCoordinators
from headrace.model.errors import ApiError, ErrorCode
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import decode_body, encode_body
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import code, fields, made, port_of


def test_members_hear_of_each_other_and_have_one_list(
    broker: BrokerThread, client: RemotingClient
) -> None:
    assert code(client.call(38, {"consumerGroup": "CG_m"})) is ResponseCode.SYSTEM_ERROR
    answer = client.heartbeat("b", "CG_m", {"t": "*"})
    assert fields(answer) == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    with RemotingClient(port_of(broker)) as other:
        other.heartbeat("a", "CG_m", {"t": "*"})
        listed = [each.call(38, {"consumerGroup": "CG_m"}).body for each in (client, other)]
        assert listed == [b'{"consumerIdList":["a","b"]}'] * 2
        assert [(told.code, fields(told)) for told in client.notified] == [
            (40, {"consumerGroup": "CG_m"})
        ] * 2
        assert other.notified
    while len(client.notified) < 3:
        client.receive()
    assert client.call(38, {"consumerGroup": "CG_m"}).body == b'{"consumerIdList":["b"]}'
    client.call(35, {"consumerGroup": "CG_m", "clientID": "b"})
    assert code(client.call(38, {"consumerGroup": "CG_m"})) is ResponseCode.SYSTEM_ERROR


def test_a_heartbeat_without_subscriptions_renews_or_asks_for_them(client: RemotingClient) -> None:
    short = encode_body({"clientID": "s", "withoutSub": True, "heartbeatFingerprint": 5})
    assert fields(client.call(34, {}, short))["IS_SUB_CHANGE"] == "true"
    client.heartbeat("s", "CG_short", {"t": "*"})
    assert fields(client.call(34, {}, short))["IS_SUB_CHANGE"] == "false"
    assert client.call(38, {"consumerGroup": "CG_short"}).body == b'{"consumerIdList":["s"]}'


def test_a_heartbeat_of_the_cpp_client_has_numbers_for_names(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = b'{"subString":"*","subVersion":"1795869247697","topic":"t"}'
    group = (
        b'{"consumeFromWhere":4,"consumeType":1,"groupName":"CG_cpp%d","messageModel":%d,'
        b'"subscriptionDataSet":[' + topic + b"]}"
    )
    for model, name in enumerate(("BROADCASTING", "CLUSTERING")):
        body = b'{"clientID":"c%d","consumerDataSet":[%s]}\n' % (model, group % (model, model))
        assert code(client.call(34, {}, body)) is ResponseCode.SUCCESS
        shown = decode_body(client.call(203, {"consumerGroup": f"CG_cpp{model}"}).body)
        assert isinstance(shown, dict)
        assert shown["messageModel"] == name
        assert shown["consumeType"] == "CONSUME_PASSIVELY"
        assert shown["consumeFromWhere"] == "CONSUME_FROM_FIRST_OFFSET"
    wrong = body.replace(b'"1795869247697"', b'"x"')
    assert code(client.call(34, {}, wrong)) is ResponseCode.SYSTEM_ERROR


def test_members_join_while_their_coordinator_is_loading(
    client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loading(self: GroupCoordinators, group_id: str) -> ShardContext:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    monkeypatch.setattr(GroupCoordinators, "shard", loading)
    assert code(client.heartbeat("one", "CG_loading", {"t": "*"})) is ResponseCode.SUCCESS
    made(client, "t-loading")
    named = {"consumerGroup": "CG_loading", "topic": "t-loading", "queueId": 0}
    for number in (14, 15):
        answer = client.call(number, named | {"commitOffset": 1})
        assert code(answer) is ResponseCode.SERVICE_NOT_AVAILABLE, "the client asks again"


def test_a_locked_queue_has_one_owner(client: RemotingClient) -> None:
    def body(owner: str) -> bytes:
        return encode_body(
            {"consumerGroup": "CG_lock", "clientId": owner, "mqSet": [
                {"topic": "t", "brokerName": "b", "queueId": 0},
            ]}
        )  # fmt: skip

    held = b'{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"t"}]}'
    assert client.call(41, None, body("one")).body == held
    assert client.call(41, None, body("two")).body == b'{"lockOKMQSet":[]}'
    assert code(client.call(42, None, body("two"))) is ResponseCode.SUCCESS
    assert client.call(41, None, body("two")).body == b'{"lockOKMQSet":[]}'
    client.call(42, None, body("one"))
    assert client.call(41, None, body("two")).body == held


@pytest.mark.parametrize("number", [34, 41, 42, 46])
@pytest.mark.parametrize("body", [b"", b"{nope", b"[]", b"7", b"{}", b"[" * 5000])
def test_a_bad_body_fails_its_request_alone(
    client: RemotingClient, number: int, body: bytes
) -> None:
    assert code(client.call(number, {}, body)) is ResponseCode.SYSTEM_ERROR
    assert code(client.call(7777)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_of_one_protocol_is_refused_to_the_other(
    broker: BrokerThread, client: RemotingClient, protocol: str
) -> None:
    topic, group = made(client, f"one-{protocol}"), f"CG_{protocol}"
    settings = {
        "bootstrap.servers": broker.bootstrap, "group.id": group, "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }  # fmt: skip
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"for kafka")
    assert producer.flush(30) == 0
    client.heartbeat("one", group, {topic: "*"})
    errors: list[str] = []
    refused = Consumer(settings | {"error_cb": lambda error: errors.append(str(error))})
    refused.subscribe([topic])
    message = refused.poll(3.0)
    assert message is None or message.error() is not None
    refused.close()
    with pytest.raises(KafkaException, match="INCONSISTENT_GROUP_PROTOCOL"):
        Consumer(settings).commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    client.call(35, {"consumerGroup": group, "clientID": "one"})
    kafka = Consumer(settings)
    kafka.subscribe([topic])
    found = kafka.poll(30.0)
    assert found is not None
    assert found.value() == b"for kafka"
    answer = client.heartbeat("one", group, {topic: "*"})
    assert code(answer) is ResponseCode.NO_PERMISSION
    assert "clients of Kafka's" in (answer.remark or "")
    kafka.close()
    assert code(client.heartbeat("one", group, {topic: "*"})) is ResponseCode.SUCCESS
