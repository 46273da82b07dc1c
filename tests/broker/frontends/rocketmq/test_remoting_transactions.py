"""Transactions: unseen until they are committed, asked about by 39, given up at the limit."""

import time
from pathlib import Path

import pytest

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.message_ids import message_id
from headrace.wire.rocketmq.stored_messages import PulledMessage, decode_messages
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, SETTINGS, code, fields, made, port_of

ADDED = b"MSG_REGION\x01DefaultRegion\x02CLUSTER\x01DefaultCluster\x02TRACE_ON\x01true\x02"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
QUICK = SETTINGS | {
    "rocketmq.transaction.timeout.ms": "200",
    "rocketmq.transaction.check.interval.ms": "300",
}


def half(client: RemotingClient, topic: str, body: bytes, **more: object) -> dict[str, str]:
    """Send a message that is undecided; return the fields of the answer."""
    name = body.decode()
    properties = f"KEYS\x01k\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01{name}\x02PGROUP\x01PG\x02TAGS\x01A"
    answer = client.send(topic, body, **{"i": properties, "f": 4, **more})
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    return fields(answer)


def end(
    client: RemotingClient, sent: dict[str, str], decision: int, **more: object
) -> RemotingCommand:
    """Decide on a message, and have that answered."""
    named: dict[str, object] = {
        "producerGroup": "PG", "tranStateTableOffset": sent["queueOffset"],
        "commitLogOffset": int(sent["msgId"][-16:], 16), "commitOrRollback": decision,
        "fromTransactionCheck": "false", "msgId": sent["transactionId"],
        "transactionId": sent["transactionId"],
    }  # fmt: skip
    return client.call(RequestCode.END_TRANSACTION, named | more)


def pulled(client: RemotingClient, topic: str, count: int) -> list[PulledMessage]:
    """Return the first messages of a topic, waiting for them."""
    found: list[PulledMessage] = []
    while len(found) < count:
        found += messages_in(client.pull(topic, len(found), **PARKED))
    return found


def asked(client: RemotingClient) -> RemotingCommand:
    """Return the next question to a producer."""
    while not client.notified:
        client.receive()
    question = client.notified.pop(0)
    assert question.code == RequestCode.CHECK_TRANSACTION_STATE
    assert question.is_one_way
    return question


def answer_question(client: RemotingClient, question: RemotingCommand, decision: int) -> None:
    """Answer a question as a producer does."""
    named = dict(question.fields or {})
    client.one_way(
        RequestCode.END_TRANSACTION,
        {
            "producerGroup": "PG", "commitLogOffset": named["commitLogOffset"],
            "tranStateTableOffset": named["tranStateTableOffset"], "msgId": named["msgId"],
            "commitOrRollback": decision, "fromTransactionCheck": "true",
            "transactionId": named["transactionId"],
        },
    )  # fmt: skip


def test_a_message_is_unseen_until_its_commit(broker: BrokerThread, client: RemotingClient) -> None:
    topic = made(client, "commits", 2)
    sent = half(client, topic, b"first", e=1, h=7)
    assert (sent["queueId"], sent["transactionId"]) == ("1", "first")
    assert broker.records(topic) == []
    assert fields(client.call(30, {"topic": topic, "queueId": 1})) == {"offset": "0"}
    assert code(client.pull(topic, queueId=1)) is ResponseCode.PULL_NOT_FOUND
    assert code(end(client, sent, COMMIT)) is ResponseCode.SUCCESS
    (message,) = messages_in(client.pull(topic, queueId=1))
    assert (message.body, message.flag, message.system_flag & 0xC) == (b"first", 7, COMMIT)
    assert message.properties == (
        b"KEYS\x01k\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01first\x02PGROUP\x01PG\x02TAGS\x01A\x02"
        b"__transactionId__\x01first\x02" + ADDED
    )
    (record,) = broker.records(topic)
    assert (record.key, record.value) == (b"k", b"first")


@pytest.mark.parametrize("marks", [{"f": 0}, {"i": "UNIQ_KEY\x01half\x02PGROUP\x01PG\x02"}])
def test_the_flag_or_the_property_alone_make_a_message_undecided(
    broker: BrokerThread, client: RemotingClient, marks: dict[str, object]
) -> None:
    topic = made(client, f"marks-{len(marks)}-{'f' in marks}")
    sent = half(client, topic, b"half", **marks)
    assert broker.records(topic) == []
    assert code(end(client, sent, COMMIT)) is ResponseCode.SUCCESS
    assert len(broker.records(topic)) == 1


def test_a_rolled_back_message_is_never_seen(broker: BrokerThread, client: RemotingClient) -> None:
    topic = made(client, "rolls-back")
    sent = half(client, topic, b"gone")
    assert code(end(client, sent, ROLLBACK)) is ResponseCode.SUCCESS
    refused = end(client, sent, COMMIT)
    assert code(refused) is ResponseCode.SYSTEM_ERROR
    assert (refused.remark or "").startswith("no undecided message is at")
    assert broker.records(topic) == []


def test_a_message_committed_twice_is_stored_once(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "twice")
    sent = half(client, topic, b"once")
    named = {"producerGroup": "PG", "commitLogOffset": int(sent["msgId"][-16:], 16),
             "commitOrRollback": COMMIT}  # fmt: skip
    for _ in range(5):
        client.one_way(RequestCode.END_TRANSACTION, named)
    pulled(client, topic, 1)
    assert code(end(client, sent, COMMIT)) is ResponseCode.SYSTEM_ERROR
    assert code(end(client, sent, ROLLBACK)) is ResponseCode.SYSTEM_ERROR
    assert [record.value for record in broker.records(topic)] == [b"once"]


def test_wrong_decisions_are_refused_and_decide_nothing(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "wrong")
    sent = half(client, topic, b"waits")
    plain = fields(client.send(topic, b"plain"))
    place = int(sent["msgId"][-16:], 16)
    for more, remark in (
        ({"producerGroup": "others"}, "The producer group wrong"),
        ({"tranStateTableOffset": int(sent["queueOffset"]) + 1}, "The transaction state table"),
        ({"commitLogOffset": place + 1, "tranStateTableOffset": -1}, "no undecided message"),
        ({"commitLogOffset": int(plain["msgId"][-16:], 16)}, "no undecided message"),
        ({"commitLogOffset": -1}, "physical offset -1 is negative"),
        ({"commitOrRollback": 4}, "commitOrRollback of the request is neither"),
    ):
        refused = end(client, sent, COMMIT, **more)
        assert code(refused) is ResponseCode.SYSTEM_ERROR
        assert (refused.remark or "").startswith(remark)
    assert code(end(client, sent, UNKNOWN)) is ResponseCode.SUCCESS
    assert len(broker.records(topic)) == 1
    assert code(end(client, sent, COMMIT)) is ResponseCode.SUCCESS
    assert [record.value for record in broker.records(topic)] == [b"plain", b"waits"]


def test_an_undecided_message_of_a_batch_or_with_a_decision_is_refused(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "refused")
    for flag in (8, 12):
        assert code(client.send(topic, b"x", f=flag)) is ResponseCode.NO_PERMISSION
    body = b"\0\0\0\x16" + bytes(12) + b"\0\0\0\0" + b"\0\0"
    assert code(client.send(topic, body, m="true", f=4)) is ResponseCode.MESSAGE_ILLEGAL
    assert broker.records(topic) == []


def test_a_committed_message_with_a_delay_waits_for_its_time(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "commits-later")
    properties = "TRAN_MSG\x01true\x02UNIQ_KEY\x01u\x02PGROUP\x01PG\x02TIMER_DELAY_MS\x01400\x02"
    sent = half(client, topic, b"later", i=properties)
    began = time.monotonic()
    assert code(end(client, sent, COMMIT)) is ResponseCode.SUCCESS
    assert broker.records(topic) == []
    pulled(client, topic, 1)
    assert time.monotonic() - began >= 0.4


def test_a_retry_of_a_message_of_a_transaction_is_not_undecided(client: RemotingClient) -> None:
    marked = "TRAN_MSG\x01true\x02UNIQ_KEY\x01u\x02PGROUP\x01PG\x02DELAY\x011\x02"
    assert code(client.send("%RETRY%TG", b"x", i=marked, j=1, l=16)) is ResponseCode.SUCCESS
    (message,) = messages_in(client.pull("%RETRY%TG", consumerGroup="TG", **PARKED))
    assert (message.body, message.reconsume_times) == (b"x", 1)


# Questions


def test_a_lost_decision_is_asked_for(tmp_path: Path) -> None:
    with BrokerThread(QUICK) as broker, RemotingClient(port_of(broker)) as client:
        topic = made(client, "t")
        client.produces("p1", "PG", "CLIENT_INNER_PRODUCER")
        sent = half(client, topic, b"unknown", h=7)
        question = asked(client)
        named = dict(question.fields or {})
        assert named == {
            "bname": "headrace-0", "commitLogOffset": str(int(sent["msgId"][-16:], 16)),
            "topic": "RMQ_SYS_TRANS_HALF_TOPIC", "msgId": "unknown",
            "tranStateTableOffset": sent["queueOffset"], "offsetMsgId": sent["msgId"],
            "transactionId": "unknown",
        }  # fmt: skip
        (message,) = decode_messages(bytes(question.body))
        assert (message.topic, message.queue_id, message.body) == (b"t", 0, b"unknown")
        assert (message.flag, message.queue_offset) == (7, int(sent["queueOffset"]))
        for each in (b"PGROUP\x01PG\x02", b"UNIQ_KEY\x01unknown\x02", b"REAL_TOPIC\x01t\x02"):
            assert each in message.properties
        assert b"TRANSACTION_CHECK_TIMES\x011\x02" in message.properties
        assert message.properties.endswith(b"WAIT\x01false\x02" + ADDED), "as RocketMQ's question"
        answer_question(client, question, UNKNOWN)
        again = asked(client)
        (message,) = decode_messages(bytes(again.body))
        assert b"TRANSACTION_CHECK_TIMES\x012\x02" in message.properties
        answer_question(client, again, COMMIT)
        (stored,) = pulled(client, topic, 1)
        assert stored.body == b"unknown"
        assert b"TRANSACTION_CHECK_TIMES\x012\x02" in stored.properties
        assert b"REAL_TOPIC" not in stored.properties
        assert b"WAIT\x01false" not in stored.properties


def test_another_member_of_the_group_is_asked() -> None:
    with BrokerThread(QUICK) as broker, RemotingClient(port_of(broker)) as other:
        topic = made(other, "t")
        more = "TRAN_MSG\x01true\x02UNIQ_KEY\x01u\x02PGROUP\x01PG\x02"
        with RemotingClient(port_of(broker)) as client:
            client.produces("p1", "PG")
            half(client, topic, b"orphan", i=f"{more}CHECK_IMMUNITY_TIME_IN_SECONDS\x012\x02")
        other.produces("p2", "PG")
        question = asked(other)
        (message,) = decode_messages(bytes(question.body))
        assert b"TRANSACTION_CHECK_TIMES\x011\x02" in message.properties, "asked p2 alone"
        answer_question(other, question, COMMIT)
        assert pulled(other, topic, 1)[0].body == b"orphan"


def test_a_question_waits_until_the_group_is_back() -> None:
    with BrokerThread(QUICK) as broker, RemotingClient(port_of(broker)) as client:
        topic = made(client, "t")
        client.produces("p1", "another")
        half(client, topic, b"waits")
        time.sleep(1)
        assert client.notified == []
        client.produces("p1", "PG")
        question = asked(client)
        (message,) = decode_messages(bytes(question.body))
        assert b"TRANSACTION_CHECK_TIMES\x011\x02" in message.properties
        client.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "p1", "producerGroup": "PG"})
        client.notified.clear()
        time.sleep(1)
        client.call(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
        assert client.notified == []


def test_a_message_is_given_up_after_the_last_question() -> None:
    settings = QUICK | {"rocketmq.transaction.check.max": "2"}
    with BrokerThread(settings) as broker, RemotingClient(port_of(broker)) as client:
        topic = made(client, "t")
        client.produces("p1", "PG")
        sent = half(client, topic, b"given up")
        for _ in range(2):
            asked(client)
        deadline = time.monotonic() + 30
        while "TRANS_CHECK_MAX_TIME_TOPIC" not in broker.topics():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (message,) = pulled(client, "TRANS_CHECK_MAX_TIME_TOPIC", 1)
        assert message.body == b"given up"
        assert b"REAL_TOPIC\x01t\x02" in message.properties
        assert code(end(client, sent, COMMIT)) is ResponseCode.SYSTEM_ERROR
        assert client.notified == []
        assert broker.records(topic) == []
        gauges = broker.call(lambda server: server.broker.metrics.gauges)
        assert gauges["headrace_rocketmq_given_up_messages_total"].read() == 1
        assert gauges["headrace_rocketmq_undecided_messages"].read() == 0

        named = {"msgId": message_id(message.store_host, message.physical_offset)}
        assert code(client.call(RequestCode.RESUME_CHECK_HALF_MESSAGE, named)) is (
            ResponseCode.SUCCESS
        )
        question = asked(client)
        (again,) = decode_messages(bytes(question.body))
        assert b"TRANSACTION_CHECK_TIMES\x011\x02" in again.properties, "counted from the start"
        answer_question(client, question, COMMIT)
        (committed,) = pulled(client, topic, 1)
        assert committed.body == b"given up"
        wrong = {"msgId": message_id(committed.store_host, committed.physical_offset)}
        for refused in (wrong, {"msgId": "none"}):
            answer = client.call(RequestCode.RESUME_CHECK_HALF_MESSAGE, refused)
            assert code(answer) is ResponseCode.SYSTEM_ERROR


def test_the_producer_names_when_it_is_asked_first() -> None:
    with BrokerThread(QUICK) as broker, RemotingClient(port_of(broker)) as client:
        topic = made(client, "t")
        client.produces("p1", "PG")
        more = "TRAN_MSG\x01true\x02UNIQ_KEY\x01{}\x02PGROUP\x01PG\x02"
        half(
            client, topic, b"x", i=more.format("late") + "CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02"
        )
        half(client, topic, b"y", i=more.format("soon"))
        for _ in range(2):
            assert (asked(client).fields or {})["msgId"] == "soon"


def test_undecided_messages_survive_a_restart(tmp_path: Path) -> None:
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        topic = made(client, "t")
        sent = {body: half(client, topic, body) for body in (b"a", b"b", b"c")}
        end(client, sent[b"a"], COMMIT)
        end(client, sent[b"b"], ROLLBACK)
    with (
        BrokerThread(QUICK, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        client.produces("p1", "PG")
        question = asked(client)  # the log is read at the start, not by a request
        assert (question.fields or {})["msgId"] == "c"
        for body in (b"a", b"b"):
            assert code(end(client, sent[body], COMMIT)) is ResponseCode.SYSTEM_ERROR
        answer_question(client, question, COMMIT)
        assert [message.body for message in pulled(client, topic, 2)] == [b"a", b"c"]
