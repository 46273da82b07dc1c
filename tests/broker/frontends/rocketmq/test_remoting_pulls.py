"""Pulls through a RocketMQ listener: offsets, filters, parked pulls."""

import time
from typing import Any

import pytest

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, code, fields, made


@pytest.mark.parametrize(
    ("offset", "expected", "following"),
    [
        (3, ResponseCode.PULL_NOT_FOUND, "3"),
        (4, ResponseCode.PULL_OFFSET_MOVED, "3"),
        (-1, ResponseCode.PULL_OFFSET_MOVED, "0"),
        (2, ResponseCode.SUCCESS, "3"),
    ],
)
def test_a_pull_out_of_the_queue_names_the_next_offset(
    client: RemotingClient, offset: int, expected: ResponseCode, following: str
) -> None:
    topic = "edges"
    if code(client.call(105, {"topic": topic})) is not ResponseCode.SUCCESS:
        made(client, topic)
        for _ in range(3):
            client.send(topic)
    answer = client.pull(topic, offset)
    assert code(answer) is expected
    assert fields(answer)["nextBeginOffset"] == following
    assert (fields(answer)["minOffset"], fields(answer)["maxOffset"]) == ("0", "3")


def test_a_pull_of_a_queue_or_topic_that_does_not_exist_is_refused(client: RemotingClient) -> None:
    topic = made(client, "pulled")
    assert code(client.pull("never")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(client.pull("__consumer_offsets")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(client.pull(topic, queueId=1)) is ResponseCode.INVALID_PARAMETER
    assert code(client.pull(topic, consumerGroup="a b")) is ResponseCode.INVALID_PARAMETER


def test_a_parked_pull_is_answered_by_a_send_and_holds_none_back(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "parked")
    parked = client.ask_pull(topic, **PARKED)
    assert fields(client.send(topic, b"wakes it"))["queueOffset"] == "0"
    assert [message.body for message in messages_in(client.answer(parked))] == [b"wakes it"]
    assert client.arrived.index(parked) == len(client.arrived) - 1


def test_a_parked_pull_is_answered_when_its_time_is_over(client: RemotingClient) -> None:
    topic = made(client, "late")
    begin = time.monotonic()
    answer = client.pull(topic, sysFlag=6, suspendTimeoutMillis=300)
    assert code(answer) is ResponseCode.PULL_NOT_FOUND
    assert 0.25 < time.monotonic() - begin < 10.0


def test_a_pull_that_may_not_wait_is_answered_at_once(client: RemotingClient) -> None:
    topic = made(client, "hurried")
    answer = client.pull(topic, sysFlag=4, suspendTimeoutMillis=20_000)
    assert (code(answer), answer.remark) == (ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
    client.send(topic)
    assert client.pull(topic, 1).remark == "OFFSET_OVERFLOW_ONE"


def test_tags_filter_and_what_is_passed_over_is_not_read_again(client: RemotingClient) -> None:
    topic = made(client, "tagged")
    for tag in ("A", "B", "AaAa", "BBBB", ""):
        client.send(topic, tag.encode() or b"none", i=f"TAGS\x01{tag}\x02" if tag else "")
    for text, bodies in (
        ("A", [b"A"]),
        ("A || B", [b"A", b"B"]),
        ("AaAa", [b"AaAa"]),
        ("*", [b"A", b"B", b"AaAa", b"BBBB", b"none"]),
    ):
        answer = client.pull(topic, subscription=text)
        assert [message.body for message in messages_in(answer)] == bodies
        assert fields(answer)["nextBeginOffset"] == "5"
    rare = client.pull(topic, subscription="C")
    assert (code(rare), rare.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert fields(rare)["nextBeginOffset"] == "5"
    late = client.pull(topic, sysFlag=6, suspendTimeoutMillis=100, subscription="C")
    assert code(late) is ResponseCode.PULL_RETRY_IMMEDIATELY
    assert code(client.pull(topic, 5, subscription="C")) is ResponseCode.PULL_NOT_FOUND


def test_a_parked_pull_with_a_tag_waits_for_its_tag(client: RemotingClient) -> None:
    topic = made(client, "waiting")
    parked = client.ask_pull(topic, subscription="B", **PARKED)
    client.send(topic, b"other", i="TAGS\x01A\x02")
    client.send(topic, b"wanted", i="TAGS\x01B\x02")
    answer = client.answer(parked)
    assert [message.body for message in messages_in(answer)] == [b"wanted"]
    assert fields(answer)["nextBeginOffset"] == "2"


def test_a_pull_without_its_own_filter_has_that_of_the_heartbeat(client: RemotingClient) -> None:
    topic = made(client, "subscribed")
    client.send(topic, b"a", i="TAGS\x01A\x02")
    client.send(topic, b"b", i="TAGS\x01B\x02")
    own: dict[str, Any] = {"sysFlag": 0, "consumerGroup": "CG_sub", "subVersion": 5}
    cases: list[tuple[dict[str, str], str]] = [
        ({}, "group info"), ({"other": "*"}, "subscription"),
    ]  # fmt: skip
    for known, text in cases:
        if known:
            client.heartbeat("one", "CG_sub", known)
        refused = client.pull(topic, **own)
        assert code(refused) is ResponseCode.SUBSCRIPTION_NOT_EXIST
        assert (refused.remark or "").startswith(f"the consumer's {text} not exist")
    client.heartbeat("one", "CG_sub", {topic: "B"}, version=5)
    assert [message.body for message in messages_in(client.pull(topic, **own))] == [b"b"]
    newer = client.pull(topic, **{**own, "subVersion": 6})
    assert [message.body for message in messages_in(newer)] == [b"a", b"b"], "its filter may differ"
