"""Numbers of read and write queues: routes, sends, pulls, and topics that grow under load."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.fastjson import decode_body
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, code, fields, port_of


def update(client: RemotingClient, topic: str, read: int, write: int, perm: int = 6) -> None:
    """Set a topic's numbers of queues and its permission."""
    answer = client.call(
        17, {"topic": topic, "readQueueNums": read, "writeQueueNums": write, "perm": perm}
    )
    assert code(answer) is ResponseCode.SUCCESS, answer.remark


def route(client: RemotingClient, topic: str) -> tuple[object, ...]:
    """Return the numbers of read and write queues and the permission in a topic's route."""
    body = decode_body(client.call(105, {"topic": topic}).body)
    assert isinstance(body, dict)
    rows = body["queueDatas"]
    assert isinstance(rows, list)
    (queues,) = rows
    assert isinstance(queues, dict)
    return queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]


def pulled(client: RemotingClient, topic: str, queue: int) -> RemotingCommand:
    """Pull from a queue."""
    return client.pull(topic, queueId=queue)


def test_a_topic_shrinks_by_writing_draining_and_reading(client: RemotingClient) -> None:
    update(client, "shrinks", 6, 6)
    client.send("shrinks", b"left", e=5)
    update(client, "shrinks", 6, 3)
    assert route(client, "shrinks") == (6, 3, 6)
    late = client.send("shrinks", b"late", e=4)
    assert code(late) is ResponseCode.SUCCESS, "a producer with the old route"
    assert [m.body for m in messages_in(pulled(client, "shrinks", 5))] == [b"left"]
    update(client, "shrinks", 3, 3)
    assert route(client, "shrinks") == (3, 3, 6)
    assert code(client.send("shrinks", e=3)) is ResponseCode.INVALID_PARAMETER
    assert code(pulled(client, "shrinks", 3)) is ResponseCode.INVALID_PARAMETER
    update(client, "shrinks", 6, 6)
    assert [m.body for m in messages_in(pulled(client, "shrinks", 4))] == [b"late"]
    assert [m.body for m in messages_in(pulled(client, "shrinks", 5))] == [b"left"]


def test_a_send_to_any_queue_goes_to_one_that_is_written(client: RemotingClient) -> None:
    update(client, "any", 8, 2)
    used = {fields(client.send("any", e=-1))["queueId"] for _ in range(40)}
    assert used == {"0", "1"}


def test_a_topic_has_as_many_queues_as_the_higher_number(client: RemotingClient) -> None:
    update(client, "higher", 2, 5)
    assert route(client, "higher") == (2, 5, 6)
    assert code(client.send("higher", e=4)) is ResponseCode.SUCCESS
    assert code(pulled(client, "higher", 2)) is ResponseCode.INVALID_PARAMETER
    update(client, "higher", 5, 5)
    assert len(messages_in(pulled(client, "higher", 4))) == 1


def test_a_topic_that_is_not_readable_is_not_pulled(client: RemotingClient) -> None:
    update(client, "perms", 1, 1)
    client.send("perms", b"one")
    update(client, "perms", 1, 1, perm=2)
    refused = pulled(client, "perms", 0)
    assert code(refused) is ResponseCode.NO_PERMISSION
    assert fields(refused) == {"forbiddenType": "3"}
    assert refused.remark == "the topic[perms] pulling message is forbidden"
    assert route(client, "perms") == (1, 1, 2)
    update(client, "perms", 1, 1, perm=4)
    sent = client.send("perms", b"two")
    assert code(sent) is ResponseCode.SUCCESS, "only routes tell producers, as RocketMQ's"
    assert route(client, "perms") == (1, 1, 4)
    assert [m.body for m in messages_in(pulled(client, "perms", 0))] == [b"one", b"two"]


def test_numbers_of_queues_follow_partitions_that_kafka_adds(
    broker: BrokerThread, client: RemotingClient
) -> None:
    update(client, "kafka-grows", 2, 2)
    update(client, "kafka-grows", 2, 1)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions("kafka-grows", 4)])["kafka-grows"].result(30)
    assert route(client, "kafka-grows") == (4, 1, 6)


@pytest.mark.parametrize("bad", [{"readQueueNums": 0}, {"writeQueueNums": -1}, {"perm": 9}])
def test_bad_numbers_change_nothing(client: RemotingClient, bad: dict[str, int]) -> None:
    update(client, "bad-numbers", 2, 2)
    asked = {"topic": "bad-numbers", "readQueueNums": 3, "writeQueueNums": 3, "perm": 4}
    assert code(client.call(17, asked | bad)) is ResponseCode.SYSTEM_ERROR
    assert route(client, "bad-numbers") == (2, 2, 6)


def test_numbers_of_queues_survive_a_restart_and_end_with_the_topic(tmp_path: Path) -> None:
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as first,
        RemotingClient(port_of(first)) as client,
    ):
        update(client, "t", 4, 2, perm=4)
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as second,
        RemotingClient(port_of(second)) as client,
    ):
        assert route(client, "t") == (4, 2, 4)
        admin = AdminClient({"bootstrap.servers": second.bootstrap})
        admin.delete_topics(["t"])["t"].result(30)
        update(client, "t", 4, 4)
        assert route(client, "t") == (4, 4, 6)


@pytest.mark.parametrize("rule", ["5", "4.9", "new-queue"])
def test_a_group_misses_nothing_of_a_queue_that_is_shown_again(rule: str) -> None:
    """Queues 1 to 2 are hidden, the group begins, the queues are shown, messages come at once."""
    with (
        BrokerThread(SETTINGS | {"rocketmq.zero.offset.rule": rule}) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        update(client, "t", 3, 3)
        client.send("t", e=0)
        update(client, "t", 1, 1)
        client.call(15, {"consumerGroup": "CG", "topic": "t", "queueId": 0, "commitOffset": 1})
        update(client, "t", 3, 3)
        for queue in (1, 2):
            client.send("t", b"new", e=queue)
            asked = {"consumerGroup": "CG", "topic": "t", "queueId": queue}
            assert fields(client.call(14, asked)) == {"offset": "0"}
        young = client.call(14, {"consumerGroup": "new", "topic": "t", "queueId": 1})
        expected = ResponseCode.QUERY_NOT_FOUND if rule == "new-queue" else ResponseCode.SUCCESS
        assert code(young) is expected
