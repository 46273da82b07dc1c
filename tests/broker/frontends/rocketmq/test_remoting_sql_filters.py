"""Pulls that filter by SQL92, through a RocketMQ listener."""

from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.frontends.rocketmq import filters
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.fastjson import FastJson, encode_body
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, code, fields, made


def sent(client: RemotingClient, topic: str, **properties: str) -> None:
    """Send a message with these properties; its body names them."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    body = " ".join(f"{name}={value}" for name, value in properties.items()) or "none"
    assert code(client.send(topic, body.encode(), i=text)) is ResponseCode.SUCCESS


def sql(expression: str, **more: object) -> dict[str, Any]:
    """Return the fields of a pull with its own filter."""
    return {"expressionType": "SQL92", "subscription": expression, **more}


def bodies(answer: RemotingCommand) -> list[str]:
    """Return the bodies of a pull's messages."""
    return [message.body.decode() for message in messages_in(answer)]


def test_sql_filters_and_what_is_passed_over_is_not_read_again(client: RemotingClient) -> None:
    topic = made(client, "sql")
    for a in ("1", "7", "x"):
        sent(client, topic, a=a, TAGS="T")
    sent(client, topic)
    for expression, expected in (
        ("a > 5", ["a=7 TAGS=T"]),
        ("a <> 5", ["a=1 TAGS=T", "a=7 TAGS=T"]),
        ("a IS NULL", ["none"]),
        ("a IS NULL OR a IN ('x')", ["a=x TAGS=T", "none"]),
        ("TAGS = 'T' AND a < 5", ["a=1 TAGS=T"]),
    ):
        answer = client.pull(topic, **sql(expression))
        assert bodies(answer) == expected, expression
        assert fields(answer)["nextBeginOffset"] == "4"
    none = client.pull(topic, **sql("a = 9"))
    assert code(none) is ResponseCode.PULL_RETRY_IMMEDIATELY
    assert fields(none)["nextBeginOffset"] == "4", "a group whose filter is rare moves on"


def test_a_parked_pull_with_sql_waits_for_a_message_that_it_wants(client: RemotingClient) -> None:
    topic = made(client, "sql-parked")
    parked = client.ask_pull(topic, **sql("a > 5", **PARKED))
    sent(client, topic, a="1")
    sent(client, topic, a="7")
    answer = client.answer(parked)
    assert bodies(answer) == ["a=7"]
    assert fields(answer)["nextBeginOffset"] == "2"


def test_a_pull_has_the_sql_of_the_newest_heartbeat(client: RemotingClient) -> None:
    topic = made(client, "sql-beats")
    for a in "1", "7":
        sent(client, topic, a=a)
    own: dict[str, Any] = {
        "sysFlag": 0,
        "consumerGroup": "CG_sql",
        "subVersion": 5,
        "expressionType": "SQL92",
    }
    client.heartbeat("one", "CG_sql", {topic: "a > 5"}, version=5, kind="SQL92")
    assert bodies(client.pull(topic, **own)) == ["a=7"]
    newer = client.pull(topic, **own | {"subVersion": 6})
    assert code(newer) is ResponseCode.SUBSCRIPTION_NOT_LATEST, "the client does not filter itself"
    client.heartbeat("one", "CG_sql", {topic: "a < 5"}, version=6, kind="SQL92")
    assert bodies(client.pull(topic, **own | {"subVersion": 6})) == ["a=1"]


def test_a_change_between_tags_and_sql_never_delivers_unfiltered(client: RemotingClient) -> None:
    topic = made(client, "sql-changes")
    sent(client, topic, a="1", TAGS="T")
    own: dict[str, Any] = {"sysFlag": 0, "consumerGroup": "CG_change"}
    client.heartbeat("one", "CG_change", {topic: "U"}, version=1)
    early = client.pull(topic, **own, subVersion=2, expressionType="SQL92")
    assert code(early) is ResponseCode.SUBSCRIPTION_NOT_LATEST
    client.heartbeat("one", "CG_change", {topic: "a = 2"}, version=2, kind="SQL92")
    early = client.pull(topic, **own, subVersion=3, expressionType="TAG")
    assert code(early) is ResponseCode.SUBSCRIPTION_NOT_LATEST


@pytest.mark.parametrize("expression", ["a >", "*", "a = 'x", "(" * 100 + "a"])
def test_bad_sql_is_refused_in_pulls_and_checks(client: RemotingClient, expression: str) -> None:
    topic = made(client, "sql-bad")
    answer = client.pull(topic, **sql(expression))
    assert code(answer) is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "SQL92 filter, character" in (answer.remark or "")
    assert checked(client, topic, expression, "SQL92") == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    # The heartbeat carries other groups, too: only the pulls of this subscription fail.
    beat = client.heartbeat("one", "CG_bad", {topic: expression}, kind="SQL92")
    assert code(beat) is ResponseCode.SUCCESS
    own: dict[str, Any] = {"sysFlag": 0, "consumerGroup": "CG_bad", "expressionType": "SQL92"}
    assert code(client.pull(topic, **own)) is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    client.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "one", "consumerGroup": "CG_bad"})


def checked(client: RemotingClient, topic: str, expression: str, kind: str) -> int:
    """Return the code of CHECK_CLIENT_CONFIG for a subscription."""
    subscription: FastJson = {
        "topic": topic,
        "subString": expression,
        "expressionType": kind,
    }
    body: FastJson = {"clientId": "c", "group": "g", "subscriptionData": subscription}
    return client.call(RequestCode.CHECK_CLIENT_CONFIG, None, encode_body(body)).code


def test_a_check_accepts_sql_and_tags_and_refuses_other_types(client: RemotingClient) -> None:
    topic = made(client, "sql-checks")
    assert checked(client, topic, "a > 5", "SQL92") == ResponseCode.SUCCESS
    assert checked(client, topic, "A || B", "TAG") == ResponseCode.SUCCESS
    assert checked(client, topic, "a", "CLASS") == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_a_filter_ends_its_read_after_some_steps_and_loses_nothing(
    broker: BrokerThread, client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = made(client, "sql-steps")
    for n in range(6):
        sent(client, topic, a=str(n))
    # One record in a read, on a thread of its own.
    monkeypatch.setattr(filters, "STEPS_MAX", 1)
    monkeypatch.setattr(filters, "STEPS_AT_ONCE", 1)
    offset, found = 0, []
    while offset < 6:
        answer = client.pull(topic, offset, **sql("a IN ('2', '3', '5')"))
        found += bodies(answer)
        offset = int(fields(answer)["nextBeginOffset"])
    assert found == ["a=2", "a=3", "a=5"]
    monkeypatch.setattr("headrace.frontends.rocketmq.pulling.pulls.ROUNDS_MAX", 2)
    rare = client.pull(topic, 0, **sql("a = 9"))
    assert code(rare) is ResponseCode.PULL_RETRY_IMMEDIATELY
    assert fields(rare)["nextBeginOffset"] == "2"


def test_headers_of_kafka_records_are_properties_for_sql(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "sql-kafka")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for size in (b"3", b"30"):
        producer.produce(topic, size, b"k" + size, headers={"size": size})
    assert producer.flush(30) == 0
    assert bodies(client.pull(topic, **sql("size > 5"))) == ["30"]
    assert bodies(client.pull(topic, **sql("KEYS = 'k3'"))) == ["3"]
