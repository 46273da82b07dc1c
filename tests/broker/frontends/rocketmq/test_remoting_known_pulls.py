"""Pulls in a form that the connection has sent before: what has changed since counts."""

from headrace.frontends.rocketmq.pulling.known_pulls import FORMS_MAX
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from tests.support.rocketmq.client import PULL_FIELDS, RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, code, fields, loaded, made, served


def known(client: RemotingClient, topic: str, **named: object) -> None:
    """Pull a first message until the form of the pull is known, and a queue has its checks."""
    for _ in range(3):
        answer = client.pull(topic, 0, **named)
        assert code(answer) is ResponseCode.SUCCESS, answer.remark
        assert len(messages_in(answer)) == 1


def test_a_group_that_is_switched_off_pulls_nothing_more(client: RemotingClient) -> None:
    topic = made(client, "known_group")
    client.send(topic)
    known(client, topic, consumerGroup="CG_known")
    for on, expected in (("false", ResponseCode.NO_PERMISSION), ("true", ResponseCode.SUCCESS)):
        body = f'{{"groupName":"CG_known","consumeEnable":{on}}}'.encode()
        assert code(client.call(200, {}, body)) is ResponseCode.SUCCESS
        for _ in range(2):
            assert code(client.pull(topic, consumerGroup="CG_known")) is expected


def test_a_topic_that_is_deleted_and_created_again_is_the_new_one(client: RemotingClient) -> None:
    topic = made(client, "known_topic")
    client.send(topic, b"old")
    known(client, topic)
    deleted = client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    assert code(deleted) is ResponseCode.SUCCESS
    assert code(client.pull(topic)) is ResponseCode.TOPIC_NOT_EXIST
    made(client, topic, queues=2)
    client.send(topic, b"new")
    for _ in range(3):
        assert [message.body for message in messages_in(client.pull(topic))] == [b"new"]


def test_queues_that_are_added_or_hidden_are_pulled_or_refused(client: RemotingClient) -> None:
    topic = made(client, "known_queues")
    client.send(topic)
    known(client, topic)
    assert code(client.pull(topic, queueId=1)) is ResponseCode.INVALID_PARAMETER
    made(client, topic, queues=2)
    assert code(client.pull(topic, queueId=1)) is ResponseCode.PULL_NOT_FOUND
    made(client, topic, queues=1)
    assert code(client.pull(topic, queueId=1)) is ResponseCode.INVALID_PARAMETER


def test_a_newer_subscription_filters_the_next_pull(client: RemotingClient) -> None:
    topic = made(client, "known_tags")
    client.send(topic, b"A", i="TAGS\x01A\x02")
    client.send(topic, b"B", i="TAGS\x01B\x02")
    named = {"sysFlag": 0, "consumerGroup": "CG_tags", "subscription": ""}
    for version, tag in enumerate(("A", "B", "A"), 1):
        client.heartbeat("c1", "CG_tags", {topic: tag}, version=version)
        for _ in range(3):
            found = messages_in(client.pull(topic, 0, **named))
            assert [message.body for message in found] == [tag.encode()]
    client.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": "CG_tags"})
    assert code(client.pull(topic, 0, **named)) is ResponseCode.SUBSCRIPTION_NOT_EXIST


def test_an_offset_that_comes_with_a_known_pull_is_stored(client: RemotingClient) -> None:
    topic = made(client, "known_offsets")
    client.send(topic)
    loaded(client, "CG_offsets", topic)
    known(client, topic, sysFlag=5, commitOffset=0, consumerGroup="CG_offsets")
    named = {"consumerGroup": "CG_offsets", "topic": topic, "queueId": 0}
    client.pull(topic, sysFlag=5, commitOffset=1, consumerGroup="CG_offsets")
    assert fields(client.call(14, named))["offset"] == "1"
    client.pull(topic, sysFlag=5, commitOffset=-1, consumerGroup="CG_offsets")
    assert fields(client.call(14, named))["offset"] == "1"


def test_a_known_pull_waits_and_is_answered_by_a_send(client: RemotingClient) -> None:
    topic = made(client, "known_parked")
    client.send(topic)
    known(client, topic, **PARKED)
    parked = client.ask_pull(topic, 1, **PARKED)
    client.send(topic, b"wakes it")
    assert [message.body for message in messages_in(client.answer(parked))] == [b"wakes it"]


def test_known_pulls_out_of_the_queue_name_the_next_offset(client: RemotingClient) -> None:
    topic = made(client, "known_edges")
    client.send(topic)
    known(client, topic)
    for offset, expected, following in (
        (1, ResponseCode.PULL_NOT_FOUND, "1"),
        (2, ResponseCode.PULL_OFFSET_MOVED, "1"),
        (-1, ResponseCode.PULL_OFFSET_MOVED, "0"),
    ):
        answer = client.pull(topic, offset)
        assert code(answer) is expected
        assert fields(answer)["nextBeginOffset"] == following


def test_more_forms_than_are_kept_are_answered(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topics = [made(client, f"known_many_{number}") for number in range(FORMS_MAX + 2)]
    for topic in topics:
        client.send(topic, topic.encode())
    counted = broker.call(lambda server: served(server).counts.requests[RequestCode.PULL_MESSAGE])
    for _ in range(3):
        for topic in topics:
            (message,) = messages_in(client.pull(topic))
            assert message.body == topic.encode()
    after = broker.call(lambda server: served(server).counts.requests[RequestCode.PULL_MESSAGE])
    assert after - counted == 3 * len(topics)


def test_a_one_way_pull_has_no_answer(client: RemotingClient) -> None:
    topic = made(client, "known_one_way")
    client.send(topic)
    before = len(client.arrived)
    named = {**PULL_FIELDS, "topic": topic, "queueOffset": 0}
    for _ in range(3):
        client.one_way(RequestCode.PULL_MESSAGE, named)
    known(client, topic)
    assert len(client.arrived) == before + 3
