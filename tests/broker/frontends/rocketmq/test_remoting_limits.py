"""Bounds of connections, pulls and memberships of a RocketMQ listener; deleted topics."""

import time
from collections.abc import Iterator

import pytest

from headrace.frontends.rocketmq import session
from headrace.frontends.rocketmq.pulling import plans, pulls
from headrace.subscriptions import members
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, SETTINGS, code, fields, made, port_of

WAIT_SECONDS = 0.3


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerThread]:
    """A broker with small bounds."""
    monkeypatch.setattr(session, "REQUESTS_MAX", 4)
    monkeypatch.setattr(session, "EXPIRY_SECONDS", 0.05)
    monkeypatch.setattr(members, "HEARTBEAT_SECONDS_MAX", 1.0)
    for module in (plans, pulls):
        monkeypatch.setattr(module, "READ_BYTES", 2000)
    monkeypatch.setattr(pulls, "ROUNDS_MAX", 3)
    monkeypatch.setattr(plans, "MESSAGES_MAX", 5)
    with BrokerThread(SETTINGS) as broker:
        yield broker


def test_a_connection_with_many_requests_is_read_again_when_some_are_answered(
    narrow: BrokerThread,
) -> None:
    with RemotingClient(port_of(narrow)) as client, RemotingClient(port_of(narrow)) as other:
        made(other, "t")
        parked = [client.ask_pull("t", **PARKED) for _ in range(4)]
        fifth = client.ask(7777)
        with pytest.raises(TimeoutError):
            client.answer(fifth, WAIT_SECONDS)
        assert code(other.send("t")) is ResponseCode.SUCCESS, "other connections go on"
        for opaque in parked:
            assert len(messages_in(client.answer(opaque))) == 1
        assert code(client.answer(fifth)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        for _ in range(20):
            assert client.call(7777).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_finished_one_way_requests_are_not_counted(narrow: BrokerThread) -> None:
    with RemotingClient(port_of(narrow)) as client:
        made(client, "t")
        for _ in range(20):
            client.one_way(
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {"consumerGroup": "CG", "topic": "t", "queueId": 0, "commitOffset": 1},
            )
        assert code(client.call(7777)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_a_member_without_heartbeats_leaves_and_the_others_hear_of_it(
    narrow: BrokerThread,
) -> None:
    with RemotingClient(port_of(narrow)) as silent, RemotingClient(port_of(narrow)) as other:
        silent.heartbeat("a", "CG", {"t": "*"})
        deadline = time.monotonic() + 20
        listed = b""
        while listed != b'{"consumerIdList":["b"]}':
            assert time.monotonic() < deadline, listed
            other.heartbeat("b", "CG", {"t": "*"})
            time.sleep(0.05)
            listed = bytes(other.call(38, {"consumerGroup": "CG"}).body)
        assert len(other.notified) == 2, "its own joining, and the leaving"


def test_a_pull_whose_filter_wants_nothing_is_sent_back_after_some_reads(
    narrow: BrokerThread,
) -> None:
    with RemotingClient(port_of(narrow)) as client:
        made(client, "t")
        for _ in range(10):
            client.send("t", bytes(1500), i="TAGS\x01A\x02")
        client.send("t", b"wanted", i="TAGS\x01B\x02")
        offset, codes = 0, []
        while True:
            answer = client.pull("t", offset, subscription="B", **PARKED)
            codes.append(code(answer))
            if codes[-1] is not ResponseCode.PULL_RETRY_IMMEDIATELY:
                break
            assert int(fields(answer)["nextBeginOffset"]) > offset
            offset = int(fields(answer)["nextBeginOffset"])
        assert [message.body for message in messages_in(answer)] == [b"wanted"]
        assert len(codes) > 2


def test_a_pull_has_a_greatest_number_of_messages_and_bytes(narrow: BrokerThread) -> None:
    with RemotingClient(port_of(narrow)) as client:
        made(client, "t")
        for number in range(12):
            client.send("t", bytes(10 if number < 6 else 900))
        found = [
            len(messages_in(client.pull("t", offset, maxMsgNums=1000, maxMsgBytes=bytes_max)))
            for offset, bytes_max in ((0, 1 << 30), (0, 1), (6, 1 << 30), (5, 300))
        ]
        assert found == [5, 1, 1, 1]
        assert len(messages_in(client.pull("t", 0, maxMsgNums=2))) == 2
        assert len(messages_in(client.pull("t", 0, maxMsgNums=-1))) == 1


def test_a_parked_pull_of_a_deleted_topic_is_answered(narrow: BrokerThread) -> None:
    named = {"consumerGroup": "CG", "topic": "t", "queueId": 0}
    with RemotingClient(port_of(narrow)) as client:
        made(client, "t")
        client.send("t")
        client.call(15, named | {"commitOffset": 1})
        parked = client.ask_pull("t", 1, **PARKED)
        client.call(7777)
        narrow.run(lambda server: server.controller.delete_topics(["t"]))
        answer = client.answer(parked)
        assert code(answer) in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SERVICE_NOT_AVAILABLE)
        assert code(client.pull("t")) is ResponseCode.TOPIC_NOT_EXIST
        made(client, "t")
        assert code(client.call(14, named)) is ResponseCode.QUERY_NOT_FOUND
        assert fields(client.send("t"))["queueOffset"] == "0"


def test_pulls_of_a_client_that_does_not_read_wait_until_it_does(broker: BrokerThread) -> None:
    with RemotingClient(port_of(broker)) as client:
        made(client, "unread")
        client.send("unread", bytes(1 << 20))
        opaques = [client.ask_pull("unread") for _ in range(48)]
        time.sleep(0.5)
        for opaque in opaques:
            (message,) = messages_in(client.answer(opaque))
            assert len(message.body) == 1 << 20
        assert code(client.send("unread")) is ResponseCode.SUCCESS
