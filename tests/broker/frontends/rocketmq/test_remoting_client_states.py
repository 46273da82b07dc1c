"""Requests of operators that the broker passes on to consumers: 307, 223 and 309."""

import pytest

from headrace.frontends.rocketmq.administration import client_states
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import code, fields, made, port_of

RUNNING = b'{"mqTable":{{"queueId":0}:{"commitOffset":5}},"properties":{}}'


def test_a_consumers_state_is_its_own_answer(broker: BrokerThread, client: RemotingClient) -> None:
    client.heartbeat("one", "CG_state", {"t": "*"})
    asked = {"consumerGroup": "CG_state", "clientId": "one", "jstackEnable": "true"}
    with RemotingClient(port_of(broker)) as operator, RemotingClient(port_of(broker)) as second:
        second.heartbeat("two", "CG_state", {"t": "*"})
        waits = operator.ask(307, asked)
        relayed = client.wait_notified(307)
        assert not relayed.is_one_way
        assert fields(relayed) == asked
        client.reply(relayed, RUNNING, code=1, remark="a remark")
        answer = operator.answer(waits)
        assert (answer.code, bytes(answer.body), answer.remark) == (1, RUNNING, "a remark")
        assert not [each for each in second.notified if each.code == 307]


def test_a_state_of_a_client_that_is_no_member_is_refused(client: RemotingClient) -> None:
    client.heartbeat("one", "CG_none", {"t": "*"})
    for group, client_id in (("CG_none", "two"), ("CG_other", "one")):
        asked = {"consumerGroup": group, "clientId": client_id}
        answer = client.call(307, asked)
        assert code(answer) is ResponseCode.SYSTEM_ERROR
        assert answer.remark == f"The Consumer <{group}> <{client_id}> not online"


def test_a_client_that_does_not_answer_is_reported(
    broker: BrokerThread, client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_states, "RUNNING_SECONDS", 0.1)
    client.heartbeat("one", "CG_silent", {"t": "*"})
    asked = {"consumerGroup": "CG_silent", "clientId": "one"}
    with RemotingClient(port_of(broker)) as operator:
        answer = operator.call(307, asked)
        assert code(answer) is ResponseCode.CONSUME_MSG_TIMEOUT
        client.reply(client.wait_notified(307), b"late")
        monkeypatch.setattr(client_states, "RUNNING_SECONDS", 10.0)
        waits = operator.ask(307, asked)
        client.reply(client.wait_notified(307), b"in time")
        assert bytes(operator.answer(waits).body) == b"in time"


def test_a_client_that_disconnects_is_reported_at_once(broker: BrokerThread) -> None:
    with RemotingClient(port_of(broker)) as operator:
        with RemotingClient(port_of(broker)) as leaving:
            leaving.heartbeat("one", "CG_gone", {"t": "*"})
            waits = operator.ask(307, {"consumerGroup": "CG_gone", "clientId": "one"})
            leaving.wait_notified(307)
        answer = operator.answer(waits, 5)
    assert code(answer) is ResponseCode.SYSTEM_ERROR
    assert "closed its connection" in (answer.remark or "")


def test_a_client_answers_requests_of_two_operators_by_their_numbers(
    broker: BrokerThread, client: RemotingClient
) -> None:
    client.heartbeat("one", "CG_two", {"t": "*"})
    asked = {"consumerGroup": "CG_two", "clientId": "one"}
    with RemotingClient(port_of(broker)) as first, RemotingClient(port_of(broker)) as second:
        waits = first.ask(307, asked | {"jstackEnable": "true"})
        relayed_first = client.wait_notified(307)
        waits_second = second.ask(307, asked | {"jstackEnable": "false"})
        relayed_second = client.wait_notified(307)
        client.reply(relayed_second, b"of the second")
        client.reply(relayed_first, b"of the first")
        client.reply(relayed_first, b"again")
        assert bytes(first.answer(waits).body) == b"of the first"
        assert bytes(second.answer(waits_second).body) == b"of the second"


def test_offsets_in_the_memory_of_members_are_collected(
    broker: BrokerThread, client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_states, "STATUS_SECONDS", 1.0)
    asked = {"topic": "t", "group": "CG_offsets"}
    none = client.call(223, asked)
    assert code(none) is ResponseCode.SYSTEM_ERROR
    assert none.remark == "No Any Consumer online in the consumer group: [CG_offsets]"
    table = b'{"consumerTable":{},"messageQueueTable":{{"queueId":0,"topic":"t"}:7}}'
    with (
        RemotingClient(port_of(broker)) as operator,
        RemotingClient(port_of(broker)) as silent,
        RemotingClient(port_of(broker)) as wrong,
    ):
        client.heartbeat("one", "CG_offsets", {"t": "*"})
        silent.heartbeat("silent", "CG_offsets", {"t": "*"})
        wrong.heartbeat("wrong", "CG_offsets", {"t": "*"})
        waits = operator.ask(223, asked)
        relayed = client.wait_notified(221)
        assert fields(relayed) == asked
        client.reply(relayed, table)
        wrong.reply(wrong.wait_notified(221), b"{not json")
        expected = b'{"consumerTable":{"one":{{"queueId":0,"topic":"t"}:7}},"messageQueueTable":{}}'
        assert bytes(operator.answer(waits).body) == expected
        waits = operator.ask(223, asked | {"clientAddr": "one"})
        client.reply(client.wait_notified(221), b"")
        assert bytes(operator.answer(waits).body) == (
            b'{"consumerTable":{},"messageQueueTable":{}}'
        )
        for other in (silent, wrong):
            other.call(105, {"topic": "t"})
            asked_codes = [each.code for each in other.notified]
            assert asked_codes.count(221) == (other is silent), "it was not asked again"


def test_a_consumer_is_given_a_message_and_its_result_is_the_answer(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "directly")
    message_id = fields(client.send(topic, b"again", i="TAGS\x01A\x02"))["msgId"]
    client.heartbeat("one", "CG_directly", {topic: "*"})
    asked = {"consumerGroup": "CG_directly", "clientId": "one", "msgId": message_id}
    with RemotingClient(port_of(broker)) as operator:
        waits = operator.ask(309, asked)
        relayed = client.wait_notified(309)
        assert fields(relayed) == asked | {"brokerName": "headrace-0"}
        (message,) = messages_in(relayed)
        assert message.body == b"again"
        client.reply(relayed, b'{"consumeResult":"CR_SUCCESS"}')
        assert bytes(operator.answer(waits).body) == b'{"consumeResult":"CR_SUCCESS"}'
        for wrong in (
            {"clientId": "two"}, {"msgId": "none"}, {"msgId": message_id[:-4] + "FFFF"},
        ):  # fmt: skip
            assert code(operator.call(309, asked | wrong)) is ResponseCode.SYSTEM_ERROR
