"""Resets of groups' offsets (222): answered to the next pull once, or pushed to the members."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.group_coordinators import GroupCoordinators
from headrace.coordination.groups.messages import CommitRequest
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.callbacks import Done
from headrace.subscriptions.group_offsets import OwnCommits
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.fastjson import Keyed, decode_body
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, SETTINGS, code, fields, loaded, made, port_of, served

IGNORED = "Offset has been previously reset"


def filled(client: RemotingClient, topic: str, messages: int = 4, queues: int = 1) -> str:
    """Create a topic with messages in each queue; return its name."""
    made(client, topic, queues)
    for queue in range(queues):
        for number in range(messages):
            answer = client.send(topic, b"%d" % number, e=queue)
            assert code(answer) is ResponseCode.SUCCESS, answer.remark
    return topic


def reset(client: RemotingClient, group: str, topic: str, **more: object) -> RemotingCommand:
    """Ask for a reset to the first offset; `more` changes the request."""
    asked: dict[str, object] = {
        "group": group, "topic": topic, "timestamp": 0, "isForce": "true", "queueId": -1,
        "offset": -1,
    }  # fmt: skip
    return client.call(222, asked | more)


def offsets_in(answer: RemotingCommand) -> dict[int, int]:
    """Return the offsets by queue of a reset's answer, or of a push."""
    body = decode_body(answer.body)
    assert isinstance(body, dict)
    table = body["offsetTable"]
    assert isinstance(table, Keyed)
    found = {}
    for queue, offset in table.pairs:
        assert isinstance(queue, dict)
        assert isinstance(offset, int)
        assert queue["brokerName"] == "headrace-0"
        found[int(str(queue["queueId"]))] = offset
    return found


def commit(client: RemotingClient, group: str, topic: str, offset: int, queue: int = 0) -> str:
    """Store a group's offset; return the answer's remark."""
    named = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
    answer = client.call(15, named)
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    return answer.remark or ""


def committed(client: RemotingClient, group: str, topic: str, queue: int = 0) -> str:
    """Return a group's stored offset."""
    named = {"consumerGroup": group, "topic": topic, "queueId": queue}
    return fields(client.call(14, named | {"setZeroIfNotFound": "false"}))["offset"]


def test_a_reset_is_answered_to_the_next_pull_once(client: RemotingClient) -> None:
    topic = filled(client, "reset")
    commit(client, "CG_r", topic, 4)
    assert offsets_in(reset(client, "CG_r", topic)) == {0: 0}
    assert committed(client, "CG_r", topic) == "0"
    assert commit(client, "CG_r", topic, 4) == IGNORED
    assert committed(client, "CG_r", topic) == "0"
    moved = client.pull(topic, 4, consumerGroup="CG_r")
    assert (code(moved), moved.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert fields(moved)["nextBeginOffset"] == "0"
    assert fields(moved)["maxOffset"] == "4"
    again = client.pull(topic, 3, consumerGroup="CG_r")
    assert [message.body for message in messages_in(again)] == [b"3"]
    assert commit(client, "CG_r", topic, 2) == ""
    assert committed(client, "CG_r", topic) == "2"


def test_a_pull_does_not_commit_over_the_reset_that_it_is_answered_with(
    client: RemotingClient,
) -> None:
    topic = filled(client, "carries")
    reset(client, "CG_c", topic)
    moved = client.pull(topic, 4, consumerGroup="CG_c", sysFlag=5, commitOffset=4)
    assert moved.remark == "OFFSET_RESET"
    assert committed(client, "CG_c", topic) == "0"


def test_a_parked_pull_is_woken_by_a_reset_of_its_group(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = filled(client, "parked")
    with RemotingClient(port_of(broker)) as other:
        waits = client.ask_pull(topic, 4, consumerGroup="CG_p", **PARKED)
        waits_too = client.ask_pull(topic, 4, consumerGroup="CG_q", **PARKED)
        client.pull(topic, 4, consumerGroup="CG_p")  # the others are parked by now
        assert offsets_in(reset(other, "CG_p", topic)) == {0: 0}
        moved = client.answer(waits, 10)
        assert (moved.remark, fields(moved)["nextBeginOffset"]) == ("OFFSET_RESET", "0")
        client.send(topic, b"more")
        found = client.answer(waits_too, 10)
        assert [message.body for message in messages_in(found)] == [b"more"]
    assert broker.call(lambda server: len(served(server).parked)) == 0


def test_of_two_resets_the_second_one_counts(client: RemotingClient) -> None:
    topic = filled(client, "twice")
    reset(client, "CG_2", topic)
    assert offsets_in(reset(client, "CG_2", topic, queueId=0, offset=3)) == {0: 3}
    moved = client.pull(topic, 4, consumerGroup="CG_2")
    assert fields(moved)["nextBeginOffset"] == "3"
    assert client.pull(topic, 4, consumerGroup="CG_2").remark != "OFFSET_RESET"


def test_each_queue_is_answered_its_own_reset(client: RemotingClient) -> None:
    topic = filled(client, "queues", messages=2, queues=3)
    client.send(topic, b"late", e=1)
    assert offsets_in(reset(client, "CG_each", topic, timestamp=-1)) == {0: 2, 1: 3, 2: 2}
    for queue, offset in ((2, "2"), (0, "2"), (1, "3")):
        moved = client.pull(topic, 0, consumerGroup="CG_each", queueId=queue)
        assert (moved.remark, fields(moved)["nextBeginOffset"]) == ("OFFSET_RESET", offset)
        assert client.pull(topic, 0, consumerGroup="CG_each", queueId=queue).remark == "FOUND"


def test_a_reset_by_time_finds_the_first_message_stored_at_or_after_it(
    client: RemotingClient,
) -> None:
    topic = filled(client, "times-reset", messages=3)
    stored = [message.stored_at_ms for message in messages_in(client.pull(topic))]
    for number, at in enumerate(stored):
        first = stored.index(at)
        assert offsets_in(reset(client, f"CG_t{number}", topic, timestamp=at)) == {0: first}
    late = reset(client, "CG_late", topic, timestamp=stored[-1] + 10**6)
    assert offsets_in(late) == {0: 3}, "nothing is so young: the end"


def test_a_reset_of_all_queues_is_of_those_that_consumers_read(client: RemotingClient) -> None:
    topic = filled(client, "shrinking", messages=2)
    for read, write in ((4, 4), (4, 1)):
        named = {"topic": topic, "readQueueNums": read, "writeQueueNums": write, "perm": 6}
        assert code(client.call(17, named)) is ResponseCode.SUCCESS
    answer = reset(client, "CG_shrinks", topic, timestamp=-1)
    assert offsets_in(answer) == {0: 2, 1: 0, 2: 0, 3: 0}


def test_a_reset_of_what_does_not_exist_is_refused(client: RemotingClient) -> None:
    topic = filled(client, "bounds", messages=2)
    assert code(reset(client, "CG_b", "never")) is ResponseCode.TOPIC_NOT_EXIST
    beyond = reset(client, "CG_b", topic, queueId=0, offset=3)
    assert code(beyond) is ResponseCode.SYSTEM_ERROR
    assert beyond.remark == "Target offset 3 not in consume queue range [0-2]"
    assert code(reset(client, "CG_b", topic, queueId=9, offset=1)) is ResponseCode.SYSTEM_ERROR
    assert code(reset(client, "CG_b", topic, queueId=9)) is ResponseCode.SYSTEM_ERROR
    answer = client.call(14, {"consumerGroup": "CG_b", "topic": topic, "queueId": 0,
                              "setZeroIfNotFound": "false"})  # fmt: skip
    assert code(answer) is ResponseCode.QUERY_NOT_FOUND, "nothing was reset"
    assert offsets_in(reset(client, "CG_b", topic, queueId=0, offset=2)) == {0: 2}, "the end"


def test_a_reset_survives_a_restart_before_the_next_pull(tmp_path: Path) -> None:
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as first,
        RemotingClient(port_of(first)) as client,
    ):
        filled(client, "t")
        commit(client, "CG", "t", 4)
        reset(client, "CG", "t")
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as second,
        RemotingClient(port_of(second)) as client,
    ):
        loaded(client, "CG", "t")
        assert commit(client, "CG", "t", 4) == IGNORED
        moved = client.pull("t", 4, consumerGroup="CG")
        assert (moved.remark, fields(moved)["nextBeginOffset"]) == ("OFFSET_RESET", "0")
        assert client.pull("t", 0, consumerGroup="CG").remark == "FOUND"


def test_a_reset_that_is_stored_in_part_is_an_error_that_names_the_rest(
    client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(client, "in-part", queues=3)
    store = OwnCommits.commit

    def but_one(self: OwnCommits, request: CommitRequest, done: Done[ErrorCode]) -> None:
        if request.offsets[0].partition == 1:
            done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            store(self, request, done)

    monkeypatch.setattr(OwnCommits, "commit", but_one)
    refused = reset(client, "CG_part", topic)
    assert code(refused) is ResponseCode.SERVICE_NOT_AVAILABLE
    text = f"the offsets of queues 1 of {topic} are not reset; repeat the request"
    assert refused.remark == text
    monkeypatch.undo()
    for queue, remark in ((0, "OFFSET_RESET"), (1, "FOUND"), (2, "OFFSET_RESET")):
        assert client.pull(topic, 0, consumerGroup="CG_part", queueId=queue).remark == remark
    assert offsets_in(reset(client, "CG_part", topic)) == {0: 0, 1: 0, 2: 0}


def test_pulls_are_answered_while_the_coordinator_is_loading(
    client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = filled(client, "pulls-loading")

    def loading(self: GroupCoordinators, group_id: str) -> ShardContext:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    monkeypatch.setattr(GroupCoordinators, "shard", loading)
    assert client.pull(topic, 0, consumerGroup="CG_pl").remark == "FOUND"


def test_a_group_with_kafka_members_is_not_reset(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = filled(client, "of-kafka")
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "CG_k",
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.subscribe([topic])
    assert consumer.poll(30.0) is not None
    refused = reset(client, "CG_k", topic)
    assert code(refused) is ResponseCode.NO_PERMISSION
    consumer.close()


# By push, as RocketMQ 4.9


@pytest.fixture(scope="module")
def pushing() -> Iterator[BrokerThread]:
    """A broker that pushes resets to the members."""
    with BrokerThread(SETTINGS | {"rocketmq.server.side.reset": "false"}) as made_broker:
        yield made_broker


def test_a_pushed_reset_reaches_all_members_of_the_group(pushing: BrokerThread) -> None:
    with (
        RemotingClient(port_of(pushing)) as one,
        RemotingClient(port_of(pushing)) as two,
        RemotingClient(port_of(pushing)) as other,
    ):
        topic = filled(one, "pushed", queues=2)
        for queue in (0, 1):
            commit(one, "CG", topic, 3, queue)
        one.heartbeat("one", "CG", {topic: "*"})
        two.heartbeat("two", "CG", {topic: "*"})
        other.heartbeat("other", "CG_other", {topic: "*"})
        answer = reset(other, "CG", topic)
        assert offsets_in(answer) == {0: 0, 1: 0}
        for member in (one, two):
            pushed = member.wait_notified(220)
            assert offsets_in(pushed) == {0: 0, 1: 0}
            assert pushed.is_one_way
            assert fields(pushed)["group"] == "CG"
            assert fields(pushed)["topic"] == topic
        assert not [each for each in other.notified if each.code == 220]
        assert committed(one, "CG", topic) == "3", "the members store it"
        assert commit(one, "CG", topic, 0) == ""


def test_a_pushed_reset_moves_forwards_by_force_only(pushing: BrokerThread) -> None:
    with RemotingClient(port_of(pushing)) as client:
        topic = filled(client, "forwards")
        commit(client, "CG_f", topic, 1)
        client.heartbeat("one", "CG_f", {topic: "*"})
        assert offsets_in(reset(client, "CG_f", topic, timestamp=-1, isForce="false")) == {0: 1}
        assert offsets_in(reset(client, "CG_f", topic, timestamp=-1)) == {0: 4}


def test_a_cpp_client_gets_a_pushed_reset_as_a_list(pushing: BrokerThread) -> None:
    with RemotingClient(port_of(pushing)) as java, RemotingClient(port_of(pushing)) as cpp:
        topic = filled(java, "languages")
        commit(java, "CG_lang", topic, 3)
        java.heartbeat("java", "CG_lang", {topic: "*"})
        cpp.language = "CPP"
        cpp.heartbeat("cpp", "CG_lang", {topic: "*"})
        reset(java, "CG_lang", topic)
        assert offsets_in(java.wait_notified(220)) == {0: 0}
        assert bytes(cpp.wait_notified(220).body) == (
            b'{"offsetTable":[{"brokerName":"headrace-0","offset":0,"queueId":0,'
            b'"topic":"languages"}]}'
        )


def test_a_reset_by_push_needs_members_and_offsets(pushing: BrokerThread) -> None:
    with RemotingClient(port_of(pushing)) as client:
        topic = filled(client, "needs", queues=2)
        commit(client, "CG_n", topic, 1, 0)
        none = reset(client, "CG_n", topic)
        assert code(none) is ResponseCode.SYSTEM_ERROR, "queue 1 has no offset"
        assert none.remark == "THe consumer group <CG_n> not exist"
        commit(client, "CG_n", topic, 1, 1)
        offline = reset(client, "CG_n", topic)
        assert code(offline) is ResponseCode.CONSUMER_NOT_ONLINE
