"""State and settings of the broker and the name server, and topics, as operators ask."""

import json
import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, code, fields, made, port_of, served


def text(answer: RemotingCommand) -> str:
    """Return the body of a successful answer."""
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    return bytes(answer.body).decode()


def properties(answer: RemotingCommand) -> dict[str, str]:
    """Return the settings in an answer."""
    return dict(line.split("=", 1) for line in text(answer).splitlines())


def permission(client: RemotingClient, topic: str) -> int:
    """Return the permission in a topic's route."""
    return int(json.loads(text(client.call(105, {"topic": topic})))["queueDatas"][0]["perm"])


def test_the_cluster_has_one_broker_with_an_unquoted_id(
    broker: BrokerThread, client: RemotingClient
) -> None:
    address = f"127.0.0.1:{port_of(broker)}"
    assert text(client.call(106)) == (
        f'{{"brokerAddrTable":{{"headrace-0":{{"brokerAddrs":{{0:"{address}"}},'
        '"brokerName":"headrace-0","cluster":"DefaultCluster","enableActingMaster":false}},'
        '"clusterAddrTable":{"DefaultCluster":["headrace-0"]}}'
    )


def test_the_runtime_info_has_the_rate_that_mqadmin_before_5_0_reads(
    broker: BrokerThread, client: RemotingClient
) -> None:
    with RemotingClient(port_of(broker), version=407) as old:
        table = json.loads(text(old.call(28)))["table"]
    assert table["getTransferedTps"] == table["getTransferredTps"]
    assert "getTransferedTps" not in json.loads(text(client.call(28)))["table"]


def test_the_runtime_info_has_what_the_cluster_list_reads(client: RemotingClient) -> None:
    topic = made(client, "runtime")
    client.pull(topic)
    before = json.loads(text(client.call(28)))["table"]
    for name in (
        "brokerVersionDesc", "putTps", "getTransferredTps", "sendThreadPoolQueueSize",
        "pullThreadPoolQueueSize", "ackThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueHeadWaitTimeMills", "pageCacheLockTimeMills",
        "earliestMessageTimeStamp",
        "commitLogDiskRatio", "timerReadBehind", "timerOffsetBehind", "timerCongestNum",
        "timerEnqueueTps", "timerDequeueTps", "brokerActive", "msgPutTotalYesterdayMorning",
        "msgPutTotalTodayMorning", "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning",
    ):  # fmt: skip
        assert isinstance(before[name], str), name
    assert 0 < float(before["commitLogDiskRatio"]) < 1
    assert before["brokerVersionDesc"] == "V5_5_0"
    for _ in range(3):
        client.send(topic)
    assert len(messages_in(client.pull(topic))) == 3
    after = json.loads(text(client.call(28)))["table"]
    for name in ("msgPutTotalTodayNow", "msgGetTotalTodayNow"):
        assert int(after[name]) - int(before[name]) == 3, name


def test_the_runtime_info_has_the_time_of_the_first_message() -> None:
    def earliest_ms() -> int:
        return int(json.loads(text(client.call(28)))["table"]["earliestMessageTimeStamp"])

    with BrokerThread(SETTINGS) as broker, RemotingClient(port_of(broker)) as client:
        first, second = made(client, "first", 2), made(client, "second")
        assert earliest_ms() == -1, "no message is stored"
        client.send(second)
        (stored,) = messages_in(client.pull(second))
        time.sleep(0.01)
        client.send(first, e=1)
        assert earliest_ms() == stored.stored_at_ms
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (deleted,) = admin.delete_records([TopicPartition(second, 0, 1)]).values()
        deleted.result(30)
        (left,) = messages_in(client.pull(first, queueId=1))
        assert earliest_ms() == left.stored_at_ms > stored.stored_at_ms


def test_rates_count_messages_of_all_producers(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "rates")
    client.pull(topic)
    broker.call(lambda server: served(server).traffic.sample())
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(30):
        producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    client.send(topic)
    assert len(messages_in(client.pull(topic, consumerGroup="CG_rates"))) == 31

    def rates(server: object) -> tuple[int, int, int]:
        traffic = served(server).traffic  # type: ignore[arg-type]
        now = server.broker.clock.monotonic() + 10  # type: ignore[attr-defined]
        traffic._stored.sample({topic: traffic.stored_total(topic, 1)}, now)
        traffic._got.sample(traffic._pulled, now)
        traffic._got.sample({**traffic._pulled, ("CG_rates", topic): 62}, now + 10)
        return (
            traffic.stored_rate(topic).messages,
            traffic.pulled_rate("CG_rates", topic).messages,
            traffic.pulled_rate("CG_other", topic).messages,
        )

    assert broker.call(rates) == (31, 31, 0)

    def summed(name: str, key: str) -> int:
        return int(
            json.loads(text(client.call(315, {"statsName": name, "statsKey": key})))["statsMinute"][
                "sum"
            ]
        )

    assert summed("TOPIC_PUT_NUMS", topic) == 31
    assert summed("GROUP_GET_NUMS", f"{topic}@CG_rates") == 31
    assert summed("BROKER_PUT_NUMS", "DefaultCluster") >= 0
    for name, key in (("TOPIC_PUT_NUMS", "never"), ("TOPIC_PUT_SIZE", topic)):
        missing = client.call(315, {"statsName": name, "statsKey": key})
        assert missing.remark == f"The stats <{name}> <{key}> not exist"


def test_settings_are_listed_by_rocketmqs_names(
    broker: BrokerThread, client: RemotingClient
) -> None:
    answer = client.call(26)
    found = properties(answer)
    assert list(found) == sorted(found)
    assert found["brokerName"] == "headrace-0"
    assert found["listenPort"] == str(port_of(broker))
    assert found["useServerSideResetOffset"] == "true"
    assert found["fileReservedTime"] == "72"
    assert found["autoCreateTopicEnable"] == "true"
    assert json.loads(fields(answer)["version"])["stateVersion"] == 0
    assert properties(client.call(319))["listenPort"] == str(port_of(broker))


def test_an_update_changes_the_allowed_setting_alone(client: RemotingClient) -> None:
    for body in (
        b"deleteWhen=05\n", b"useServerSideResetOffset=maybe", b"", b"brokerConfigPath=/etc/x",
        b"useServerSideResetOffset=false\nrocketmqHome=/tmp",
    ):  # fmt: skip
        refused = client.call(25, None, body)
        assert code(refused) is ResponseCode.NO_PERMISSION, body
        assert properties(client.call(26))["useServerSideResetOffset"] == "true"
    try:
        updated = client.call(25, None, b"# a comment\nuseServerSideResetOffset=false\n")
        assert code(updated) is ResponseCode.SUCCESS
        assert properties(client.call(26))["useServerSideResetOffset"] == "false"
        topic = made(client, "set-by-25")
        pushed = client.call(222, {"group": "CG", "topic": topic, "timestamp": 0})
        assert pushed.remark == "THe consumer group <CG> not exist", "by push"
    finally:
        client.call(25, None, b"useServerSideResetOffset=true\n")
    assert properties(client.call(26))["useServerSideResetOffset"] == "true"


def test_wiped_writes_are_gone_from_routes_until_given_back(client: RemotingClient) -> None:
    topic = made(client, "wiped")
    other = client.call(205, {"brokerName": "other"})
    assert fields(other) == {"wipeTopicCount": "0"}
    assert permission(client, topic) == 6
    answer = client.call(205, {"brokerName": "headrace-0"})
    try:
        assert int(fields(answer)["wipeTopicCount"]) > 0
        assert permission(client, topic) == 4
        assert code(client.call(327, {"brokerName": "other"})) is ResponseCode.SUCCESS
        assert permission(client, topic) == 4
    finally:
        given = client.call(327, {"brokerName": "headrace-0"})
    assert fields(given)["addTopicCount"] == fields(answer)["wipeTopicCount"]
    assert permission(client, topic) == 6


def test_values_of_the_name_server_are_kept_by_namespace_and_key(client: RemotingClient) -> None:
    def asked(namespace: str, key: str) -> dict[str, object]:
        return {"namespace": namespace, "key": key}

    missing = client.call(101, asked("n", "k"))
    assert code(missing) is ResponseCode.QUERY_NOT_FOUND
    assert missing.remark == "No config item, Namespace: n Key: k"
    pairs = [("n", "k"), ("n", "k/../x"), ("n@k", ""), ("n", "%|@."), ("n@", "k"), ("größe", "k")]
    for number, (namespace, key) in enumerate(pairs):
        put = client.call(100, asked(namespace, key) | {"value": f"v{number}"})
        expected = ResponseCode.SUCCESS if key else ResponseCode.SYSTEM_ERROR
        assert code(put) is expected, (namespace, key)
    for number, (namespace, key) in enumerate(pairs):
        if key:
            found = client.call(101, asked(namespace, key))
            assert fields(found) == {"value": f"v{number}"}, (namespace, key)
    listed = json.loads(text(client.call(219, {"namespace": "n"})))["table"]
    assert listed == {"k": "v0", "k/../x": "v1", "%|@.": "v3"}
    client.call(100, asked("n", "k") | {"value": "new"})
    assert fields(client.call(101, asked("n", "k"))) == {"value": "new"}
    for namespace, key in pairs:
        if key:
            assert code(client.call(102, asked(namespace, key))) is ResponseCode.SUCCESS
    assert code(client.call(102, asked("n", "k"))) is ResponseCode.SUCCESS, "deleted before"
    assert code(client.call(219, {"namespace": "n"})) is ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize("number", [306, 316])
def test_cleaning_finds_nothing_to_clean(client: RemotingClient, number: int) -> None:
    assert code(client.call(number)) is ResponseCode.SUCCESS


# Topics


def test_topics_are_listed_by_their_rocketmq_names(
    broker: BrokerThread, client: RemotingClient
) -> None:
    made(client, "listed")
    made(client, "INST%listed")
    broker.create_topics("of.kafka", "plain-kafka")
    names = json.loads(text(client.call(206)))["topicList"]
    assert {"listed", "INST%listed", "plain-kafka"} <= set(names)
    assert not {"of.kafka", "__consumer_offsets", "INST.25listed"} & set(names)
    assert names == sorted(names)


def test_settings_and_offsets_of_a_topic(client: RemotingClient) -> None:
    asked = {
        "topic": "shown", "readQueueNums": 2, "writeQueueNums": 1, "perm": 6, "order": "true",
        "attributes": "+message.type=FIFO",
    }  # fmt: skip
    created = client.call(17, asked)
    assert (code(created), created.remark) == (
        ResponseCode.SUCCESS, "not set any response code",
    )  # fmt: skip
    assert text(client.call(351, {"topic": "shown"})) == (
        '{"attributes":{"message.type":"FIFO"},"order":true,"perm":6,"readQueueNums":2,'
        '"topicFilterType":"SINGLE_TAG","topicName":"shown","topicSysFlag":0,"writeQueueNums":1}'
    )
    queue = '{"brokerName":"headrace-0","queueId":0,"topic":"shown"}'

    def stats(last_ms: int, end: int) -> str:
        offsets = f'{{"lastUpdateTimestamp":{last_ms},"maxOffset":{end},"minOffset":0}}'
        return f'{{"offsetTable":{{{queue}:{offsets}}},"topicPutTps":0.0}}'

    assert text(client.call(202, {"topic": "shown"})) == stats(0, 0)
    client.send("shown")
    (message,) = messages_in(client.pull("shown"))
    assert text(client.call(202, {"topic": "shown"})) == stats(message.stored_at_ms, 1)
    for number in (202, 351):
        missing = client.call(number, {"topic": "never"})
        assert code(missing) is ResponseCode.TOPIC_NOT_EXIST


def test_a_topic_is_deleted_for_all_protocols(broker: BrokerThread, client: RemotingClient) -> None:
    topic = made(client, "deleted")
    client.send(topic)
    assert code(client.call(215, {"topic": topic})) is ResponseCode.SUCCESS
    assert code(client.call(105, {"topic": topic})) is ResponseCode.TOPIC_NOT_EXIST
    kafka = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert topic not in kafka.list_topics(timeout=30).topics
    assert code(client.call(215, {"topic": topic})) is ResponseCode.SUCCESS, "it is gone"
    assert code(client.call(216, {"topic": topic})) is ResponseCode.SUCCESS
    for internal in ("__consumer_offsets", "TBW102"):
        assert code(client.call(215, {"topic": internal})) is ResponseCode.SUCCESS
    assert "__consumer_offsets" in kafka.list_topics(timeout=30).topics
