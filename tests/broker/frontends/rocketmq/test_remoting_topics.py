"""Routes, and topics that RocketMQ clients create, on a broker called by frames."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.ports.store import SessionLost
from headrace.server.assembly import Server
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import decode_body
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, code, fields, made, port_of, served


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


@pytest.mark.parametrize(
    "topic",
    [
        "a b", "a.b", "x" * 128, "%RETRY%g", "TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x",
        "SELF_TEST_TOPIC", "BenchmarkTest",
    ],
)  # fmt: skip
def test_a_topic_with_a_bad_or_reserved_name_is_refused(client: RemotingClient, topic: str) -> None:
    answer = client.call(17, {"topic": topic, "readQueueNums": 1, "writeQueueNums": 1})
    assert code(answer) is ResponseCode.INVALID_PARAMETER


def test_a_send_to_a_missing_topic_of_another_pattern_is_refused(client: RemotingClient) -> None:
    assert code(client.send("missing", c="OTHER")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(client.send("%OTHER%g")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(client.send("__consumer_offsets")) is ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(
    "topic", ["RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "TRANS_CHECK_MAX_TIME_TOPIC"]
)
def test_a_send_to_a_topic_of_rocketmq_s_own_is_refused(client: RemotingClient, topic: str) -> None:
    answer = client.send(topic)
    assert code(answer) is ResponseCode.NO_PERMISSION
    assert answer.remark == f"Sending message to topic[{topic}] is forbidden."


def test_the_first_trace_creates_the_topic_of_traces_below_the_reserved_prefix(
    broker: BrokerThread, client: RemotingClient
) -> None:
    # Java's client chooses one of the four queues of the default topic's route.
    assert code(client.send("RMQ_SYS_TRACE_TOPIC", b"trace", e=3)) is ResponseCode.SUCCESS
    assert code(client.send("RMQ_SYS_OTHER")) is ResponseCode.TOPIC_NOT_EXIST
    kafka = "__rocketmq.RMQ_SYS_TRACE_TOPIC"
    topics = broker.call(lambda server: dict(server.broker.image.topics))
    assert (len(topics[kafka].partitions), topics[kafka].internal) == (4, True)
    assert "RMQ_SYS_TRACE_TOPIC" not in topics
    pulled = messages_in(client.pull("RMQ_SYS_TRACE_TOPIC", queueId=3))
    assert [each.body for each in pulled] == [b"trace"]
    assert b"RMQ_SYS_TRACE_TOPIC" in bytes(client.call(206).body)
    assert code(client.call(215, {"topic": "RMQ_SYS_TRACE_TOPIC"})) is ResponseCode.SUCCESS
    assert kafka not in broker.call(lambda server: dict(server.broker.image.topics))


def test_the_topic_of_traces_is_created_at_the_start_if_the_setting_says_so() -> None:
    settings = {"rocketmq.trace.topic.enable": "true", "auto.create.topics.enable": "false"}
    with BrokerThread(SETTINGS | settings) as broker, RemotingClient(port_of(broker)) as client:
        named = {"topic": "RMQ_SYS_TRACE_TOPIC"}
        while code(client.call(105, named)) is ResponseCode.TOPIC_NOT_EXIST:
            pass
        assert code(client.send("RMQ_SYS_TRACE_TOPIC", b"trace")) is ResponseCode.SUCCESS
        assert b"traceTopicEnable=true" in bytes(client.call(26).body)


# The metadata store


@contextmanager
def failing_store(broker: BrokerThread) -> Iterator[None]:
    """Have SQLite refuse each write of the metadata store, as on a disk that became read-only."""

    def read_only(server: Server, value: int) -> None:
        file = served(server).configs.topics._store._file  # type: ignore[attr-defined]
        file._thread.submit(file._tree._db.execute, f"PRAGMA query_only={value}").result()

    broker.call(lambda server: read_only(server, 1))
    try:
        yield
    finally:
        broker.call(lambda server: read_only(server, 0))


def asked_queues(client: RemotingClient, topic: str, queues: int, perm: int = 6) -> ResponseCode:
    """Ask for a topic with request 17; return the answer's code."""
    named = {"topic": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": perm}
    return code(client.call(17, named))


def test_topic_settings_are_refused_while_the_store_cannot_be_written(
    broker: BrokerThread, client: RemotingClient
) -> None:
    made(client, "store-fails", 2)
    with failing_store(broker):
        assert asked_queues(client, "store-fails", 2, 4) is ResponseCode.SERVICE_NOT_AVAILABLE
        assert asked_queues(client, "store-fails", 1) is ResponseCode.SERVICE_NOT_AVAILABLE
        assert b'"perm":6' in bytes(client.call(351, {"topic": "store-fails"}).body)
        assert asked_queues(client, "store-fails-new", 1) is not ResponseCode.SUCCESS
    assert asked_queues(client, "store-fails", 2, 4) is ResponseCode.SUCCESS
    assert b'"perm":4' in bytes(client.call(351, {"topic": "store-fails"}).body)


def test_settings_of_a_deleted_topic_are_deleted_by_the_next_start_at_the_latest(
    tmp_path: Path,
) -> None:
    def stored(server: Server) -> list[str]:
        return sorted(served(server).configs.topics)

    async def in_store(server: Server) -> list[str]:
        store = served(server).configs.topics._store
        return sorted(await store.children("/headrace-rocketmq/topics"))

    async def lost(*_: object) -> None:
        raise SessionLost("away")

    def without_deletes(server: Server) -> None:
        served(server).configs.topics._store.delete = lost  # type: ignore[method-assign,assignment]

    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        for name in ("kept", "deleted", "left"):
            made(client, name)
        assert len(broker.call(stored)) == 3
        client.call(215, {"topic": "deleted"})
        while len(broker.run(in_store)) > 2:
            pass
        broker.call(without_deletes)
        client.call(215, {"topic": "left"})
    with BrokerThread(SETTINGS, directory=str(tmp_path)) as broker:
        assert len(broker.call(stored)) == len(broker.run(in_store)) == 1
