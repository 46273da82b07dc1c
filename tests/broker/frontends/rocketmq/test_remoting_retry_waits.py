"""A group's retry topic before it exists: a route, pulls that wait, and then its messages."""

import json

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.message_ids import physical_offset_of
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, code, fields, made, port_of, served


def test_a_known_group_has_a_route_of_its_retry_topic(client: RemotingClient) -> None:
    asked = {"topic": "%RETRY%CG_rr"}
    assert code(client.call(105, asked)) is ResponseCode.TOPIC_NOT_EXIST
    client.heartbeat("one", "CG_rr", {"t": "*"})
    route = json.loads(bytes(client.call(105, asked).body))["queueDatas"][0]
    assert (route["readQueueNums"], route["writeQueueNums"], route["perm"]) == (1, 1, 6)
    listed = json.loads(bytes(client.call(206).body))["topicList"]
    assert "%RETRY%CG_rr" in listed
    assert "%DLQ%CG_rr" not in listed
    client.call(35, {"consumerGroup": "CG_rr", "clientID": "one"})
    assert code(client.call(105, asked)) is ResponseCode.SUCCESS, "the group exists without members"
    client.call(207, {"groupName": "CG_rr"})
    assert code(client.call(105, asked)) is ResponseCode.TOPIC_NOT_EXIST


def test_a_pull_of_a_missing_retry_topic_waits_its_time(client: RemotingClient) -> None:
    topic = "%RETRY%CG_rw"
    assert code(client.pull(topic, consumerGroup="CG_rw")) is ResponseCode.TOPIC_NOT_EXIST
    client.heartbeat("one", "CG_rw", {"t": "*"})
    at_once = client.pull(topic, consumerGroup="CG_rw")
    assert code(at_once) is ResponseCode.PULL_NOT_FOUND
    short = client.ask_pull(topic, consumerGroup="CG_rw", sysFlag=6, suspendTimeoutMillis=300)
    late = client.answer(short, 10)
    assert code(late) is ResponseCode.PULL_NOT_FOUND
    assert fields(late)["nextBeginOffset"] == "0"
    other = client.pull(topic, consumerGroup="CG_other")
    assert code(other) is ResponseCode.TOPIC_NOT_EXIST, "another group's retries"


def test_a_waiting_pull_gets_the_first_message_that_is_sent_back(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "sends-back")
    sent = client.send(topic, b"again")
    client.heartbeat("one", "CG_back", {topic: "*"})
    with RemotingClient(port_of(broker)) as consumer:
        waits = consumer.ask_pull("%RETRY%CG_back", consumerGroup="CG_back", **PARKED)
        consumer.pull(topic, consumerGroup="CG_back")
        back = client.call(
            36,
            {
                "group": "CG_back", "offset": physical_offset_of(fields(sent)["msgId"]),
                "delayLevel": 1, "originMsgId": "", "originTopic": topic, "unitMode": "false",
                "maxReconsumeTimes": 16,
            },
        )  # fmt: skip
        assert code(back) is ResponseCode.SUCCESS, back.remark
        found = consumer.answer(waits, 15)
        assert [message.body for message in messages_in(found)] == [b"again"]
    assert broker.call(lambda server: len(served(server).parked)) == 0


def test_a_waiting_pull_is_refused_when_its_group_is_switched_off(
    broker: BrokerThread, client: RemotingClient
) -> None:
    client.heartbeat("one", "CG_woff", {"t": "*"})
    waits = client.ask_pull("%RETRY%CG_woff", consumerGroup="CG_woff", **PARKED)
    with RemotingClient(port_of(broker)) as operator:
        client.pull("%RETRY%CG_woff", consumerGroup="CG_woff")
        operator.call(200, {}, b'{"groupName":"CG_woff","consumeEnable":false}')
        assert code(client.answer(waits, 10)) is ResponseCode.NO_PERMISSION


def test_a_waiting_pull_ends_with_its_connection(broker: BrokerThread) -> None:
    with RemotingClient(port_of(broker)) as leaving:
        leaving.heartbeat("one", "CG_wend", {"t": "*"})
        leaving.ask_pull("%RETRY%CG_wend", consumerGroup="CG_wend", **PARKED)
        leaving.pull("%RETRY%CG_wend", consumerGroup="CG_wend")
        assert broker.call(lambda server: len(served(server).parked)) == 1
    for _ in range(200):
        if not broker.call(lambda server: len(served(server).parked)):
            break
    assert broker.call(lambda server: len(served(server).parked)) == 0
