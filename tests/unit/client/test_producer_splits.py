"""Batches refused as too large: cut, sent again, stored once and in order (KIP-126)."""

import random

import pytest

from headrace.client.producer.producer import Producer
from headrace.client.producer.value_batches import encode_values
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record import batch as wire
from headrace.record.compression import Codec
from headrace.record.record import Record
from headrace.wire.kafka.hot import produce
from tests.support.cluster.hand_cluster import Asked, HandCluster

WHERE = TopicPartition("t", 0)
NONE = ErrorCode.NONE


class SmallTopic(HandCluster):
    """A cluster whose topic refuses batches of more than `limit` bytes, and gaps in sequences."""

    limit = 1000
    code = ErrorCode.MESSAGE_TOO_LARGE

    def stored(self) -> list[Record]:
        """The records stored in partition 0, in their order."""
        return [record for data in _stored(self) for record in wire.records(data)]

    def _stored(self, asked: Asked) -> produce.ProduceResponse:
        answers = [
            produce.PartitionResponse(number, *self._append(number, data))
            for number, data in asked.batches.items()
        ]
        (topic,) = asked.request.topics
        return produce.ProduceResponse([produce.TopicResponse(topic.name, topic.topic_id, answers)])

    def _append(self, number: int, data: bytes) -> tuple[ErrorCode, int]:
        if len(data) > self.limit:
            return self.code, -1
        header = wire.parse_header(data)
        expected = self.ends.get(number, 0)
        if header.base_sequence not in {-1, expected}:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        self.ends[number] = expected + header.record_count
        if number == WHERE.partition:
            _stored(self).append(data)
        return NONE, expected


_batches: dict[int, list[bytes]] = {}


def _stored(cluster: SmallTopic) -> list[bytes]:
    return _batches.setdefault(id(cluster), [])


@pytest.fixture
def cluster() -> SmallTopic:
    _batches.clear()
    return SmallTopic()


def send(producer: Producer, values: list[bytes], *, dispatched: int = 10) -> None:
    """Send values, a batch for each `dispatched` of them, several in flight."""

    async def story() -> None:
        for at in range(0, len(values), dispatched):
            for value in values[at : at + dispatched]:
                await producer.send(
                    "t", value, b"k", timestamp=5, headers=[("h", b"x")], partition=0
                )
            await producer.dispatch()
        await producer.flush()

    run(story())


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_refused_batch_is_cut_until_it_fits(
    cluster: SmallTopic, code: ErrorCode, codec: Codec
) -> None:
    cluster.code = code
    noise = random.Random(1)
    values = [noise.randbytes(100) for _ in range(100)]
    producer = Producer(cluster.client(), compression=codec)
    send(producer, values, dispatched=100)
    assert [record.value for record in cluster.stored()] == values
    assert {record.key for record in cluster.stored()} == {b"k"}
    assert {tuple(record.headers) for record in cluster.stored()} == {(("h", b"x"),)}
    assert {record.timestamp for record in cluster.stored()} == {5}
    assert {wire.codec_of(wire.parse_header(data)) for data in _stored(cluster)} == {codec}
    assert (producer.acknowledged, producer.offsets) == (100, {WHERE: 99})
    assert producer.acknowledged_bytes == sum(map(len, values)) + 100 * (12 + 1 + 4)


def test_batches_in_flight_behind_a_refused_one_keep_their_order(cluster: SmallTopic) -> None:
    values = [
        b"%d" % number * (90 if number == 3 or 20 < number < 40 else 1) for number in range(70)
    ]
    producer = Producer(cluster.client())
    send(producer, values, dispatched=10)
    assert [record.value for record in cluster.stored()] == values
    assert producer.acknowledged == 70


@pytest.mark.parametrize("seed", range(20))
def test_any_sizes_are_stored_once_and_in_order(cluster: SmallTopic, seed: int) -> None:
    chance = random.Random(seed)
    values = [chance.randbytes(chance.choice([1, 50, 400, 850])) for _ in range(150)]
    producer = Producer(cluster.client(), batch_bytes=chance.choice([500, 3000, 100_000]))
    send(producer, values, dispatched=chance.choice([1, 7, 40]))
    assert [record.value for record in cluster.stored()] == values


def test_sequences_wrap_inside_a_cut_batch(cluster: SmallTopic) -> None:
    producer = Producer(cluster.client())
    cluster.limit = 10**6
    send(producer, [b"x"])
    producer._sequences[WHERE] = 0x7FFFFFFE
    sequences: list[int] = []

    def append(number: int, data: bytes) -> tuple[ErrorCode, int]:
        if len(data) > 200:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        sequences.append(wire.parse_header(data).base_sequence)
        return NONE, 0

    cluster_type = type(cluster)
    before = cluster_type._append
    cluster_type._append = lambda self, *words: append(*words)  # type: ignore[method-assign]
    try:
        send(producer, [b"y" * 100] * 4)
    finally:
        cluster_type._append = before  # type: ignore[method-assign]
    assert sequences == [0x7FFFFFFE, 0x7FFFFFFF, 0, 1]


def test_batches_encoded_elsewhere_are_cut_too(cluster: SmallTopic) -> None:
    values = [bytes([65 + number % 26]) * 90 for number in range(60)]
    producer = Producer(cluster.client(), compression=Codec.GZIP)
    cluster.limit = 120

    async def story() -> None:
        await producer.partitions("t")
        for encoded, size in encode_values(
            values, b"k", [], 5, batch_bytes=10_000, codec=Codec.GZIP
        ):
            await producer.send_encoded(WHERE, encoded, size)
        await producer.flush()

    run(story())
    assert [record.value for record in cluster.stored()] == values
    assert {wire.codec_of(wire.parse_header(data)) for data in _stored(cluster)} == {Codec.GZIP}


def test_later_batches_are_made_as_small_as_the_topic_takes(cluster: SmallTopic) -> None:
    producer = Producer(cluster.client())
    send(producer, [b"x" * 80] * 100, dispatched=100)
    assert producer.batch_bytes <= 1000
    asked = len(cluster.asked)
    send(producer, [b"x" * 80] * 100, dispatched=100)
    sent = [len(data) for one in cluster.asked[asked:] for data in one.batches.values()]
    assert max(sent) <= 1000
    assert len(sent) < 40


def test_a_transaction_survives_a_cut(cluster: SmallTopic) -> None:
    producer = Producer(cluster.client())
    producer.write_as("id", 77, 3)
    send(producer, [b"x" * 80] * 30, dispatched=30)
    headers = [wire.parse_header(data) for data in _stored(cluster)]
    assert {(head.producer_id, head.producer_epoch) for head in headers} == {(77, 3)}
    assert all(head.attributes & wire.TRANSACTIONAL for head in headers)


def test_without_idempotence_a_cut_batch_has_no_sequences(cluster: SmallTopic) -> None:
    producer = Producer(cluster.client(), acks=1)
    send(producer, [b"x" * 80] * 30, dispatched=30)
    assert {wire.parse_header(data).base_sequence for data in _stored(cluster)} == {-1}
    assert len(cluster.stored()) == 30


def test_a_single_record_that_is_too_large_names_itself(cluster: SmallTopic) -> None:
    producer = Producer(cluster.client())
    with pytest.raises(ApiError) as raised:
        send(producer, [b"a", b"b", b"large " * 500, b"c"])
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert str(raised.value).endswith(
        "t-0: not stored (a single record of 3,017 bytes (key 'k', the 3. of this producer) is too"
        " large)"
    )
    assert [record.value for record in cluster.stored()] == [b"a", b"b"]
