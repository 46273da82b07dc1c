"""What a producer sends: which records travel together, in which version, and what it counts."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from headrace.client.producer.producer import (
    BATCH_BYTES,
    BUFFERED_BATCHES_MAX,
    IN_FLIGHT_MAX,
    Producer,
)
from headrace.client.producer.value_batches import encode_values
from headrace.client.sync import run
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record import batch as wire
from tests.support.cluster.hand_cluster import PRODUCER_EPOCH, PRODUCER_ID, Asked, HandCluster

WHERE = TopicPartition("t", 0)
BARE = 12
"""What a record counts beside its key, value and headers."""


def send(producer: Producer, *sizes: int, partition: int | None = 0) -> None:
    """Send records of so many bytes."""

    async def all_of_them() -> None:
        for size in sizes:
            await producer.send("t", bytes(size), timestamp=1, partition=partition)

    run(all_of_them())


def counts(asked: Sequence[Asked]) -> list[int]:
    """How many records each batch had."""
    return [len(list(wire.records(data))) for one in asked for data in one.batches.values()]


def test_offsets_and_counts_are_those_of_what_was_acknowledged() -> None:
    cluster = HandCluster()
    producer = Producer(cluster.client())
    send(producer, 10, 20, 30)
    run(producer.flush())
    assert (producer.acknowledged, producer.acknowledged_bytes) == (3, 3 * BARE + 60)
    assert producer.offsets == {WHERE: 2}
    send(producer, 1)
    run(producer.flush())
    assert (producer.acknowledged, producer.acknowledged_bytes) == (4, 4 * BARE + 61)
    assert producer.offsets == {WHERE: 100}
    assert cluster.waits == [7.0, 7.0]
    assert [one.request.timeout_ms for one in cluster.asked] == [7000, 7000]


def test_keys_headers_and_nothing_count_as_the_bytes_they_are() -> None:
    cluster = HandCluster()
    producer = Producer(cluster.client())

    async def story() -> None:
        headers = [("name", b"content"), ("n", None)]
        await producer.send("t", b"value", b"key", timestamp=1, headers=headers, partition=0)
        await producer.send("t", None, timestamp=1, partition=0)
        await producer.flush()

    run(story())
    assert producer.acknowledged_bytes == 2 * BARE + len(b"valuekeynamecontentn") + 2 * 2
    (data,) = cluster.asked[0].batches.values()
    first, second = wire.records(data)
    assert (first.key, first.value, list(first.headers)) == (
        b"key", b"value", [("name", b"content"), ("n", None)],
    )  # fmt: skip
    assert (second.key, second.value) == (None, None)


@pytest.mark.parametrize(
    ("sizes", "batches", "sent_before_flush"),
    [
        ((38, 38), [2], 1),  # exactly full: goes at once
        ((38, 37), [2], 0),
        ((38, 39), [1, 1], 1),  # the second does not fit
        ((88,), [1], 1),
        ((200, 1), [1, 1], 1),
    ],
)
def test_a_batch_is_filled_to_the_byte_and_sent_when_it_is_full(
    sizes: tuple[int, ...], batches: list[int], sent_before_flush: int
) -> None:
    cluster = HandCluster()
    producer = Producer(cluster.client(), batch_bytes=2 * BARE + 76)
    send(producer, *sizes)
    run(producer._advance(BUFFERED_BATCHES_MAX))
    assert len(cluster.asked) == sent_before_flush
    run(producer.flush())
    assert counts(cluster.asked) == batches
    assert producer.acknowledged == len(sizes)


def send_values(producer: Producer, *values: bytes, key: bytes | None = None) -> None:
    """Send values that came together."""

    async def all_of_them() -> None:
        await producer.partitions("t")
        for encoded, size in encode_values(
            values, key, (), 1, batch_bytes=producer.batch_bytes, codec=producer.compression
        ):
            where = producer.place("t", key)
            await producer.send_encoded(where, encoded, size, keyed=key is not None)

    run(all_of_them())


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ((38, 38), [2]),
        ((38, 39), [1, 1]),
        ((88,), [1]),
        ((200, 1), [1, 1]),
        ((1, 200, 1), [1, 1, 1]),
        ((1, 1, 88, 38, 38, 1), [2, 1, 2, 1]),
        ((), []),
    ],
)
def test_values_that_come_together_fill_batches_to_the_byte(
    sizes: tuple[int, ...], batches: list[int]
) -> None:
    cluster = HandCluster({"t": [0]})
    producer = Producer(cluster.client(), batch_bytes=2 * BARE + 76)
    send_values(producer, *map(bytes, sizes))
    assert counts(cluster.asked) == batches[:IN_FLIGHT_MAX]
    run(producer.flush())
    assert counts(cluster.asked) == batches
    assert producer.acknowledged == len(sizes)
    assert producer.acknowledged_bytes == sum(sizes) + BARE * len(sizes)
    sent = [record for one in cluster.asked for data in one.batches.values()
            for record in wire.records(data)]  # fmt: skip
    assert [(record.value, record.timestamp) for record in sent] == [
        (bytes(size), 1) for size in sizes
    ]


def test_values_that_come_together_are_compressed_as_all_are() -> None:
    cluster = HandCluster({"t": [0]})
    producer = Producer(cluster.client(), compression=wire.Codec.LZ4)
    send_values(producer, b"v" * 1000, b"w" * 1000)
    run(producer.flush())
    (data,) = cluster.asked[0].batches.values()
    assert wire.codec_of(wire.parse_header(data)) is wire.Codec.LZ4
    assert len(data) < 200
    assert [record.value for record in wire.records(data)] == [b"v" * 1000, b"w" * 1000]


def test_what_came_alone_stays_before_what_comes_together() -> None:
    cluster = HandCluster({"t": [0]})
    producer = Producer(cluster.client())
    send(producer, 1)
    send_values(producer, b"two", b"three")
    run(producer.flush())
    assert counts(cluster.asked) == [1, 2]


def test_values_without_keys_change_their_partition_with_each_batch_those_with_keys_do_not() -> (
    None
):
    for key in (None, b"key"):
        cluster = HandCluster({"t": [0] * 50})
        producer = Producer(cluster.client(), batch_bytes=BARE + 4)
        send_values(producer, b"1", b"2", b"3", b"4", key=key)
        run(producer.flush())
        places = [partition for one in cluster.asked for partition in one.batches]
        if key is None:
            assert all(one != two for one, two in pairwise(places))
        else:
            assert len(set(places)) == 1


def test_a_batch_is_of_a_quarter_of_a_mebibyte_unless_told_otherwise() -> None:
    assert BATCH_BYTES == 1 << 18
    assert Producer(HandCluster().client()).batch_bytes == BATCH_BYTES


@pytest.mark.parametrize(("topic_ids", "version"), [(True, 13), (False, 12)])
def test_topics_are_named_by_their_ids_where_they_have_some(topic_ids: bool, version: int) -> None:
    cluster = HandCluster(topic_ids=topic_ids)
    producer = Producer(cluster.client())
    send(producer, 1)
    run(producer.flush())
    (asked,) = cluster.asked
    assert asked.version == version
    (topic,) = asked.request.topics
    assert topic.topic_id == cluster.topic_id("t")
    assert producer.offsets == {WHERE: 0}


@pytest.mark.parametrize("version", [3, 9, 12])
def test_an_older_broker_is_asked_in_its_newest_version(version: int) -> None:
    cluster = HandCluster(versions={0: (3, version), 3: (4, 13), 22: (0, 4)})
    producer = Producer(cluster.client())
    send(producer, 1)
    run(producer.flush())
    assert [one.version for one in cluster.asked] == [version]
    assert producer.offsets == {WHERE: 0}


def test_batches_of_partitions_with_one_leader_travel_in_one_request() -> None:
    cluster = HandCluster({"t": [0, 1, 0]})
    producer = Producer(cluster.client())
    for partition in range(3):
        send(producer, 1, partition=partition)
    run(producer.flush())
    assert [(one.broker, sorted(one.batches)) for one in cluster.asked] == [(0, [0, 2]), (1, [1])]
    assert producer.acknowledged == 3


def test_no_more_than_five_requests_are_unanswered_and_they_are_sent_before_the_first_answer() -> (
    None
):
    cluster = HandCluster()
    producer = Producer(cluster.client(), batch_bytes=BARE + 10)
    send(producer, *[10] * 20)
    assert cluster.unanswered_most == IN_FLIGHT_MAX == 5
    assert producer.acknowledged == 0
    run(producer.flush())
    assert cluster.unanswered_most == IN_FLIGHT_MAX
    assert producer.acknowledged == 20


def test_sending_waits_for_answers_only_beyond_64_full_batches() -> None:
    cluster = HandCluster()
    producer = Producer(cluster.client(), batch_bytes=BARE + 10)
    send(producer, *[10] * BUFFERED_BATCHES_MAX)
    assert (BUFFERED_BATCHES_MAX, cluster.waits) == (64, [])
    send(producer, 10)
    assert len(cluster.waits) == 1
    assert producer.acknowledged == 1


def test_what_is_dispatched_is_sent_and_not_waited_for() -> None:
    cluster = HandCluster()
    producer = Producer(cluster.client())
    send(producer, 1, 2)
    assert cluster.asked == []
    run(producer.dispatch())
    assert counts(cluster.asked) == [2]
    assert producer.acknowledged == 0
    run(producer.flush())
    assert (len(cluster.asked), producer.acknowledged) == (1, 2)


def test_a_partition_there_is_not_is_refused_and_the_last_one_is_not() -> None:
    cluster = HandCluster()
    producer = Producer(cluster.client())
    for partition in (-1, 3):
        with pytest.raises(ApiError) as refused:
            send(producer, 1, partition=partition)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert f"t has partitions 0 to 2, not {partition}" in str(refused.value)
    for partition in (0, 2):
        send(producer, 1, partition=partition)
    run(producer.flush())
    assert sorted(producer.offsets) == [("t", 0), ("t", 2)]


def test_the_number_of_partitions_is_asked_for_once_and_topics_are_made_as_wanted() -> None:
    for create in (True, False):
        cluster = HandCluster()
        producer = Producer(cluster.client(), create_topics=create)
        send(producer, 1, 1)
        run(producer.flush())
        (asked,) = cluster.metadata_requests
        assert asked.allow_auto_topic_creation is create


def headers_of(cluster: HandCluster) -> list[tuple[int, int, int]]:
    """Producer id, epoch and first sequence of all batches."""
    heads = [
        wire.parse_header(memoryview(data))
        for one in cluster.asked
        for data in one.batches.values()
    ]
    return [(head.producer_id, head.producer_epoch, head.base_sequence) for head in heads]


def test_batches_are_numbered_by_their_records_and_begin_again_behind_the_last_number() -> None:
    cluster = HandCluster()
    producer = Producer(cluster.client())
    for sizes in ((1, 1, 1), (1,)):
        send(producer, *sizes)
        run(producer.dispatch())
    run(producer.flush())
    assert headers_of(cluster) == [
        (PRODUCER_ID, PRODUCER_EPOCH, 0),
        (PRODUCER_ID, PRODUCER_EPOCH, 3),
    ]
    producer._sequences[WHERE] = 2**31 - 1
    for _ in range(2):
        send(producer, 1)
        run(producer.dispatch())
    assert [sequence for _, _, sequence in headers_of(cluster)[2:]] == [2**31 - 1, 0]


@pytest.mark.parametrize(
    ("acks", "idempotent", "numbered"),
    [(-1, None, True), (1, None, False), (0, None, False), (-1, False, False)],
)
def test_batches_carry_a_producers_id_only_where_repetitions_must_be_known(
    acks: int, idempotent: bool | None, numbered: bool
) -> None:
    cluster = HandCluster()
    producer = Producer(cluster.client(), acks=acks, idempotent=idempotent)
    send(producer, 1)
    run(producer.flush())
    bare = (-1, -1, -1)
    assert headers_of(cluster) == [(PRODUCER_ID, PRODUCER_EPOCH, 0) if numbered else bare]
    assert [one.request.acks for one in cluster.asked] == [acks]


def test_without_acknowledgements_no_answer_is_waited_for_and_no_offset_known() -> None:
    cluster = HandCluster()
    producer = Producer(cluster.client(), acks=0)
    send(producer, 1, 1)
    run(producer.flush())
    assert (producer.acknowledged, producer.offsets) == (2, {})
    assert (cluster.waits, cluster.unanswered_most) == ([], 0)


def test_batches_without_keys_change_their_partition_and_those_with_keys_change_nothing() -> None:
    producer = Producer(HandCluster({"t": [0] * 50}).client())

    async def sent(key: bytes | None) -> int:
        where = await producer.send("t", b"", key, timestamp=1)
        await producer.flush()
        return where.partition

    keyless = [run(sent(None)) for _ in range(5)]
    assert all(one != two for one, two in pairwise(keyless))
    assert len({run(sent(b"key")) for _ in range(5)}) == 1
