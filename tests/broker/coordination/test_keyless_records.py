"""A compacted topic takes no record without a key, however it comes; other topics do."""

from collections.abc import Iterator

import pytest
from crc32c import crc32c

from headrace.model.errors import ApiError, ErrorCode
from headrace.record import batch
from headrace.record.batch import Codec
from headrace.record.batch_layout import CRC_FROM, HEADER_BYTES
from headrace.record.compression import CorruptBatch
from headrace.record.keyless import keyless
from headrace.record.record import new_record
from headrace.testing import BrokerThread
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import metadata, produce
from tests.broker.server.test_requests import Topics


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread({"log.cleanup.policy": "compact"}) as one:
        yield one


@pytest.fixture
def link(broker: BrokerThread) -> Iterator[Topics]:
    made = Topics(broker)
    yield made
    made.socket.close()


def records(*keys: bytes | None, codec: Codec = Codec.NONE) -> bytes:
    made = [new_record(b"v" * 200, key, 1_780_000_000_000 + at) for at, key in enumerate(keys)]
    return batch.build(made, compression=codec)


def mixed(count: int) -> list[bytes | None]:
    return [None if at in {1, count - 1} else b"key %d" % at for at in range(count)]


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12])
@pytest.mark.parametrize("codec", list(Codec), ids=lambda one: one.name)
@pytest.mark.parametrize("count", [3, 500])
def test_each_record_without_a_key_is_named_and_nothing_is_written(
    link: Topics, version: int, codec: Codec, count: int
) -> None:
    if codec is Codec.ZSTD and version < 7:
        pytest.skip("zstd came with v7")
    topic = link.topic()
    answer = link.produce(topic, records(*mixed(count), codec=codec), version=version)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    if version >= 8:
        assert [one.batch_index for one in answer.record_errors] == [1, count - 1]
        assert all(one.message and "needs a key" in one.message for one in answer.record_errors)
        assert answer.error_message
        assert "2 records" in answer.error_message
    good = link.produce(topic, records(*[b"k"] * count, codec=codec), version=version)
    assert (good.error_code, good.base_offset) == (0, 0)
    again = link.produce(topic, records(b"", b"k"), version=version)
    assert (again.error_code, again.base_offset) == (0, count)


def test_batches_for_several_partitions_are_judged_one_by_one(link: Topics) -> None:
    topics = [link.topic() for _ in range(4)]
    sent = [records(b"a"), records(None), records(*mixed(300)), records(*[b"b"] * 300)]
    for some in ([0, 1], [0, 1, 2, 3]):
        data = [
            produce.TopicData(topics[at].name or "", topics[at].topic_id,
                              [produce.PartitionData(0, sent[at])])
            for at in some
        ]  # fmt: skip
        request = produce.ProduceRequest(None, -1, 10_000, data)
        body = link.ask(ApiKey.PRODUCE, 9, produce.encode_request(9, request))
        answers = [one.partitions[0] for one in produce.decode_response(9, body).topics]
        refused = ErrorCode.INVALID_RECORD
        assert [one.error_code for one in answers] == [0, refused, refused, 0][: len(some)]
    assert link.produce(topics[0], sent[0]).base_offset == 2


def test_what_a_thread_looks_at_is_appended_in_the_order_of_sending(link: Topics) -> None:
    topic = link.topic()
    sent = [records(*[b"large"] * 400, codec=Codec.GZIP), records(b"small")] * 4
    for version in (9,):
        for one in sent:
            data = [produce.TopicData(topic.name or "", b"", [produce.PartitionData(0, one)])]
            request = produce.ProduceRequest(None, -1, 10_000, data)
            link.send(ApiKey.PRODUCE, version, produce.encode_request(version, request))
    found = []
    for _ in sent:
        body = link.receive(ApiKey.PRODUCE, 9)
        found.append(produce.decode_response(9, body).topics[0].partitions[0].base_offset)
    assert found == [0, 400, 401, 801, 802, 1202, 1203, 1603]


def test_with_acks_0_the_connection_is_closed(broker: BrokerThread) -> None:
    for keys in ([None], mixed(300)):
        link = Topics(broker)
        topic = link.topic()
        data = [produce.TopicData(topic.name or "", b"",
                                  [produce.PartitionData(0, records(*keys))])]  # fmt: skip
        request = produce.ProduceRequest(None, 0, 1000, data)
        link.send(ApiKey.PRODUCE, 9, produce.encode_request(9, request))
        with pytest.raises(ConnectionError):
            link.ask(ApiKey.METADATA, 9, metadata.encode_request(9, metadata.MetadataRequest([])))
        link.socket.close()


def test_records_that_are_none_are_refused_too(link: Topics) -> None:
    topic = link.topic()
    spoilt = bytearray(records(b"k", b"l"))
    spoilt[HEADER_BYTES] ^= 0x40
    header = batch.parse_header(spoilt)
    crc = crc32c(memoryview(spoilt)[CRC_FROM:])
    spoilt[17:21] = crc.to_bytes(4)
    assert header.record_count == 2
    assert link.produce(topic, bytes(spoilt)).error_code == ErrorCode.INVALID_RECORD


def test_other_topics_take_records_without_a_key() -> None:
    with BrokerThread() as broker:
        link = Topics(broker)
        topic = link.topic()
        assert link.produce(topic, records(None, None)).error_code == 0
        link.socket.close()


def test_keyless_says_the_numbers_and_notices_lies() -> None:
    data = bytes(records(None, b"", b"k", None, *[b"x" * 300] * 3)[HEADER_BYTES:])
    assert list(keyless(data, 7, lambda _: None)) == [0, 3]
    for count in (6, 8):
        with pytest.raises(CorruptBatch):
            list(keyless(data, count, lambda _: None))
    for cut in range(len(data)):
        with pytest.raises(ApiError):
            list(keyless(data[:cut], 7, lambda _: None))


def test_any_negative_length_is_no_key_and_a_record_without_room_for_one_is_a_lie() -> None:
    null_by_minus_2 = b"\x0c\x00\x00\x00\x03\x01\x00"
    assert list(keyless(null_by_minus_2 * 2, 2, lambda _: None)) == [0, 1]
    ends_before_its_key = b"\x06\x00\x00\x00"
    with pytest.raises(CorruptBatch, match="before its key"):
        list(keyless(ends_before_its_key + null_by_minus_2, 2, lambda _: None))
