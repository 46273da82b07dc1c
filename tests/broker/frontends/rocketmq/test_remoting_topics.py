"""Routes, and topics that RocketMQ clients create, on a broker called by frames."""

import pytest

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import decode_body
from tests.support.rocketmq.client import RemotingClient
from tests.support.rocketmq.kit import code, fields, made, port_of


def test_a_send_creates_the_topic_with_the_queues_that_it_asks_for(client: RemotingClient) -> None:
    asked = {"topic": "auto"}
    assert code(client.call(105, asked)) is ResponseCode.TOPIC_NOT_EXIST
    pattern = decode_body(client.call(105, {"topic": "TBW102"}).body)
    assert isinstance(pattern, dict)
    assert pattern["queueDatas"][0]["readQueueNums"] == 8  # type: ignore[index,call-overload]
    answer = client.send("auto", b"first", e=3)
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    assert fields(answer)["queueId"] == "3"
    route = decode_body(client.call(105, asked).body)
    assert isinstance(route, dict)
    assert route["queueDatas"] == [{
        "brokerName": "headrace-0", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0,
        "writeQueueNums": 4,
    }]  # fmt: skip


def test_a_route_names_the_address_of_the_listener(
    broker: BrokerThread, client: RemotingClient
) -> None:
    made(client, "routed", 3)
    address = f"127.0.0.1:{port_of(broker)}"
    assert b'"brokerAddrs":{"0":"%s"}' % address.encode() in bytes(
        client.call(105, {"topic": "routed"}).body
    )
    with RemotingClient(port_of(broker), version=317) as older:
        assert b'"brokerAddrs":{0:"%s"}' % address.encode() in bytes(
            older.call(105, {"topic": "routed"}).body
        )


def test_a_topic_grows(client: RemotingClient) -> None:
    for queues in (2, 4):
        made(client, "grown", queues)
        assert b'"readQueueNums":%d' % queues in bytes(client.call(105, {"topic": "grown"}).body)


@pytest.mark.parametrize("topic", ["a b", "a.b", "x" * 128, "%RETRY%g", "TBW102"])
def test_a_topic_with_a_bad_or_reserved_name_is_refused(client: RemotingClient, topic: str) -> None:
    answer = client.call(17, {"topic": topic, "readQueueNums": 1, "writeQueueNums": 1})
    assert code(answer) is ResponseCode.INVALID_PARAMETER


def test_a_send_to_a_missing_topic_of_another_pattern_is_refused(client: RemotingClient) -> None:
    assert code(client.send("missing", c="OTHER")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(client.send("%OTHER%g")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(client.send("__consumer_offsets")) is ResponseCode.TOPIC_NOT_EXIST
