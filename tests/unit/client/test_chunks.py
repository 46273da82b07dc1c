"""What a consumer hands out of the batches it fetched: from its position on, committed only."""

from collections.abc import Sequence

import pytest

from headrace.client.calls.fetch import Fetched, Wanted, fetch_call, read_fetched
from headrace.client.consumer.consumer import Chunk
from headrace.model.errors import ApiError, CorruptLogError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record import batch as wire
from headrace.record.record import ControlType, control_record
from headrace.wire.kafka.hot.fetch_response import FetchedPartition, FetchedTopic, FetchResponse
from headrace.wire.kafka.primitives import NO_UUID

WHERE = TopicPartition("t", 3)
ONE, OTHER = 11, 12


def data(base: int, count: int = 1, producer: int = -1) -> bytes:
    """A batch of values that are their offsets, in a transaction where it has a producer."""
    made = [wire.new_record(b"%d" % (base + at), None, 1) for at in range(count)]
    if producer < 0:
        return wire.build(made, base_offset=base)
    return wire.build(
        made, base_offset=base, producer_id=producer, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip


def ends(base: int, producer: int, kind: ControlType) -> bytes:
    """The marker that ends a producer's transaction."""
    return wire.build(
        [control_record(kind, 0, 1)], base_offset=base, producer_id=producer, producer_epoch=0,
        transactional=True, control=True,
    )  # fmt: skip


def chunk(
    *parts: bytes, position: int = 0, aborted: Sequence[tuple[int, int]] = (), committed: bool
) -> Chunk:
    """A chunk of these batches."""
    records = memoryview(b"".join(parts))
    return Chunk(WHERE, position, Fetched("t", 3, 0, 99, 99, 0, aborted, records), committed)


def values(found: Chunk) -> list[int]:
    """The values of its records."""
    return [int(record.value or b"-1") for record in found.records()]


def test_aborted_records_are_left_out_and_those_of_the_same_producer_behind_them_are_not() -> None:
    parts = (
        data(0), data(1, 2, ONE), data(3, 1, OTHER), ends(4, ONE, ControlType.ABORT),
        data(5, 1, ONE), ends(6, OTHER, ControlType.COMMIT), ends(7, ONE, ControlType.COMMIT),
    )  # fmt: skip
    aborted = [(ONE, 1)]
    assert values(chunk(*parts, aborted=aborted, committed=True)) == [0, 3, 5]
    assert values(chunk(*parts, aborted=aborted, committed=False)) == [0, 1, 2, 3, 5]


def test_several_aborted_transactions_of_one_producer_begin_each_at_its_offset() -> None:
    parts = (
        data(0, 1, ONE), ends(1, ONE, ControlType.ABORT), data(2, 1, ONE),
        ends(3, ONE, ControlType.COMMIT), data(4, 1, ONE), data(5, 1, OTHER),
        ends(6, ONE, ControlType.ABORT), ends(7, OTHER, ControlType.ABORT), data(8),
    )  # fmt: skip
    aborted = [(ONE, 4), (OTHER, 5), (ONE, 0)]
    assert values(chunk(*parts, aborted=aborted, committed=True)) == [2, 8]


def test_what_is_not_transactional_is_never_aborted() -> None:
    plain = wire.build(
        [wire.new_record(b"1", None, 1)], base_offset=1, producer_id=ONE, producer_epoch=0,
        base_sequence=0,
    )  # fmt: skip
    assert values(chunk(data(0, 1, ONE), plain, aborted=[(ONE, 0)], committed=True)) == [1]


@pytest.mark.parametrize("position", range(4, 9))
def test_records_before_the_position_are_left_out(position: int) -> None:
    found = chunk(data(3, 2), data(5, 3), position=position, committed=True)
    assert values(found) == list(range(position, 8))
    assert found.next_position == 8
    heads = [header.base_offset for header, _ in found.batches()]
    assert heads == ([3, 5] if position == 4 else [5] if position < 8 else [])


def test_where_no_whole_batch_came_the_position_stays() -> None:
    assert chunk(data(0, 3)[:-1], position=5, committed=True).next_position == 5
    assert chunk(position=5, committed=True).next_position == 5


def test_a_batch_that_was_changed_is_not_handed_out() -> None:
    changed = bytearray(data(7))
    changed[-1] ^= 1
    with pytest.raises(CorruptLogError, match="t-3: wrong checksum in the batch at offset 7"):
        values(chunk(bytes(changed), committed=True))


def test_a_fetch_asks_for_what_it_was_told_to() -> None:
    wanted = [
        Wanted("a", NO_UUID, 0, 5), Wanted("b", NO_UUID, 1, 6, 77, 4), Wanted("a", NO_UUID, 2, 7),
    ]  # fmt: skip
    request = fetch_call(wanted).request
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 50 << 20)
    assert (request.isolation_level, request.session_id, request.session_epoch) == (0, 0, -1)
    assert fetch_call(wanted, read_committed=True).request.isolation_level == 1
    assert [(topic.name, [*map(list, topic.partitions)]) for topic in request.topics] == [
        (name, [list(one) for one in partitions])
        for name, partitions in (
            ("a", [asked(0, 5), asked(2, 7)]),
            ("b", [asked(1, 6, 77, 4)]),
        )
    ]
    for topic_id, newest in ((NO_UUID, 12), (b"i" * 16, 18)):
        assert fetch_call([Wanted("a", topic_id, 0, 5)]).versions == (4, newest)
    mixed = [Wanted("a", b"i" * 16, 0, 5), Wanted("b", NO_UUID, 0, 5)]
    assert fetch_call(mixed).versions == (4, 12)


def asked(partition: int, offset: int, size: int = 8 << 20, epoch: int = -1) -> tuple[object, ...]:
    """What is asked of a partition: its fields in their order."""
    (made,) = fetch_call([Wanted("x", NO_UUID, partition, offset, size, epoch)]).request.topics
    (one,) = made.partitions
    assert one[:6] == (partition, epoch, offset, -1, -1, size)
    return tuple(one)


def test_an_answer_is_read_field_by_field_with_the_name_of_its_topics_id() -> None:
    wanted = [Wanted("t", b"i" * 16, 3, 5)]
    partition = FetchedPartition(3, 9, 40, 30, 20, b"abc", [(1, 2)])  # type: ignore[list-item]
    for name, topic_id in (("t", NO_UUID), ("", b"i" * 16)):
        response = FetchResponse(topics=[FetchedTopic(name, topic_id, [partition])])
        (found,) = read_fetched(response, wanted)
        assert found[:7] == ("t", 3, 9, 40, 30, 20, [(1, 2)])
        assert bytes(found.records) == b"abc"
    with pytest.raises(ApiError) as refused:
        read_fetched(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), wanted)
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
