"""Replies between clients (324, 325): pushed to the requester, and stored."""

import json

import pytest

from headrace.frontends.rocketmq import replies
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.properties import decode_properties
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import code, fields, port_of

TOPIC = "DefaultCluster_REPLY_TOPIC"


def online(client: RemotingClient, client_id: str) -> None:
    """Send the heartbeat of a producer."""
    body = {"clientID": client_id, "producerDataSet": [{"groupName": "PG"}]}
    assert code(client.call(34, {}, json.dumps(body).encode())) is ResponseCode.SUCCESS


def ask_reply(client: RemotingClient, to: str, body: bytes = b"answer", **more: object) -> int:
    """Send a reply, without waiting for the answer; return its opaque."""
    named: dict[str, object] = {
        "a": "PG_rep", "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1795861087252,
        "h": 0, "i": f"MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01{to}\x02CORRELATION_ID\x01c1\x02",
        "j": 0, "k": "false", "m": "false",
    }  # fmt: skip
    return client.ask(325, named | more, body)


def test_a_reply_is_pushed_to_its_requester_and_stored(
    broker: BrokerThread, client: RemotingClient
) -> None:
    route = json.loads(bytes(client.call(105, {"topic": TOPIC}).body))["queueDatas"][0]
    assert (route["readQueueNums"], route["writeQueueNums"], route["perm"]) == (1, 1, 6)
    online(client, "requester")
    with RemotingClient(port_of(broker)) as replier, RemotingClient(port_of(broker)) as other:
        online(other, "other")
        waits = ask_reply(replier, "requester")
        pushed = client.wait_notified(326)
        assert bytes(pushed.body) == b"answer"
        assert not pushed.is_one_way
        named = fields(pushed)
        assert (named["topic"], named["producerGroup"], named["bornTimestamp"]) == (
            TOPIC, "PG_rep", "1795861087252",
        )  # fmt: skip
        properties = decode_properties(named["properties"].encode())
        assert properties["CORRELATION_ID"] == "c1"
        assert properties["MSG_REGION"] == "DefaultRegion"
        assert properties["PUSH_REPLY_TIME"].isdigit()
        assert waits not in replier.arrived, "the requester has not acknowledged it"
        client.reply(pushed)
        answer = replier.answer(waits)
        assert code(answer) is ResponseCode.SUCCESS, answer.remark
        assert "transactionId" not in fields(answer), "as RocketMQ"
        offset = int(fields(answer)["queueOffset"])
        assert not [each for each in other.notified if each.code == 326]
    (stored, *_) = messages_in(client.pull(TOPIC, offset))
    assert stored.body == b"answer"


def test_the_newest_connection_of_a_client_gets_the_reply(broker: BrokerThread) -> None:
    with (
        RemotingClient(port_of(broker)) as old,
        RemotingClient(port_of(broker)) as new,
        RemotingClient(port_of(broker)) as replier,
    ):
        online(old, "moving")
        online(new, "moving")
        old._socket.close()
        waits = ask_reply(replier, "moving", b"to the new one")
        pushed = new.wait_notified(326)
        assert bytes(pushed.body) == b"to the new one"
        new.reply(pushed)
        assert code(replier.answer(waits)) is ResponseCode.SUCCESS


def test_a_reply_to_a_client_that_is_not_there_is_refused(
    broker: BrokerThread, client: RemotingClient
) -> None:
    with RemotingClient(port_of(broker)) as leaving:
        online(leaving, "leaving")
    for to in ("nobody", "leaving"):
        refused = client.answer(ask_reply(client, to))
        assert code(refused) is ResponseCode.SYSTEM_ERROR
        assert refused.remark == f"push reply message fail, channel of <{to}> not found."


def test_a_reply_that_is_not_acknowledged_is_refused_and_not_stored(
    broker: BrokerThread, client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "PUSH_SECONDS", 0.2)
    online(client, "silent")
    with RemotingClient(port_of(broker)) as replier:
        before = fields(client.call(30, {"topic": TOPIC, "queueId": 0}))
        late = replier.answer(ask_reply(replier, "silent"))
        assert code(late) is ResponseCode.CONSUME_MSG_TIMEOUT
        client.wait_notified(326)
        monkeypatch.setattr(replies, "PUSH_SECONDS", 20.0)
        waits = ask_reply(replier, "silent")
        client.reply(client.wait_notified(326), code=1)
        refused = replier.answer(waits)
        assert code(refused) is ResponseCode.SYSTEM_ERROR
        assert refused.remark == "push reply message to silent fail."
        assert fields(client.call(30, {"topic": TOPIC, "queueId": 0})) == before


@pytest.mark.parametrize(
    ("more", "body", "expected"),
    [
        ({"i": "MSG_TYPE\x01reply\x02"}, b"x", ResponseCode.SYSTEM_ERROR),
        ({"b": "orders"}, b"x", ResponseCode.INVALID_PARAMETER),
        ({"b": "%RETRY%g"}, b"x", ResponseCode.INVALID_PARAMETER),
        ({}, b"", ResponseCode.SYSTEM_ERROR),
        ({"d": "x"}, b"x", ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_reply_of_a_bad_form_is_refused(
    client: RemotingClient, more: dict[str, object], body: bytes, expected: ResponseCode
) -> None:
    online(client, "requester")
    assert code(client.answer(ask_reply(client, "requester", body, **more))) is expected
