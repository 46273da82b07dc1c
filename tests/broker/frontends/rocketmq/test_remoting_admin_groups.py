"""State of groups as operators ask, written as RocketMQ 5.5.0 writes it."""

import json

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.fastjson import Keyed, decode_body
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import code, fields, made, port_of


def queue_key(queue: int, topic: str) -> str:
    """Return a queue as a key of an answer's map."""
    return json.dumps(
        {"brokerName": "headrace-0", "queueId": queue, "topic": topic}, separators=(",", ":")
    )


def commit(client: RemotingClient, group: str, topic: str, offset: int, queue: int = 0) -> None:
    """Store a group's offset."""
    named = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
    assert code(client.call(15, named)) is ResponseCode.SUCCESS


def text(answer: RemotingCommand) -> str:
    """Return the body of a successful answer."""
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    return bytes(answer.body).decode()


def test_offsets_ends_and_times_of_a_group_are_its_consume_stats(client: RemotingClient) -> None:
    topic = made(client, "stats", 2)
    for _ in range(3):
        client.send(topic, e=0)
    first, second, _ = messages_in(client.pull(topic))
    commit(client, "CG_stats", topic, 2)
    table = (
        f'{{"consumeTps":0.0,"offsetTable":{{{queue_key(0, topic)}:{{"brokerOffset":3,'
        f'"consumerOffset":2,"lastTimestamp":{second.stored_at_ms},"pullOffset":2}},'
        f'{queue_key(1, topic)}:{{"brokerOffset":0,"consumerOffset":0,"lastTimestamp":0,'
        '"pullOffset":0}}}'
    )
    for asked in ({}, {"topic": topic}, {"topic": ""}):
        answer = client.call(208, {"consumerGroup": "CG_stats"} | asked)
        assert text(answer) == table
    none = client.call(208, {"consumerGroup": "CG_stats", "topic": "other"})
    assert text(none) == '{"consumeTps":0.0,"offsetTable":{}}'
    commit(client, "CG_stats", topic, 1)
    moved = text(client.call(208, {"consumerGroup": "CG_stats"}))
    assert f'"lastTimestamp":{first.stored_at_ms}' in moved


def test_a_topic_that_the_members_left_is_not_in_the_stats(client: RemotingClient) -> None:
    for name in ("left", "stayed"):
        commit(client, "CG_left", made(client, name), 0)
    answer = text(client.call(208, {"consumerGroup": "CG_left"}))
    assert '"topic":"left"' in answer
    assert '"topic":"stayed"' in answer
    client.heartbeat("one", "CG_left", {"stayed": "*"})
    answer = text(client.call(208, {"consumerGroup": "CG_left"}))
    assert '"topic":"left"' not in answer
    assert '"topic":"stayed"' in answer


def test_a_time_of_a_deleted_message_is_zero(client: RemotingClient) -> None:
    topic = made(client, "beyond-end")
    client.send(topic)
    commit(client, "CG_beyond", topic, 50)
    assert '"consumerOffset":50,"lastTimestamp":0' in text(
        client.call(208, {"consumerGroup": "CG_beyond"})
    )


def test_members_and_subscriptions_are_the_consumer_connection(
    broker: BrokerThread, client: RemotingClient
) -> None:
    offline = client.call(203, {"consumerGroup": "CG_conn"})
    assert code(offline) is ResponseCode.CONSUMER_NOT_ONLINE
    assert offline.remark == "the consumer group[CG_conn] not online"
    body = json.dumps(
        {
            "clientID": "b",
            "consumerDataSet": [
                {
                    "groupName": "CG_conn", "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                    "subscriptionDataSet": [
                        {"topic": "t", "subString": "A || B", "subVersion": 7,
                         "expressionType": "TAG"},
                        {"topic": "s", "subString": "*", "subVersion": 5},
                    ],
                }
            ],
        }
    ).encode()  # fmt: skip
    client.call(34, {}, body)
    with RemotingClient(port_of(broker), version=407) as other:
        other.call(34, {}, body.replace(b'"b"', b'"a"'))
        answer = json.loads(text(other.call(203, {"consumerGroup": "CG_conn"})))
        connections = answer.pop("connectionSet")
        assert [(each["clientId"], each["version"]) for each in connections] == [
            ("a", 407), ("b", 513),
        ]  # fmt: skip
        assert {each["language"] for each in connections} == {"JAVA"}
        assert all(each["clientAddr"].startswith("127.0.0.1:") for each in connections)
        assert list(connections[0]) == ["clientAddr", "clientId", "language", "version"]
    assert answer == {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "subscriptionTable": {
            "s": {"classFilterMode": False, "codeSet": [], "expressionType": "TAG",
                  "subString": "*", "subVersion": 5, "tagsSet": [], "topic": "s"},
            "t": {"classFilterMode": False, "codeSet": [65, 66], "expressionType": "TAG",
                  "subString": "A || B", "subVersion": 7, "tagsSet": ["A", "B"], "topic": "t"},
        },
    }  # fmt: skip


def test_groups_are_known_by_settings_members_and_offsets(client: RemotingClient) -> None:
    topic = made(client, "known")
    client.call(200, {}, b'{"groupName":"CG_1settings","retryMaxTimes":3}')
    client.heartbeat("one", "CG_2members", {topic: "*"})
    commit(client, "CG_3offsets", topic, 0)
    answer = client.call(201, {"groupSeq": 0, "maxGroupNum": 2000})
    table = json.loads(text(answer))["subscriptionGroupTable"]
    assert {"CG_1settings", "CG_2members", "CG_3offsets"} <= table.keys()
    assert table["CG_1settings"]["retryMaxTimes"] == 3
    assert table["CG_2members"]["retryMaxTimes"] == 16
    total = int(fields(answer)["totalGroupNum"])
    assert total == len(table)
    pages = [
        json.loads(text(client.call(201, {"groupSeq": at, "maxGroupNum": 2})))
        for at in range(0, total, 2)
    ]
    names = [name for page in pages for name in page["subscriptionGroupTable"]]
    assert names == sorted(table)
    one = client.call(352, {"group": "CG_1settings"})
    assert json.loads(text(one)) == table["CG_1settings"]
    assert (
        code(client.call(352, {"group": "CG_never"})) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    )


def test_groups_of_kafka_are_not_rocketmq_groups(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "of-kafka-only")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "kafka-only"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    assert '"kafka-only"' not in text(client.call(201, {}))
    assert '"kafka-only"' not in text(client.call(43))


def test_the_groups_of_a_topic_have_offsets_or_members(client: RemotingClient) -> None:
    topic, other = made(client, "by-who"), made(client, "by-other")
    commit(client, "CG_w1", topic, 0)
    client.heartbeat("one", "CG_w2", {topic: "*"})
    commit(client, "CG_w3", other, 0)
    assert text(client.call(300, {"topic": topic})) == '{"groupList":["CG_w1","CG_w2"]}'
    assert text(client.call(300, {"topic": "never"})) == '{"groupList":[]}'


def test_all_offsets_are_written_as_the_file_of_offsets(client: RemotingClient) -> None:
    topic = made(client, "all-offsets", 3)
    commit(client, "CG_all", topic, 7, 2)
    commit(client, "CG_all", topic, 5, 0)
    body = decode_body(client.call(43).body)
    assert isinstance(body, dict)
    assert list(body) == ["dataVersion", "groupTopicMap", "offsetTable"]
    assert isinstance(body["groupTopicMap"], dict)
    assert body["groupTopicMap"]["CG_all"] == [topic]
    assert isinstance(body["offsetTable"], dict)
    assert body["offsetTable"][f"{topic}@CG_all"] == Keyed(((0, 5), (2, 7)))


def test_offsets_of_a_group_are_cloned(client: RemotingClient) -> None:
    def offset(group: str, topic: str, queue: int = 0) -> str | None:
        named = {"consumerGroup": group, "topic": topic, "queueId": queue}
        return fields(client.call(14, named | {"setZeroIfNotFound": "false"})).get("offset")

    for name in ("cloned", "other"):
        commit(client, "CG_source", made(client, name, 2), 3)
    both = {"srcGroup": "CG_source", "destGroup": "CG_target", "topic": "cloned"}
    assert code(client.call(314, both)) is ResponseCode.SUCCESS
    assert (offset("CG_target", "cloned"), offset("CG_target", "cloned", 1)) == ("3", None)
    assert offset("CG_target", "other") is None
    client.heartbeat("one", "CG_source", {"cloned": "*"})
    everything = {"srcGroup": "CG_source", "destGroup": "CG_clone"}
    assert code(client.call(314, everything)) is ResponseCode.SUCCESS
    assert (offset("CG_clone", "cloned"), offset("CG_clone", "other")) == ("3", None)
    assert code(client.call(314, everything | {"offline": "true"})) is ResponseCode.SUCCESS
    assert offset("CG_clone", "other") == "3"
    missing = client.call(314, both | {"topic": "never"})
    assert code(missing) is ResponseCode.SUCCESS, "as RocketMQ, which leaves it out"


def test_lag_of_all_groups_is_summed(client: RemotingClient) -> None:
    topic = made(client, "lagging")
    for _ in range(4):
        client.send(topic)
    before = json_of(client)
    commit(client, "CG_lag", topic, 1)
    after = json_of(client)
    assert after["totalDiff"] == int(str(before["totalDiff"])) + 3
    stats = after["consumeStatsList"]
    assert isinstance(stats, list)
    (mine,) = [each for each in stats if isinstance(each, dict) and "CG_lag" in each]
    assert isinstance(mine, dict)
    topics = mine["CG_lag"]
    assert isinstance(topics, list)
    (of_topic,) = topics
    assert isinstance(of_topic, dict)
    assert list(of_topic) == ["consumeTps", "offsetTable"]


def json_of(client: RemotingClient) -> dict[str, object]:
    """Return the answer to request 317."""
    body = decode_body(client.call(317, {"isOrder": "false"}).body)
    assert isinstance(body, dict)
    return dict(body)


@pytest.mark.parametrize("name", ["cleanOffset", "removeOffset"], ids=["5.x", "4.9"])
def test_a_deleted_group_keeps_its_offsets_unless_asked(client: RemotingClient, name: str) -> None:
    topic = made(client, "deletes")
    client.call(200, {}, b'{"groupName":"CG_del","consumeEnable":false}')
    commit(client, "CG_del", topic, 3)
    named = {"consumerGroup": "CG_del", "topic": topic, "queueId": 0, "setZeroIfNotFound": "false"}
    keep = client.call(207, {"groupName": "CG_del", name: "false"})
    assert code(keep) is ResponseCode.SUCCESS
    assert fields(client.call(14, named)) == {"offset": "3"}
    assert code(client.pull(topic, consumerGroup="CG_del")) is not ResponseCode.NO_PERMISSION
    clean = client.call(207, {"groupName": "CG_del", name: "true"})
    assert code(clean) is ResponseCode.SUCCESS
    assert code(client.call(14, named)) is ResponseCode.QUERY_NOT_FOUND
    again = client.call(207, {"groupName": "CG_del", "cleanOffset": "true"})
    assert code(again) is ResponseCode.SUCCESS


def test_a_group_is_not_deleted_while_kafka_clients_are_members(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "deletes-kafka")
    client.send(topic)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "CG_delk",
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.subscribe([topic])
    assert consumer.poll(30.0) is not None
    refused = client.call(207, {"groupName": "CG_delk", "cleanOffset": "true"})
    assert code(refused) is not ResponseCode.SUCCESS
    consumer.close()


def test_groups_pull_and_do_not_pop(client: RemotingClient) -> None:
    for mode, expected in (("PULL", ResponseCode.SUCCESS), ("POP", ResponseCode.SYSTEM_ERROR)):
        body = json.dumps({"consumerGroup": "CG", "topic": "t", "mode": mode}).encode()
        assert code(client.call(401, {}, body)) is expected


@pytest.mark.parametrize("number", [201, 203, 207, 208, 300, 352])
def test_a_request_without_its_fields_is_refused(client: RemotingClient, number: int) -> None:
    answer = client.call(number, {"groupSeq": "x"})
    assert code(answer) is ResponseCode.SYSTEM_ERROR
