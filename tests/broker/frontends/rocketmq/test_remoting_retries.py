"""Messages that consumers send back: retried after a level, dead at the limit, their ids kept."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.delays import LEVEL_SECONDS
from headrace.wire.rocketmq.fastjson import FastJson, encode_body
from headrace.wire.rocketmq.message_ids import message_id
from headrace.wire.rocketmq.stored_messages import PulledMessage
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import (
    PARKED,
    SETTINGS,
    code,
    fields,
    log_records,
    made,
    port_of,
)

ADDED = b"MSG_REGION\x01DefaultRegion\x02CLUSTER\x01DefaultCluster\x02TRACE_ON\x01true\x02"
BACK = RequestCode.CONSUMER_SEND_MSG_BACK


def only(answer: RemotingCommand) -> PulledMessage:
    """Return the only message of a pull."""
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    (message,) = messages_in(answer)
    return message


def sent(client: RemotingClient, topic: str, **more: object) -> PulledMessage:
    """Send a message and pull it."""
    properties = "UNIQ_KEY\x01u1\x02KEYS\x01k\x02größe\x013\x02"
    offset = int(fields(client.send(topic, b"poison", i=properties, **more))["queueOffset"])
    return only(client.pull(topic, offset))


def back(
    client: RemotingClient, physical: int, group: str, level: int = 1, **more: object
) -> RemotingCommand:
    """Send a message back; return the answer."""
    named: dict[str, object] = {
        "group": group, "offset": physical, "delayLevel": level, "originMsgId": "u1",
        "originTopic": "t", "unitMode": "false", "maxReconsumeTimes": 16,
    }  # fmt: skip
    return client.call(BACK, named | more)


def dead(client: RemotingClient, group: str, offset: int = 0) -> PulledMessage:
    """Return a dead letter of a group."""
    return only(client.pull(f"%DLQ%{group}", offset, consumerGroup=group))


def due_after_s(broker: BrokerThread) -> float:
    """Return the delay of the newest message in the log of delays."""
    found = log_records(broker, "__rocketmq.delays")
    kept = [record for record in found if record.value is not None]
    key = kept[-1].key or b""
    return (int.from_bytes(key[:8]) - kept[-1].timestamp) / 1000


def test_a_message_sent_back_comes_to_the_retry_topic_after_its_level(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "failing")
    first = sent(client, topic, h=7)
    answer = back(client, first.physical_offset, "G1")
    assert (code(answer), answer.fields, answer.remark) == (ResponseCode.SUCCESS, None, None)
    assert code(client.pull("%RETRY%G1", consumerGroup="G1")) is ResponseCode.PULL_NOT_FOUND
    again = only(client.pull("%RETRY%G1", consumerGroup="G1", **PARKED))
    assert again.topic == b"%RETRY%G1"
    assert again.stored_at_ms - first.stored_at_ms >= 1000
    assert (again.reconsume_times, again.flag, again.body) == (1, 7, b"poison")
    assert (again.born_at_ms, again.born_host) == (first.born_at_ms, first.born_host)
    host = message_id(first.store_host, first.physical_offset).encode()
    assert again.properties == (
        "UNIQ_KEY\x01u1\x02KEYS\x01k\x02größe\x013\x02".encode()
        + b"RETRY_TOPIC\x01failing\x02DELAY\x011\x02"
        + b"ORIGIN_MESSAGE_ID\x01" + host + b"\x02WAIT\x01false\x02"
        + b"REAL_TOPIC\x01%RETRY%G1\x02REAL_QID\x010\x02" + ADDED
    )  # fmt: skip
    (record,) = broker.records("__rocketmq..25RETRY.25G1")
    assert (record.key, record.value) == (b"k", b"poison")


def test_the_second_attempt_keeps_topic_and_id_of_the_first(client: RemotingClient) -> None:
    first = sent(client, made(client, "failing-twice"))
    back(client, first.physical_offset, "G2")
    once = only(client.pull("%RETRY%G2", consumerGroup="G2", **PARKED))
    back(client, once.physical_offset, "G2")
    twice = only(client.pull("%RETRY%G2", 1, consumerGroup="G2", **PARKED))
    assert twice.reconsume_times == 2
    origin = message_id(first.store_host, first.physical_offset).encode()
    assert b"RETRY_TOPIC\x01failing-twice\x02" in twice.properties
    assert b"ORIGIN_MESSAGE_ID\x01" + origin + b"\x02" in twice.properties
    assert twice.properties.count(b"DELAY\x01") == 1
    back(client, twice.physical_offset, "G2", maxReconsumeTimes=2)
    letter = dead(client, "G2")
    assert letter.reconsume_times == 3
    assert b"ORIGIN_MESSAGE_ID\x01" + origin + b"\x02" in letter.properties
    assert b"DELAY\x010\x02" in letter.properties
    assert letter.properties.startswith("UNIQ_KEY\x01u1\x02KEYS\x01k\x02größe\x013\x02".encode())


@pytest.mark.parametrize(
    ("group", "level", "limit", "attempts"),
    [
        ("D1", -1, 16, 0),
        ("D2", 1, 0, 0),
        ("D3", 3, 2, 2),
        ("D4", 0, 16, 16),
        ("D5", 1, 9, 2147483647),
    ],
)
def test_a_negative_level_or_the_limit_makes_a_dead_letter_at_once(
    broker: BrokerThread, client: RemotingClient, group: str, level: int, limit: int, attempts: int
) -> None:
    message = sent(client, made(client, f"to-{group}"), j=attempts)
    answer = back(client, message.physical_offset, group, level, maxReconsumeTimes=limit)
    assert code(answer) is ResponseCode.SUCCESS
    letter = dead(client, group)
    assert letter.body == b"poison"
    assert letter.reconsume_times == min(attempts + 1, 2147483647)
    assert len(broker.records(f"__rocketmq..25DLQ.25{group}")) == 1
    route = client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": f"%DLQ%{group}"})
    assert b'"perm":6,"readQueueNums":1' in bytes(route.body)
    topics = broker.call(lambda server: [*server.broker.image.topics])
    assert f"__rocketmq..25RETRY.25{group}" not in topics, "made with its first message"


def test_the_limit_is_16_without_the_clients(client: RemotingClient) -> None:
    topic = made(client, "no-limit")
    for attempts, is_dead in ((15, False), (16, True)):
        physical = sent(client, topic, j=attempts).physical_offset
        named = {"group": f"L{attempts}", "offset": physical, "delayLevel": 1}
        assert code(client.call(BACK, named)) is ResponseCode.SUCCESS
        found = client.call(30, {"topic": f"%DLQ%L{attempts}", "queueId": 0})
        assert fields(found)["offset"] == str(int(is_dead))


def test_the_limit_is_the_groups_own_if_the_client_names_none(client: RemotingClient) -> None:
    topic = made(client, "group-limit")
    settings: FastJson = {"groupName": "LO", "retryMaxTimes": 2}
    answer = client.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, encode_body(settings))
    assert code(answer) is ResponseCode.SUCCESS
    for attempts, letters in ((1, 0), (2, 1)):
        physical = sent(client, topic, j=attempts).physical_offset
        client.call(BACK, {"group": "LO", "offset": physical, "delayLevel": 1})
        found = client.call(30, {"topic": "%DLQ%LO", "queueId": 0})
        assert fields(found)["offset"] == str(letters)
    assert code(retried(client, "LO", j=3)) is ResponseCode.SUCCESS
    assert fields(client.call(30, {"topic": "%DLQ%LO", "queueId": 0}))["offset"] == "2"


@pytest.mark.parametrize(
    ("level", "attempts", "counted"),
    [(0, 0, 3), (0, 2, 5), (0, 40, 18), (4, 2, 4), (99, 0, 18), (0, -7, 3)],
)
def test_a_retry_waits_for_its_level_or_for_3_and_the_attempts(
    broker: BrokerThread, client: RemotingClient, level: int, attempts: int, counted: int
) -> None:
    message = sent(client, made(client, f"levels-{level}-{attempts}"), j=attempts)
    back(client, message.physical_offset, "GL", level, maxReconsumeTimes=100)
    delay = due_after_s(broker)
    assert LEVEL_SECONDS[counted - 1] - 1 < delay <= LEVEL_SECONDS[counted - 1]


def test_places_without_a_message_are_refused(broker: BrokerThread, client: RemotingClient) -> None:
    topic = made(client, "found")
    physical = sent(client, topic).physical_offset
    back(client, physical, "GN", 5)
    for wrong in (physical + 1, 12345678901, -1, 1 << 50, 1 << 62):
        answer = back(client, wrong, "GX")
        assert code(answer) is ResponseCode.SYSTEM_ERROR
        assert answer.remark == f"look message by offset failed, {wrong}"
    held = broker.call(lambda server: server.broker.image.topics["__rocketmq.delays"])
    assert held.internal
    assert code(client.pull("__rocketmq.delays")) is ResponseCode.INVALID_PARAMETER


def test_a_delayed_message_is_not_sent_back_from_the_log_of_delays(client: RemotingClient) -> None:
    topic = made(client, "waits")
    waiting = fields(client.send(topic, b"later", i="UNIQ_KEY\x01w\x02DELAY\x0118\x02"))
    physical = int(waiting["msgId"][-16:], 16)
    answer = back(client, physical, "GW")
    assert code(answer) is ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"look message by offset failed, {physical}"


def test_a_group_with_a_long_name_does_not_exist(client: RemotingClient) -> None:
    message = sent(client, made(client, "long-group"))
    answer = back(client, message.physical_offset, "L" * 128)
    assert code(answer) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert (answer.remark or "").startswith("subscription group not exist, LLL")
    for missing in ("group", "offset"):
        named = {"group": "G", "offset": message.physical_offset, "delayLevel": 1}
        del named[missing]
        assert code(client.call(BACK, named)) is ResponseCode.SYSTEM_ERROR


def test_a_record_of_a_kafka_producer_is_sent_back(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "kafkas")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"v", b"key", headers={"colour": b"red"})
    assert producer.flush(30) == 0
    message = only(client.pull(topic))
    assert code(back(client, message.physical_offset, "GK", -1)) is ResponseCode.SUCCESS
    letter = dead(client, "GK")
    assert letter.body == b"v"
    assert letter.properties.startswith(b"KEYS\x01key\x02colour\x01red\x02RETRY_TOPIC\x01kafkas")
    (record,) = broker.records("__rocketmq..25DLQ.25GK")
    assert (record.key, record.value) == (b"key", b"v")


def test_an_undecided_record_is_not_sent_back(broker: BrokerThread, client: RemotingClient) -> None:
    topic = made(client, "undecided")
    first = sent(client, topic).physical_offset
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "back"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    assert producer.flush(30) == 0
    assert code(back(client, first + 1, "GU", -1)) is ResponseCode.SYSTEM_ERROR
    producer.abort_transaction(30)
    client.send(topic, b"behind")
    assert code(back(client, first + 1, "GU", -1)) is ResponseCode.SYSTEM_ERROR
    assert code(back(client, first + 3, "GU", -1)) is ResponseCode.SUCCESS


def test_properties_without_room_are_refused_and_nothing_is_stored(client: RemotingClient) -> None:
    topic = made(client, "full")
    large = "UNIQ_KEY\x01u\x02a\x01" + "x" * (32767 - 15) + "\x02"
    offset = int(fields(client.send(topic, b"full", i=large))["queueOffset"])
    message = only(client.pull(topic, offset))
    answer = back(client, message.physical_offset, "GF", -1)
    assert code(answer) is ResponseCode.MESSAGE_ILLEGAL
    assert fields(client.call(30, {"topic": "%DLQ%GF", "queueId": 0}))["offset"] == "0"
    nearly = large.replace("x" * 60, "", 1)
    offset = int(fields(client.send(topic, b"nearly", i=nearly))["queueOffset"])
    message = only(client.pull(topic, offset))
    assert code(back(client, message.physical_offset, "GF", -1)) is ResponseCode.SUCCESS
    assert dead(client, "GF").properties.startswith(nearly.encode() + b"RETRY_TOPIC\x01full\x02")


def test_messages_sent_back_at_once_by_a_new_group_are_all_stored(client: RemotingClient) -> None:
    physical = sent(client, made(client, "at-once")).physical_offset
    named = {"group": "GM", "offset": physical}
    asked = [client.ask(BACK, named | {"delayLevel": level}) for level in (-1, 1) * 10]
    assert {code(client.answer(opaque)) for opaque in asked} == {ResponseCode.SUCCESS}
    letters = messages_in(client.pull("%DLQ%GM", consumerGroup="GM"))
    assert len(letters) == 10
    found: list[PulledMessage] = []
    while len(found) < 10:
        found += messages_in(client.pull("%RETRY%GM", len(found), consumerGroup="GM", **PARKED))
    assert len(found) == 10


# A consumer's own sends


def retried(client: RemotingClient, group: str, **more: object) -> RemotingCommand:
    """Send a message to a retry topic as a consumer does whose send back has failed."""
    properties = "UNIQ_KEY\x01u\x02RETRY_TOPIC\x01t\x02ORIGIN_MESSAGE_ID\x01o\x02DELAY\x011\x02"
    return client.send(f"%RETRY%{group}", b"again", **{"i": properties, "e": 3, **more})


def test_a_consumers_own_retry_is_delivered_after_its_level(client: RemotingClient) -> None:
    assert code(retried(client, "F1", j=1, l=16)) is ResponseCode.SUCCESS
    again = only(client.pull("%RETRY%F1", consumerGroup="F1", **PARKED))
    assert (again.body, again.reconsume_times, again.queue_id) == (b"again", 1, 0)
    assert again.properties.startswith(
        b"UNIQ_KEY\x01u\x02RETRY_TOPIC\x01t\x02ORIGIN_MESSAGE_ID\x01o\x02DELAY\x011\x02REAL_TOPIC"
    )


@pytest.mark.parametrize(
    ("group", "attempts", "limit", "is_dead"),
    [("F2", 3, 2, True), ("F3", 2, 2, False), ("F4", 17, None, True), ("F5", 16, None, False)],
)
def test_a_consumers_own_retry_above_the_limit_is_dead(
    client: RemotingClient, group: str, attempts: int, limit: int | None, is_dead: bool
) -> None:
    more = {} if limit is None else {"l": limit}
    assert code(retried(client, group, j=attempts, **more)) is ResponseCode.SUCCESS
    found = client.call(30, {"topic": f"%DLQ%{group}", "queueId": 0})
    assert fields(found)["offset"] == str(int(is_dead))
    if is_dead:
        letter = dead(client, group)
        assert letter.properties.startswith(b"UNIQ_KEY\x01u\x02RETRY_TOPIC\x01t\x02ORIGIN")
        assert b"DELAY\x01-1\x02" in letter.properties
        assert letter.reconsume_times == attempts


def test_a_retry_of_a_group_that_consumes_in_order_is_dead(client: RemotingClient) -> None:
    queue: FastJson = {"topic": "t", "brokerName": "headrace-0", "queueId": 0}
    body = encode_body({"consumerGroup": "F6", "clientId": "c", "mqSet": [queue]})
    assert code(client.call(RequestCode.LOCK_BATCH_MQ, {}, body)) is ResponseCode.SUCCESS
    retried(client, "F6", j=1, l=16)
    assert dead(client, "F6").body == b"again"
    assert code(client.call(RequestCode.UNLOCK_BATCH_MQ, {}, body)) is ResponseCode.SUCCESS
    retried(client, "F6", j=1, l=16)
    found = client.call(30, {"topic": "%DLQ%F6", "queueId": 0})
    assert fields(found)["offset"] == "1"


def test_a_dead_letter_topic_is_not_made_by_a_producer(client: RemotingClient) -> None:
    assert code(client.send("%DLQ%nobody", b"x")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(client.send("%RETRY%", b"x")) is ResponseCode.INVALID_PARAMETER


# Offsets, restarts


@pytest.mark.parametrize("rule", ["off", "new-queue", "5", "4.9"])
def test_a_group_without_an_offset_begins_with_its_first_retry(rule: str) -> None:
    with (
        BrokerThread(SETTINGS | {"rocketmq.zero.offset.rule": rule}) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        retried(client, "B", j=1, l=16, i="UNIQ_KEY\x01u\x02")
        named = {"consumerGroup": "B", "topic": "%RETRY%B", "queueId": 0}
        assert fields(client.call(RequestCode.QUERY_CONSUMER_OFFSET, named)) == {"offset": "0"}


def test_a_message_pulled_before_a_restart_is_sent_back_after_it(tmp_path: Path) -> None:
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        message = sent(client, made(client, "before"))
        other = sent(client, made(client, "other"))
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as broker,
        RemotingClient(port_of(broker)) as client,
    ):
        answer = back(client, 1 << 50, "R", -1)
        assert answer.remark == f"look message by offset failed, {1 << 50}"
        for each in (message, other):
            assert code(back(client, each.physical_offset, "R", -1)) is ResponseCode.SUCCESS
        letters = messages_in(client.pull("%DLQ%R", consumerGroup="R"))
        topics = [letter.properties.split(b"\x02")[3] for letter in letters]
        assert topics == [b"RETRY_TOPIC\x01before", b"RETRY_TOPIC\x01other"]


# Kafka's administrators


def test_kafkas_admin_deletes_and_purges_group_topics_but_no_log_of_delays(
    broker: BrokerThread, client: RemotingClient
) -> None:
    physical = sent(client, made(client, "administered")).physical_offset
    for level in (-1, -1, 18):
        back(client, physical, "GA", level)
    letters = "__rocketmq..25DLQ.25GA"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with pytest.raises(KafkaException) as refused:
        admin.delete_topics(["__rocketmq.delays"])["__rocketmq.delays"].result(30)
    assert refused.value.args[0].code() == KafkaError.POLICY_VIOLATION
    purge = admin.delete_records([TopicPartition("__rocketmq.delays", 0, -1)])
    with pytest.raises(KafkaException):
        next(iter(purge.values())).result(30)
    purged = admin.delete_records([TopicPartition(letters, 0, 1)])
    assert next(iter(purged.values())).result(30).low_watermark == 1
    assert dead(client, "GA", 1).body == b"poison"
    admin.delete_topics([letters])[letters].result(30)
    assert code(client.pull("%DLQ%GA", consumerGroup="GA")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(back(client, physical, "GA", -1)) is ResponseCode.SUCCESS
    assert dead(client, "GA").body == b"poison"
