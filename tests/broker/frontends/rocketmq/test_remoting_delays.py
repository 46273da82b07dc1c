"""Delayed messages: levels, times, recalls, and what Kafka's clients see of them."""

import time
from pathlib import Path

from headrace.model.nouns import TopicPartition
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.batch_bodies import BatchedMessage
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.delays import (
    RecallHandle,
    decode_recall_handle,
    encode_recall_handle,
)
from headrace.wire.rocketmq.stored_messages import PulledMessage
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, SETTINGS, code, fields, made, port_of

ADDED = b"MSG_REGION\x01DefaultRegion\x02CLUSTER\x01DefaultCluster\x02TRACE_ON\x01true\x02"


def delayed(
    client: RemotingClient, topic: str, body: bytes, ms: int, **more: object
) -> RemotingCommand:
    """Send a message that is due later."""
    properties = f"UNIQ_KEY\x01{body.decode()}\x02TIMER_DELAY_MS\x01{ms}\x02"
    return client.send(topic, body, **{"i": properties, **more})


def pulled(client: RemotingClient, topic: str, count: int) -> list[PulledMessage]:
    """Return the first messages of a topic, waiting for them."""
    found: list[PulledMessage] = []
    while len(found) < count:
        found += messages_in(client.pull(topic, len(found), **PARKED))
    return found


def test_a_level_delays_a_message_for_all_clients(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "level")
    before_ms = time.time() * 1000
    answer = client.send(topic, b"later", i="UNIQ_KEY\x01u\x02KEYS\x01k\x02DELAY\x011\x02", h=7)
    sent = fields(answer)
    assert code(answer) is ResponseCode.SUCCESS
    assert (sent["queueId"], sent["transactionId"]) == ("0", "u")
    assert "recallHandle" not in sent
    assert broker.records(topic) == []
    assert code(client.pull(topic)) is ResponseCode.PULL_NOT_FOUND
    (message,) = pulled(client, topic, 1)
    assert message.stored_at_ms - before_ms >= 1000
    assert (message.flag, message.born_at_ms) == (7, 1795860860391)
    assert message.properties == (
        b"UNIQ_KEY\x01u\x02KEYS\x01k\x02DELAY\x011\x02REAL_TOPIC\x01level\x02REAL_QID\x010\x02"
        + ADDED
    )
    (record,) = broker.records(topic)
    assert (record.key, record.value) == (b"k", b"later")


def test_messages_are_delivered_in_the_order_of_their_times(client: RemotingClient) -> None:
    topic = made(client, "ordered")
    client.send(topic, b"delays are loaded", i="UNIQ_KEY\x01u\x02DELAY\x0118\x02")
    now_ms = int(time.time() * 1000)
    for body, ms in ((b"third", 1000), (b"first", 600), (b"second", 800)):
        at = f"UNIQ_KEY\x01{body.decode()}\x02TIMER_DELIVER_MS\x01{now_ms + ms}\x02"
        assert code(client.send(topic, body, i=at)) is ResponseCode.SUCCESS
    bodies = [message.body for message in pulled(client, topic, 3)]
    assert bodies == [b"first", b"second", b"third"]


def test_a_delayed_message_goes_to_its_queue(client: RemotingClient) -> None:
    topic = made(client, "queues", 3)
    assert fields(delayed(client, topic, b"x", 50, e=2))["queueId"] == "2"
    (message,) = messages_in(client.pull(topic, queueId=2, **PARKED))
    assert (message.body, message.queue_id) == (b"x", 2)
    assert b"REAL_QID\x012\x02" in message.properties


def test_a_time_answers_with_a_handle_and_stores_when_it_is_due(client: RemotingClient) -> None:
    topic = made(client, "timed")
    handle = decode_recall_handle(fields(delayed(client, topic, b"u", 300))["recallHandle"])
    assert (handle.topic, handle.broker_name, handle.unique_key) == ("timed", "headrace-0", "u")
    (message,) = pulled(client, topic, 1)
    assert b"TIMER_OUT_MS\x01%d\x02REAL_TOPIC" % handle.due_ms in message.properties
    assert message.stored_at_ms >= handle.due_ms


def test_a_time_that_has_passed_is_no_delay(client: RemotingClient) -> None:
    topic = made(client, "past")
    answer = client.send(topic, b"x", i="UNIQ_KEY\x01u\x02TIMER_DELIVER_MS\x011795861092183\x02")
    assert "recallHandle" not in fields(answer)
    assert messages_in(client.pull(topic))[0].properties == (
        b"UNIQ_KEY\x01u\x02TIMER_DELIVER_MS\x011795861092183\x02" + ADDED
    )


def test_delays_beyond_the_limit_and_wrong_ones_are_illegal(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "illegal")
    answer = client.send(topic, b"x", i="TIMER_DELAY_SEC\x012592000\x02")
    assert code(answer) is ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark == (
        "timer message illegal, the delay time should not be bigger than the max delay"
        " 259200000ms; or if set del msg, the delay time should be bigger than the current time"
    )
    for wrong in ("TIMER_DELAY_MS\x01soon\x02", "DELAY\x01x\x02"):
        assert code(client.send(topic, b"x", i=wrong)) is ResponseCode.MESSAGE_ILLEGAL
    batch = [BatchedMessage(0, b"a", b""), BatchedMessage(0, b"b", b"DELAY\x011\x02")]
    assert code(client.send_batch(topic, batch)) is ResponseCode.MESSAGE_ILLEGAL
    assert broker.records(topic) == []


def test_the_longest_delay_is_a_setting() -> None:
    with (
        BrokerThread(SETTINGS | {"rocketmq.timer.max.delay.seconds": "1"}) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        topic = made(client, "t")
        assert code(delayed(client, topic, b"x", 1000)) is ResponseCode.SUCCESS
        assert code(delayed(client, topic, b"x", 1001)) is ResponseCode.MESSAGE_ILLEGAL


def test_a_one_way_send_is_delayed_too(client: RemotingClient) -> None:
    topic = made(client, "one-way-later")
    named = {
        "a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 0, "h": 0,
        "i": "TIMER_DELAY_MS\x01100\x02", "j": 0, "k": "false", "m": "false",
    }  # fmt: skip
    client.ask(RequestCode.SEND_MESSAGE_V2, named, b"x", flag=2)
    assert [message.body for message in pulled(client, topic, 1)] == [b"x"]


def test_delayed_messages_survive_a_restart_and_are_delivered_at_the_start(
    tmp_path: Path,
) -> None:
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        topic = made(client, "later")
        delayed(client, topic, b"soon", 200)
        delayed(client, topic, b"far", 3_600_000)
        pulled(client, topic, 1)
        delayed(client, topic, b"down", 600)
    time.sleep(0.6)
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        assert [message.body for message in pulled(client, topic, 2)] == [b"soon", b"down"]
        assert len(broker.records(topic)) == 2


def test_retention_and_compaction_are_free_to_work_on_the_protocols_topics(
    tmp_path: Path,
) -> None:
    def held(broker: BrokerThread, topic: str) -> int | None:
        place = TopicPartition(topic, 0)
        return broker.call(lambda server: server.broker.directories[0].holds.first(place))

    for _ in range(2):
        with (
            BrokerThread(SETTINGS, directory=str(tmp_path)) as broker,
            RemotingClient(port_of(broker)) as client,
        ):
            retry = {"j": 17, "l": 16, "i": "UNIQ_KEY\x01u\x02"}
            client.send("%RETRY%G", b"dead", **retry)
            delayed(client, made(client, "t"), b"later", 3_600_000)
            for topic in ("__rocketmq.delays", "__rocketmq..25DLQ.25G"):
                assert held(broker, topic) is None
            assert held(broker, "__rocketmq.unknown") == 0
            config = broker.call(
                lambda server: server.broker.image.topics["__rocketmq.delays"].config
            )
            assert config["cleanup.policy"] == "compact"


def test_a_delay_is_refused_while_its_log_cannot_be_made_and_stored_later() -> None:
    settings = {"partitions.max": "3", "offsets.topic.num.partitions": "1"}
    with (
        BrokerThread(SETTINGS | settings) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        topic, other = made(client, "t"), made(client, "other")
        assert code(delayed(client, topic, b"x", 50)) is ResponseCode.NO_PERMISSION
        assert code(client.send(topic, b"now")) is ResponseCode.SUCCESS
        assert len(broker.records(topic)) == 1
        deleted = client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": other})
        assert code(deleted) is ResponseCode.SUCCESS
        assert code(delayed(client, topic, b"later", 50)) is ResponseCode.SUCCESS
        assert [each.body for each in pulled(client, topic, 2)] == [b"now", b"later"]


def test_delayed_messages_of_a_deleted_topic_are_discarded_and_counted() -> None:
    with BrokerThread(SETTINGS) as broker, RemotingClient(port_of(broker)) as client:
        topic = made(client, "gone")
        delayed(client, topic, b"x", 500)
        gauges = broker.call(lambda server: server.broker.metrics.gauges)
        assert gauges["headrace_rocketmq_delayed_messages"].read() == 1
        client.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        deadline = time.monotonic() + 30
        while gauges["headrace_rocketmq_discarded_messages_total"].read() == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert gauges["headrace_rocketmq_delayed_messages"].read() == 0


# Recall


def recall(client: RemotingClient, topic: str, handle: str) -> RemotingCommand:
    """Recall a message."""
    named = {"producerGroup": "PG", "topic": topic, "recallHandle": handle}
    return client.call(RequestCode.RECALL_MESSAGE, named)


def test_a_recall_is_forbidden_by_default(client: RemotingClient) -> None:
    topic = made(client, "kept")
    handle = fields(delayed(client, topic, b"x", 200))["recallHandle"]
    answer = recall(client, topic, handle)
    assert code(answer) is ResponseCode.NO_PERMISSION
    assert answer.remark == "recall failed, operation is forbidden"
    assert fields(answer) == {"MSG_REGION": "DefaultRegion"}
    assert len(pulled(client, topic, 1)) == 1


def test_a_recalled_message_is_not_delivered_and_its_neighbours_are(tmp_path: Path) -> None:
    settings = SETTINGS | {"rocketmq.recall.message.enable": "true"}
    with (
        BrokerThread(settings, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        topic = made(client, "recalls")
        delayed(client, topic, b"before", 800)
        answer = delayed(client, topic, b"recalled", 900)
        handle = fields(answer)["recallHandle"]
        delayed(client, topic, b"behind", 1000)
        recalled = recall(client, topic, handle)
        assert code(recalled) is ResponseCode.SUCCESS
        assert fields(recalled) == {"msgId": "recalled", "MSG_REGION": "DefaultRegion"}
        assert recalled.remark == "not set any response code", "as RocketMQ"
        assert code(recall(client, topic, handle)) is ResponseCode.ILLEGAL_OPERATION
        bodies = [message.body for message in pulled(client, topic, 2)]
        assert bodies == [b"before", b"behind"]
    with (
        BrokerThread(settings, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        delayed(client, topic, b"last", 50)
        assert [message.body for message in pulled(client, topic, 3)][2] == b"last"


def test_a_recall_of_what_is_not_there_is_an_error() -> None:
    settings = SETTINGS | {"rocketmq.recall.message.enable": "true"}
    with BrokerThread(settings) as broker, RemotingClient(port_of(broker)) as client:
        topic = made(client, "t")
        made(client, "other")
        soon = int(time.time() * 1000) + 5000
        handle = RecallHandle(topic, "headrace-0", soon, "nobody")
        answer = recall(client, topic, encode_recall_handle(handle))
        assert (code(answer), answer.remark) == (
            ResponseCode.ILLEGAL_OPERATION,
            "recall failed, no such message waits",
        )
        sent = fields(delayed(client, topic, b"x", 300))["recallHandle"]
        found = decode_recall_handle(sent)
        for wrong, remark in (
            (found._replace(unique_key="y"), "no such message waits"),
            (found._replace(due_ms=found.due_ms + 1), "no such message waits"),
            (found._replace(topic="other"), "topic not match"),
            (found._replace(broker_name="broker-a"), "broker service not available"),
            (found._replace(due_ms=1), "timestamp invalid"),
            (found._replace(due_ms=found.due_ms + (1 << 50)), "timestamp invalid"),
        ):
            answer = recall(client, topic, encode_recall_handle(wrong))
            assert answer.remark == f"recall failed, {remark}"
            assert code(answer) is ResponseCode.ILLEGAL_OPERATION
        assert code(recall(client, topic, "bm9wZQ")) is ResponseCode.ILLEGAL_OPERATION
        assert code(recall(client, "gone", sent)) is ResponseCode.TOPIC_NOT_EXIST
        assert len(pulled(client, topic, 1)) == 1
        late = recall(client, topic, sent)
        assert code(late) is ResponseCode.ILLEGAL_OPERATION, "it is delivered"
