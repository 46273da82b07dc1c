"""A broker with a listener for RocketMQ, called by frames: sends, pulls, offsets, groups."""

import socket
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from confluent_kafka import Consumer, Producer

from headrace.testing import BrokerThread
from headrace.wire.rocketmq.batch_bodies import BatchedMessage
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.commands import RemotingCommand, encode_command
from headrace.wire.rocketmq.fastjson import decode_body, encode_body
from headrace.wire.rocketmq.frames import Serialization
from headrace.wire.rocketmq.message_ids import physical_offset_of, place_of
from tests.support.rocketmq.client import RemotingClient, messages_in

SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:0,ROCKETMQ://127.0.0.1:0"}
PARKED = {"sysFlag": 6, "suspendTimeoutMillis": 20_000}


def port_of(broker: BrokerThread) -> int:
    """Return the port of the listener for RocketMQ."""
    return broker.call(lambda server: server.listeners[1].port)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """A broker for Kafka and RocketMQ."""
    with BrokerThread(SETTINGS) as made:
        yield made


@pytest.fixture
def client(broker: BrokerThread) -> Iterator[RemotingClient]:
    """A connection to it."""
    with RemotingClient(port_of(broker)) as made:
        yield made


def code(answer: RemotingCommand) -> ResponseCode:
    """Return the code of an answer."""
    return ResponseCode(answer.code)


def fields(answer: RemotingCommand) -> dict[str, str]:
    """Return the fields of an answer."""
    return dict(answer.fields or {})


def made(client: RemotingClient, topic: str, queues: int = 1) -> str:
    """Create a topic and return its name."""
    answer = client.call(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {"topic": topic, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6},
    )
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    return topic


# Routes and topics


def test_a_send_creates_the_topic_with_the_queues_that_it_asks_for(client: RemotingClient) -> None:
    asked = {"topic": "auto"}
    assert code(client.call(105, asked)) is ResponseCode.TOPIC_NOT_EXIST
    pattern = decode_body(client.call(105, {"topic": "TBW102"}).body)
    assert isinstance(pattern, dict)
    assert pattern["queueDatas"][0]["readQueueNums"] == 8  # type: ignore[index,call-overload]
    answer = client.send("auto", b"first", e=3)
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    assert fields(answer)["queueId"] == "3"
    route = decode_body(client.call(105, asked).body)
    assert isinstance(route, dict)
    (queues,) = route["queueDatas"]  # type: ignore[misc]
    assert queues == {
        "brokerName": "headrace-0", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0,
        "writeQueueNums": 4,
    }  # fmt: skip


def test_a_route_names_the_address_of_the_listener(
    broker: BrokerThread, client: RemotingClient
) -> None:
    made(client, "routed", 3)
    address = f"127.0.0.1:{port_of(broker)}"
    assert b'"brokerAddrs":{"0":"%s"}' % address.encode() in bytes(
        client.call(105, {"topic": "routed"}).body
    )
    with RemotingClient(port_of(broker), version=317) as older:
        assert b'"brokerAddrs":{0:"%s"}' % address.encode() in bytes(
            older.call(105, {"topic": "routed"}).body
        )


def test_a_topic_grows_and_never_shrinks(client: RemotingClient) -> None:
    for queues, expected in ((2, 2), (4, 4), (3, 4)):
        made(client, "grown", queues)
        assert b'"readQueueNums":%d' % expected in bytes(
            client.call(105, {"topic": "grown"}).body
        )


@pytest.mark.parametrize("topic", ["a b", "a.b", "x" * 128, "%RETRY%g", "TBW102"])
def test_a_topic_with_a_bad_or_reserved_name_is_refused(
    client: RemotingClient, topic: str
) -> None:
    answer = client.call(17, {"topic": topic, "readQueueNums": 1, "writeQueueNums": 1})
    assert code(answer) is ResponseCode.INVALID_PARAMETER


def test_a_send_to_a_missing_topic_of_another_pattern_is_refused(client: RemotingClient) -> None:
    assert code(client.send("missing", c="OTHER")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(client.send("%RETRY%g")) is ResponseCode.TOPIC_NOT_EXIST
    assert code(client.send("__consumer_offsets")) is ResponseCode.TOPIC_NOT_EXIST


# Sends and pulls


def test_a_sent_message_is_pulled_as_it_was(broker: BrokerThread, client: RemotingClient) -> None:
    topic = made(client, "plain")
    properties = "KEYS\x01k1\x02UNIQ_KEY\x017F00\x02TAGS\x01A"
    answer = client.send(topic, "größe".encode(), h=7, i=properties)
    assert code(answer) is ResponseCode.SUCCESS
    sent = fields(answer)
    assert (sent["queueOffset"], sent["transactionId"]) == ("0", "7F00")
    pulled = client.pull(topic)
    assert code(pulled) is ResponseCode.SUCCESS
    assert pulled.remark == "FOUND"
    assert (fields(pulled)["nextBeginOffset"], fields(pulled)["maxOffset"]) == ("1", "1")
    (message,) = messages_in(pulled)
    assert (message.body, message.flag, message.topic) == ("größe".encode(), 7, b"plain")
    assert message.properties == (
        properties.encode() + b"\x02MSG_REGION\x01DefaultRegion\x02CLUSTER\x01DefaultCluster"
        b"\x02TRACE_ON\x01true\x02"
    )
    assert message.born_at_ms == 1795860860391
    assert message.born_host[:4] == b"\x7f\x00\x00\x01"
    assert message.physical_offset == physical_offset_of(sent["msgId"])
    (record,) = broker.records(topic)
    assert (record.key, record.value) == (b"k1", "größe".encode())


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_of_kafkas_producers_are_pulled(
    broker: BrokerThread, client: RemotingClient, codec: str
) -> None:
    topic = made(client, f"shared-{codec}")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec})
    producer.produce(topic, b"from kafka", b"key", headers={"colour": b"red", "bad": b"\x01"})
    producer.produce(topic, None, b"gone")
    assert producer.flush(30) == 0
    client.send(topic, b"from rocketmq", i="")
    first, second, third = messages_in(client.pull(topic))
    added = b"MSG_REGION\x01DefaultRegion\x02CLUSTER\x01DefaultCluster\x02TRACE_ON\x01true\x02"
    assert first.body == b"from kafka"
    assert first.properties == b"KEYS\x01key\x02colour\x01red\x02" + added
    assert (second.body, second.properties) == (b"", b"KEYS\x01gone\x02" + added)
    assert (third.body, third.properties) == (b"from rocketmq", added)


def test_undecided_and_aborted_transactions_are_not_pulled(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "transactional")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    for body, commits in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.produce(topic, body)
        assert producer.flush(30) == 0
        parked = client.ask_pull(topic, **PARKED)
        if commits:
            client.send(topic, b"behind")
            assert fields(client.call(30, {"topic": topic, "queueId": 0})) == {"offset": "2"}
            producer.commit_transaction(30)
            found = client.answer(parked)
            assert [message.body for message in messages_in(found)] == [b"committed", b"behind"]
        else:
            producer.abort_transaction(30)
    # The first pull was woken by the abort, found nothing, and waited on.
    rest = messages_in(client.pull(topic))
    assert [message.body for message in rest] == [b"committed", b"behind"]


def test_a_binary_request_is_answered_in_json(broker: BrokerThread) -> None:
    with RemotingClient(port_of(broker), Serialization.BINARY) as binary:
        topic = made(binary, "binary")
        assert code(binary.send(topic)) is ResponseCode.SUCCESS
        assert len(messages_in(binary.pull(topic))) == 1


def test_code_10_names_its_fields_by_words(client: RemotingClient) -> None:
    topic = made(client, "words")
    answer = client.call(
        RequestCode.SEND_MESSAGE,
        {
            "producerGroup": "PG", "topic": topic, "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4, "queueId": 0, "sysFlag": 0, "bornTimestamp": 5, "flag": 0,
            "properties": "", "reconsumeTimes": "0", "unitMode": "0", "batch": "0",
        },
        b"x",
    )  # fmt: skip
    assert code(answer) is ResponseCode.SUCCESS


def test_a_batch_has_an_offset_and_an_id_for_each_message(client: RemotingClient) -> None:
    topic = made(client, "batched")
    sent = [BatchedMessage(n, b"b%d" % n, b"TAGS\x01%d\x02" % n) for n in range(3)]
    client.send(topic)
    answer = fields(client.send_batch(topic, sent))
    assert answer["queueOffset"] == "1"
    places = [place_of(physical_offset_of(text)) for text in answer["msgId"].split(",")]
    assert [place.offset for place in places] == [1, 2, 3]
    pulled = messages_in(client.pull(topic, 1))
    assert [(message.flag, message.body) for message in pulled] == [
        (n, b"b%d" % n) for n in range(3)
    ]


def test_partition_numbers_are_unique_and_survive_a_restart(tmp_path: Path) -> None:
    def numbers(broker: BrokerThread, topics: dict[str, int]) -> dict[tuple[str, int], int]:
        found = {}
        with RemotingClient(port_of(broker)) as client:
            for topic, queues in topics.items():
                made(client, topic, queues)
                for queue in range(queues):
                    answer = fields(client.send(topic, e=queue))
                    found[topic, queue] = place_of(
                        physical_offset_of(answer["msgId"])
                    ).partition_number
        return found

    with BrokerThread(SETTINGS, directory=str(tmp_path)) as first:
        before = numbers(first, {"a": 2, "b": 3})
    with BrokerThread(SETTINGS, directory=str(tmp_path)) as second:
        after = numbers(second, {"a": 3, "c": 1})
    assert {place: after[place] for place in (("a", 0), ("a", 1))} == {
        place: before[place] for place in (("a", 0), ("a", 1))
    }
    both = before | after
    assert len(set(both.values())) == len(both)


@pytest.mark.parametrize(
    ("body", "changed", "expected"),
    [
        (b"", {}, ResponseCode.MESSAGE_ILLEGAL),
        (bytes((4 << 20) + 1), {}, ResponseCode.MESSAGE_ILLEGAL),
        (b"x", {"i": "p\x01" + "x" * 32_768}, ResponseCode.MESSAGE_ILLEGAL),
        (b"no zlib", {"f": 1}, ResponseCode.MESSAGE_ILLEGAL),
        (zlib.compress(bytes((4 << 20) + 1)), {"f": 1}, ResponseCode.MESSAGE_ILLEGAL),
        (b"x", {"i": "DELAY\x013\x02"}, ResponseCode.MESSAGE_ILLEGAL),
        (b"x", {"f": 4}, ResponseCode.NO_PERMISSION),
        (b"x", {"e": 1}, ResponseCode.INVALID_PARAMETER),
        (b"x", {"e": -2}, ResponseCode.INVALID_PARAMETER),
        (b"x", {"b": "a b"}, ResponseCode.INVALID_PARAMETER),
        (b"x", {"e": "seven"}, ResponseCode.SYSTEM_ERROR),
        (b"not a batch", {"m": "true"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_send_that_cannot_be_stored_is_refused_and_stores_nothing(
    client: RemotingClient, body: bytes, changed: dict[str, object], expected: ResponseCode
) -> None:
    topic = made(client, "refused")
    answer = client.send(topic, body, **changed)
    assert code(answer) is expected, answer.remark
    assert fields(client.call(30, {"topic": topic, "queueId": 0})) == {"offset": "0"}


def test_a_compressed_body_is_stored_plain(broker: BrokerThread, client: RemotingClient) -> None:
    topic = made(client, "compressed")
    large = bytes(range(256)) * 400
    for body in (b"small", large):
        assert code(client.send(topic, zlib.compress(body, 0), f=1)) is ResponseCode.SUCCESS
    assert [message.system_flag for message in messages_in(client.pull(topic))] == [0, 0]
    assert [record.value for record in broker.records(topic)] == [b"small", large]


def test_a_message_of_4_mib_is_stored_and_pulled(client: RemotingClient) -> None:
    topic = made(client, "large")
    assert code(client.send(topic, bytes(4 << 20))) is ResponseCode.SUCCESS
    client.send(topic, b"next")
    (message,) = messages_in(client.pull(topic))
    assert len(message.body) == 4 << 20
    assert messages_in(client.pull(topic, 1))[0].body == b"next"


def test_a_queue_of_minus_one_is_any_queue(client: RemotingClient) -> None:
    topic = made(client, "any", 4)
    chosen = {fields(client.send(topic, e=-1))["queueId"] for _ in range(40)}
    assert chosen == {"0", "1", "2", "3"}


def test_many_sends_of_one_pass_are_answered_each_with_its_offset(client: RemotingClient) -> None:
    topic = made(client, "many", 2)
    opaques = [client.ask_send(topic, b"%d" % n, e=n % 2) for n in range(200)]
    offsets = [int(fields(client.answer(opaque))["queueOffset"]) for opaque in opaques]
    assert offsets == [n // 2 for n in range(200)]
    pulled = messages_in(client.pull(topic, maxMsgNums=1000))
    assert [message.body for message in pulled] == [b"%d" % n for n in range(0, 200, 2)]


def test_sends_of_one_pass_fit_the_topics_largest_batch(broker: BrokerThread) -> None:
    broker.create_topics("narrow", config={"max.message.bytes": "3000"})
    with RemotingClient(port_of(broker)) as client:
        opaques = [client.ask_send("narrow", bytes(900)) for _ in range(20)]
        answers = [client.answer(opaque) for opaque in opaques]
        assert {code(answer) for answer in answers} == {ResponseCode.SUCCESS}
        assert code(client.send("narrow", bytes(3000))) is ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_sends_to_a_topic_with_its_own_codec_are_compressed_and_pulled(
    broker: BrokerThread, client: RemotingClient, codec: str
) -> None:
    broker.create_topics(f"packed-{codec}", config={"compression.type": codec})
    opaques = [client.ask_send(f"packed-{codec}", bytes(5000)) for _ in range(20)]
    for opaque in opaques:
        assert code(client.answer(opaque)) is ResponseCode.SUCCESS
    pulled = messages_in(client.pull(f"packed-{codec}"))
    assert [message.body for message in pulled] == [bytes(5000)] * 20


def test_a_compacted_topic_refuses_messages(broker: BrokerThread, client: RemotingClient) -> None:
    broker.create_topics("compacted", config={"cleanup.policy": "compact"})
    assert code(client.send("compacted")) is ResponseCode.MESSAGE_ILLEGAL


def test_a_one_way_send_is_stored_and_not_answered(client: RemotingClient) -> None:
    topic = made(client, "oneway")
    opaque = client.one_way(310, {
        "a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 5, "h": 0,
    })  # fmt: skip
    client.ask_send(topic, b"x")
    for _ in range(100):
        if fields(client.call(30, {"topic": topic, "queueId": 0})) == {"offset": "1"}:
            break
    assert opaque not in client.arrived


# Pulls


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
    assert code(answer) is ResponseCode.PULL_NOT_FOUND


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
    assert code(rare) is ResponseCode.PULL_NOT_FOUND
    assert fields(rare)["nextBeginOffset"] == "5"


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
    own = {"sysFlag": 0, "consumerGroup": "CG_sub", "subVersion": 5}
    assert code(client.pull(topic, **own)) is ResponseCode.SUBSCRIPTION_NOT_EXIST
    client.heartbeat("one", "CG_sub", {topic: "B"}, version=5)
    assert [message.body for message in messages_in(client.pull(topic, **own))] == [b"b"]
    newer = client.pull(topic, **{**own, "subVersion": 6})
    assert code(newer) is ResponseCode.SUBSCRIPTION_NOT_LATEST


def test_a_filter_by_sql_is_refused_in_a_pull_and_in_a_check(client: RemotingClient) -> None:
    topic = made(client, "sql")
    answer = client.pull(topic, expressionType="SQL92", subscription="a > 1")
    assert code(answer) is ResponseCode.SUBSCRIPTION_PARSE_FAILED
    for kind, expected in (("SQL92", 23), ("TAG", 0)):
        body = encode_body(
            {"clientId": "c", "group": "g", "subscriptionData": {
                "topic": topic, "subString": "a", "expressionType": kind,
            }}
        )  # fmt: skip
        assert client.call(46, None, body).code == expected


# Offsets


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
    assert code(client.call(15, unknown)) is ResponseCode.TOPIC_NOT_EXIST
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
    with BrokerThread(SETTINGS, directory=str(tmp_path)) as first:
        with RemotingClient(port_of(first)) as client:
            made(client, "t")
            client.send("t")
            for offset in range(20):
                client.call(15, named | {"commitOffset": offset})
    with (
        BrokerThread(SETTINGS, directory=str(tmp_path)) as second,
        RemotingClient(port_of(second)) as client,
    ):
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


# Groups


def test_members_hear_of_each_other_and_have_one_list(
    broker: BrokerThread, client: RemotingClient
) -> None:
    assert code(client.call(38, {"consumerGroup": "CG_m"})) is ResponseCode.SYSTEM_ERROR
    answer = client.heartbeat("b", "CG_m", {"t": "*"})
    assert fields(answer) == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    with RemotingClient(port_of(broker)) as other:
        other.heartbeat("a", "CG_m", {"t": "*"})
        listed = [each.call(38, {"consumerGroup": "CG_m"}).body for each in (client, other)]
        assert listed == [b'{"consumerIdList":["a","b"]}'] * 2
        assert [(told.code, fields(told)) for told in client.notified] == [
            (40, {"consumerGroup": "CG_m"})
        ] * 2
        assert other.notified
    while len(client.notified) < 3:
        client.receive()
    assert client.call(38, {"consumerGroup": "CG_m"}).body == b'{"consumerIdList":["b"]}'
    client.call(35, {"consumerGroup": "CG_m", "clientID": "b"})
    assert code(client.call(38, {"consumerGroup": "CG_m"})) is ResponseCode.SYSTEM_ERROR


def test_a_heartbeat_without_subscriptions_renews_or_asks_for_them(client: RemotingClient) -> None:
    short = encode_body({"clientID": "s", "withoutSub": True, "heartbeatFingerprint": 5})
    assert fields(client.call(34, {}, short))["IS_SUB_CHANGE"] == "true"
    client.heartbeat("s", "CG_short", {"t": "*"})
    assert fields(client.call(34, {}, short))["IS_SUB_CHANGE"] == "false"
    assert client.call(38, {"consumerGroup": "CG_short"}).body == b'{"consumerIdList":["s"]}'


def test_a_locked_queue_has_one_owner(client: RemotingClient) -> None:
    def body(owner: str) -> bytes:
        return encode_body(
            {"consumerGroup": "CG_lock", "clientId": owner, "mqSet": [
                {"topic": "t", "brokerName": "b", "queueId": 0},
            ]}
        )  # fmt: skip

    held = b'{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"t"}]}'
    assert client.call(41, None, body("one")).body == held
    assert client.call(41, None, body("two")).body == b'{"lockOKMQSet":[]}'
    assert code(client.call(42, None, body("two"))) is ResponseCode.SUCCESS
    assert client.call(41, None, body("two")).body == b'{"lockOKMQSet":[]}'
    client.call(42, None, body("one"))
    assert client.call(41, None, body("two")).body == held


@pytest.mark.parametrize("number", [34, 41, 42, 46])
@pytest.mark.parametrize("body", [b"", b"{nope", b"[]", b"7", b"{}", b"[" * 5000])
def test_a_bad_body_fails_its_request_alone(
    client: RemotingClient, number: int, body: bytes
) -> None:
    assert code(client.call(number, {}, body)) is ResponseCode.SYSTEM_ERROR
    assert code(client.call(7777)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_of_one_protocol_is_refused_to_the_other(
    broker: BrokerThread, client: RemotingClient, protocol: str
) -> None:
    topic, group = made(client, f"one-{protocol}"), f"CG_{protocol}"
    settings = {
        "bootstrap.servers": broker.bootstrap, "group.id": group, "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }  # fmt: skip
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"for kafka")
    assert producer.flush(30) == 0
    client.heartbeat("one", group, {topic: "*"})
    errors: list[str] = []
    refused = Consumer(settings | {"error_cb": lambda error: errors.append(str(error))})
    refused.subscribe([topic])
    message = refused.poll(3.0)
    assert message is None or message.error() is not None
    refused.close()
    client.call(35, {"consumerGroup": group, "clientID": "one"})
    kafka = Consumer(settings)
    kafka.subscribe([topic])
    found = kafka.poll(30.0)
    assert found is not None
    assert found.value() == b"for kafka"
    answer = client.heartbeat("one", group, {topic: "*"})
    assert code(answer) is ResponseCode.NO_PERMISSION
    assert "clients of Kafka's" in (answer.remark or "")
    kafka.close()
    assert code(client.heartbeat("one", group, {topic: "*"})) is ResponseCode.SUCCESS


# Connections


def test_unknown_codes_are_answered_with_3(client: RemotingClient) -> None:
    for unknown in (7777, 103, 36, 200050, -5):
        answer = client.call(unknown, {"a": "b"})
        assert code(answer) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == f" request type {unknown} not supported"


def test_requests_without_their_fields_are_answered_with_1(client: RemotingClient) -> None:
    for number in (10, 11, 14, 15, 17, 29, 30, 31, 32, 38, 105, 310, 320, 361):
        assert code(client.call(number, {})) is ResponseCode.SYSTEM_ERROR, number
        assert code(client.call(number)) is ResponseCode.SYSTEM_ERROR, number


def test_answers_of_clients_are_ignored(client: RemotingClient) -> None:
    client.ask(0, {}, flag=1)
    assert code(client.call(7777)) is ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xfb",
        b"\x01\x10\x00\x00\x00\x00\x00\x0a",
        b"\x00\x00\x00\x08\x00\x00\x00\x64abcd",
        b"\x00\x00\x00\x0a\x07\x00\x00\x06abcdef",
        b"\x00\x00\x00\x0a\x00\x00\x00\x06{nope}",
        b"GET / HTTP/1.0\r\n\r\n",
    ],
)
def test_a_broken_frame_closes_its_connection(broker: BrokerThread, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port_of(broker)), 20) as raw:
        raw.sendall(data)
        assert raw.recv(100) == b""


def test_frames_are_handled_however_they_are_cut(client: RemotingClient) -> None:
    topic = made(client, "cut")
    client.send(topic)
    frame = encode_command(RemotingCommand(30, 99, 0, {"topic": topic, "queueId": "0"}))[0]
    for at in range(len(frame)):
        client.send_bytes(frame[at : at + 1])
    assert fields(client.answer(99)) == {"offset": "1"}


def test_a_closed_connection_ends_its_parked_pulls(broker: BrokerThread) -> None:
    with RemotingClient(port_of(broker)) as client:
        topic = made(client, "left")
        for _ in range(50):
            client.ask_pull(topic, **PARKED)
        client.call(7777)
    with RemotingClient(port_of(broker)) as other:
        assert code(other.send("left")) is ResponseCode.SUCCESS
        assert len(messages_in(other.pull("left"))) == 1
