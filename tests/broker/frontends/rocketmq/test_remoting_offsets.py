"""Offsets of groups and queues through a RocketMQ listener."""

import json
import time
from pathlib import Path

import pytest

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from tests.support.processes.process import headrace
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import SETTINGS, code, fields, loaded, made, port_of, served


def test_an_offset_is_stored_as_said_and_minus_one_removes_it(client: RemotingClient) -> None:
    topic = made(client, "offsets")
    client.send(topic)
    named = {"consumerGroup": "CG_off", "topic": topic, "queueId": 0}
    for offset in (4, 1, 9999):
        assert code(client.call(15, named | {"commitOffset": offset})) is ResponseCode.SUCCESS
        assert fields(client.call(14, named)) == {"offset": str(offset)}
    assert code(client.call(15, named | {"commitOffset": -1})) is ResponseCode.SUCCESS
    assert fields(client.call(14, named)) == {"offset": "0"}, "the young queue"
    none = client.call(14, named | {"setZeroIfNotFound": "false"})
    assert code(none) is ResponseCode.QUERY_NOT_FOUND


def test_an_offset_of_what_does_not_exist_is_not_found(client: RemotingClient) -> None:
    topic = made(client, "empty")
    named = {"consumerGroup": "CG_none", "topic": topic, "queueId": 0}
    assert code(client.call(14, named)) is ResponseCode.QUERY_NOT_FOUND, "no record yet"
    assert code(client.call(14, named | {"topic": "never"})) is ResponseCode.QUERY_NOT_FOUND
    assert code(client.call(14, named | {"queueId": 99})) is ResponseCode.QUERY_NOT_FOUND
    unknown = named | {"topic": "never", "commitOffset": 1}
    refused = client.call(15, unknown)
    assert code(refused) is ResponseCode.TOPIC_NOT_EXIST
    assert refused.remark == "Topic never not exist!"
    absent = named | {"queueId": 99, "commitOffset": 1}
    assert code(client.call(15, absent)) is ResponseCode.SUCCESS


def test_a_pull_commits_the_offset_that_it_carries(client: RemotingClient) -> None:
    topic = made(client, "carried")
    client.send(topic)
    named = {"consumerGroup": "CG_carried", "topic": topic, "queueId": 0}
    client.pull(topic, consumerGroup="CG_carried", sysFlag=5, commitOffset=1)
    assert fields(client.call(14, named)) == {"offset": "1"}
    client.pull(topic, consumerGroup="CG_carried", sysFlag=4, commitOffset=0)
    assert fields(client.call(14, named)) == {"offset": "1"}


def test_an_answered_offset_survives_a_restart(tmp_path: Path) -> None:
    named = {"consumerGroup": "CG", "topic": "t", "queueId": 0}
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as first,
        RemotingClient(port_of(first)) as client,
    ):
        made(client, "t")
        client.send("t")
        for offset in range(20):
            client.call(15, named | {"commitOffset": offset})
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as second,
        RemotingClient(port_of(second)) as client,
    ):
        loaded(client, "CG", "t")
        assert fields(client.call(14, named)) == {"offset": "19"}


@pytest.mark.parametrize(
    ("rule", "found"), [("5", True), ("4.9", True), ("new-queue", False), ("off", False)]
)
def test_a_new_group_of_a_young_queue_begins_by_the_rule(rule: str, found: bool) -> None:
    with (
        BrokerThread(SETTINGS | {"rocketmq.zero.offset.rule": rule}) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        made(client, "t")
        client.send("t")
        answer = client.call(14, {"consumerGroup": "new", "topic": "t", "queueId": 0})
        expected = ResponseCode.SUCCESS if found else ResponseCode.QUERY_NOT_FOUND
        assert code(answer) is expected


@pytest.mark.parametrize("known_by", ["offset", "heartbeat", "nothing"])
def test_a_queue_added_later_is_read_from_its_first_offset_by_new_queue(
    tmp_path: Path, known_by: str
) -> None:
    settings = SETTINGS | {"rocketmq.zero.offset.rule": "new-queue"}
    group = {"consumerGroup": "CG", "topic": "t"}
    with (
        BrokerThread(settings, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        made(client, "t", 1)
        client.send("t")
        if known_by == "offset":
            client.call(15, group | {"queueId": 0, "commitOffset": 1})
        elif known_by == "heartbeat":
            client.heartbeat("one", "CG", {"t": "*"})
        time.sleep(0.05)
        made(client, "t", 2)
        assert code(client.send("t", e=1)) is ResponseCode.SUCCESS
        expected = ResponseCode.QUERY_NOT_FOUND if known_by == "nothing" else ResponseCode.SUCCESS
        assert code(client.call(14, group | {"queueId": 1})) is expected
        new = {"consumerGroup": "later", "topic": "t", "queueId": 1}
        assert code(client.call(14, new)) is ResponseCode.QUERY_NOT_FOUND
    if known_by == "offset":
        with (
            BrokerThread(settings, directory=str(tmp_path)) as broker,
            RemotingClient(port_of(broker)) as client,
        ):
            loaded(client, "CG", "t")
            assert code(client.call(14, group | {"queueId": 1})) is ResponseCode.SUCCESS


def test_offsets_of_queues_by_time_and_by_end(client: RemotingClient) -> None:
    topic = made(client, "times")
    queue: dict[str, object] = {"topic": topic, "queueId": 0}
    assert fields(client.call(32, queue)) == {"timestamp": "-1"}
    client.send(topic)
    time.sleep(0.02)
    (stored,) = messages_in(client.pull(topic))
    client.send(topic)
    at = stored.stored_at_ms
    for timestamp, boundary, expected in (
        (0, "LOWER", 0), (at, "LOWER", 0), (at + 1, "LOWER", 1), (at + 10**9, "LOWER", 2),
        (at, "upper", 0), (at + 10**9, "UPPER", 1), (0, "upper", 0),
    ):  # fmt: skip
        asked = queue | {"timestamp": timestamp, "boundaryType": boundary}
        assert fields(client.call(29, asked)) == {"offset": str(expected)}, (timestamp, boundary)
    assert fields(client.call(30, queue)) == {"offset": "2"}
    assert fields(client.call(31, queue)) == {"offset": "0"}
    assert fields(client.call(32, queue)) == {"timestamp": str(at)}
    assert fields(client.call(30, {"topic": "never", "queueId": 0})) == {"offset": "0"}


def test_the_command_shows_offsets_and_lag_of_a_group(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "shown")
    client.send(topic)
    client.send(topic)
    client.call(15, {"consumerGroup": "CG_shown", "topic": topic, "queueId": 0, "commitOffset": 1})
    shown = headrace(broker.bootstrap, "group", "describe", "CG_shown", "--json")
    (group,) = json.loads(shown)
    (row,) = [each for each in group["partitions"] if each["topic"] == topic]
    assert (row["committed_offset"], row["end_offset"], row["lag"]) == (1, 2, 1)


@pytest.mark.parametrize("used_by", ["heartbeat", "pull", "send back"])
def test_a_group_that_a_client_has_used_exists_after_a_restart(
    tmp_path: Path, used_by: str
) -> None:
    """RocketMQ creates it, too (autoCreateSubscriptionGroup), and stores it."""
    named = {"consumerGroup": "CG", "topic": "t", "queueId": 0, "commitOffset": 1}
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        made(client, "t")
        client.send("t")
        if used_by == "heartbeat":
            client.heartbeat("one", "CG", {"t": "*"})
        elif used_by == "pull":
            client.pull("t", consumerGroup="CG")
        else:
            (sent,) = messages_in(client.pull("t", consumerGroup="other"))
            back = {"offset": sent.physical_offset, "group": "CG", "delayLevel": 1,
                    "originMsgId": "", "originTopic": "t"}  # fmt: skip
            assert code(client.call(36, back)) is ResponseCode.SUCCESS
        while broker.call(lambda server: len(served(server)._working)):
            pass  # the group is stored beside its requests
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        loaded(client, "CG", "t")
        client.begins_groups = False
        assert code(client.call(15, named)) is ResponseCode.SUCCESS
        assert fields(client.call(14, named)) == {"offset": "1"}
        refused = client.call(15, named | {"consumerGroup": "CG_unused"})
        assert code(refused) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        listed = json.loads(bytes(client.call(201).body))["subscriptionGroupTable"]
        assert "CG" in listed
        deleted = client.call(207, {"groupName": "CG", "cleanOffset": "true"})
        assert code(deleted) is ResponseCode.SUCCESS
        assert code(client.call(15, named)) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_an_offset_of_a_group_that_does_not_exist_is_refused(client: RemotingClient) -> None:
    topic = made(client, "no-group")
    client.begins_groups = False
    named = {"consumerGroup": "CG_refused", "topic": topic, "queueId": 0, "commitOffset": 1}
    refused = client.call(15, named)
    assert code(refused) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert refused.remark == "Group CG_refused not exist!"
    client.pull(topic, consumerGroup="CG_refused")  # creates the group, as a heartbeat does
    assert code(client.call(15, named)) is ResponseCode.SUCCESS
    assert code(client.call(207, {"groupName": "CG_refused", "cleanOffset": "true"})) is (
        ResponseCode.SUCCESS
    )
    assert code(client.call(15, named)) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    client.heartbeat("client", "CG_beats", {topic: "*"})
    assert code(client.call(15, named | {"consumerGroup": "CG_beats"})) is ResponseCode.SUCCESS
