"""Sends through a RocketMQ listener: stored as records, refused, batched, pulled again."""

import asyncio
import zlib
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from headrace.frontends.rocketmq.partition_numbers import TOPICS
from headrace.log import file_names
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.testing import BrokerThread
from headrace.wire.rocketmq.batch_bodies import BatchedMessage, encode_batch
from headrace.wire.rocketmq.codes import RequestCode, ResponseCode
from headrace.wire.rocketmq.frames import Serialization
from headrace.wire.rocketmq.message_ids import physical_offset_of, place_of
from tests.support.rocketmq.client import RemotingClient, messages_in
from tests.support.rocketmq.kit import PARKED, SETTINGS, code, fields, made, port_of


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
    client.send(topic, b"from rocketmq", i="UNIQ_KEY\x01u\x02")
    first, second, third = messages_in(client.pull(topic))
    added = b"MSG_REGION\x01DefaultRegion\x02CLUSTER\x01DefaultCluster\x02TRACE_ON\x01true\x02"
    assert first.body == b"from kafka"
    assert first.properties == b"KEYS\x01key\x02colour\x01red\x02" + added
    assert (second.body, second.properties) == (b"", b"KEYS\x01gone\x02" + added)
    assert (third.body, third.properties) == (b"from rocketmq", b"UNIQ_KEY\x01u\x02" + added)


def test_undecided_and_aborted_transactions_are_not_pulled(
    broker: BrokerThread, client: RemotingClient
) -> None:
    topic = made(client, "transactional")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    for begin, body, commits in ((0, b"aborted", False), (2, b"committed", True)):
        producer.begin_transaction()
        producer.produce(topic, body)
        assert producer.flush(30) == 0
        parked = client.ask_pull(topic, begin, **PARKED)
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


def test_a_message_without_a_unique_key_gets_one(client: RemotingClient) -> None:
    topic = made(client, "keyless")
    answers = [fields(client.send(topic, i=properties)) for properties in ("", "TAGS\x01A")]
    keys = [answer["transactionId"] for answer in answers]
    assert len(set(keys)) == 2
    assert {len(key) for key in keys} == {32}
    pulled = messages_in(client.pull(topic))
    for message, key, begin in zip(pulled, keys, ("", "TAGS\x01A\x02"), strict=True):
        assert message.properties.startswith(f"{begin}UNIQ_KEY\x01{key}\x02MSG_".encode())


def test_a_batch_has_an_offset_and_an_id_for_each_message(client: RemotingClient) -> None:
    topic = made(client, "batched")
    sent = [BatchedMessage(n, b"b%d" % n, b"TAGS\x01%d\x02" % n) for n in range(3)]
    client.send(topic)
    answer = fields(client.send(topic, encode_batch(sent), m="true", i="UNIQ_KEY\x01outer\x02"))
    assert (answer["queueOffset"], answer["transactionId"]) == ("1", "outer")
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


def test_numbers_of_a_deleted_topic_leave_the_metadata_store(tmp_path: Path) -> None:
    def deleted(broker: BrokerThread, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics([topic])[topic].result(20)

    def sent(broker: BrokerThread, topic: str) -> None:
        with RemotingClient(port_of(broker)) as client:
            assert code(client.send(made(client, topic))) is ResponseCode.SUCCESS

    async def stored() -> int:
        store = EmbeddedStore(str(tmp_path / file_names.METADATA))
        count = len(await store.children(TOPICS))
        await store.close()
        return count

    with BrokerThread(SETTINGS, directory=str(tmp_path)) as first:
        for topic in ("a", "b"):
            sent(first, topic)
        deleted(first, "a")
        sent(first, "c")
    assert asyncio.run(stored()) == 2
    with BrokerThread(directory=str(tmp_path)) as without_listener:
        deleted(without_listener, "b")
    with BrokerThread(SETTINGS, directory=str(tmp_path)):
        pass
    assert asyncio.run(stored()) == 1


@pytest.mark.parametrize(
    ("body", "changed", "expected"),
    [
        (b"", {}, ResponseCode.SYSTEM_ERROR),
        (bytes((4 << 20) + 1), {}, ResponseCode.MESSAGE_ILLEGAL),
        (b"x", {"i": "p\x01" + "x" * 32_768}, ResponseCode.MESSAGE_ILLEGAL),
        (b"no zlib", {"f": 1}, ResponseCode.MESSAGE_ILLEGAL),
        (zlib.compress(bytes((4 << 20) + 1)), {"f": 1}, ResponseCode.MESSAGE_ILLEGAL),
        (b"x", {"i": "DELAY\x01x\x02"}, ResponseCode.MESSAGE_ILLEGAL),
        (b"x", {"f": 8}, ResponseCode.NO_PERMISSION),
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
    if expected is not ResponseCode.SYSTEM_ERROR:
        assert fields(answer) == {"TRACE_ON": "true", "MSG_REGION": "DefaultRegion"}
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


@pytest.mark.parametrize("number", range(5))
def test_sends_that_wait_for_a_new_topic_keep_their_order(
    client: RemotingClient, number: int
) -> None:
    topic = made(client, f"ordered-{number}", 1)
    opaques = [client.ask_send(topic, b"%d" % n) for n in range(1500)]
    offsets = [int(fields(client.answer(opaque))["queueOffset"]) for opaque in opaques]
    assert offsets == list(range(1500))


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


def test_sends_keep_their_order_while_threads_decompress_large_ones(
    client: RemotingClient,
) -> None:
    topic = made(client, "mixed-sizes")
    bodies = [b"%d" % n if n % 3 else b"%d" % n + bytes(200_000) for n in range(60)]
    opaques = [
        client.ask_send(topic, zlib.compress(body, 0), f=1)
        if len(body) > 1000
        else client.ask_send(topic, body)
        for body in bodies
    ]
    offsets = [int(fields(client.answer(opaque))["queueOffset"]) for opaque in opaques]
    assert offsets == list(range(60))
    assert client.arrived[-60:] == opaques


def test_sends_to_a_compressed_topic_keep_their_order(
    broker: BrokerThread, client: RemotingClient
) -> None:
    broker.create_topics("packed-in-order", config={"compression.type": "gzip"})
    bodies = [b"%d" % n if n % 4 else b"%d" % n * 100_000 for n in range(80)]
    opaques = [client.ask_send("packed-in-order", body) for body in bodies]
    offsets = [int(fields(client.answer(opaque))["queueOffset"]) for opaque in opaques]
    assert offsets == list(range(80))
    assert [record.value for record in broker.records("packed-in-order")] == bodies


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
