"""A consumer's turns: whom it asks for what, how long each may wait, and what errors make it do."""

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.client.calls.metadata import Metadata, PartitionMetadata, TopicMetadata
from headrace.client.calls.offsets import EARLIEST, LATEST
from headrace.client.client import BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN, Client
from headrace.client.consumer.consumer import Consumer
from headrace.client.sync import run
from headrace.client.transport.port import Address
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.record import batch as batches
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import list_offsets
from headrace.wire.kafka.hot.fetch_response import FetchedPartition, FetchedTopic, FetchResponse
from tests.support.client.hand_transport import HandTransport

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEADERLESS = ErrorCode.LEADER_NOT_AVAILABLE
IDS = {"t": b"t" * 16, "u": b"u" * 16}


class HandClient(Client):
    """A client whose two brokers, each the leader of the partition of its number, are the test."""

    def __init__(self, **settings: Any) -> None:
        self.hand = HandTransport()
        super().__init__(self.hand, [Address("h", 1)], **settings)
        self.answers: dict[TopicPartition, list[FetchedPartition]] = {}
        """What each partition's next fetches bring; nothing new where that is over."""
        self.fetches: list[tuple[int, Any, float]] = []
        """Leader, request and how long the broker may wait for it."""
        self.resets: list[Any] = []
        self.asked_for: list[Sequence[str] | None] = []

    async def metadata(
        self, topics: Sequence[str] | None = None, *, create: bool = False
    ) -> Metadata:
        self.asked_for.append(topics)
        found = {
            name: TopicMetadata(
                name,
                IDS[name],
                False,
                [PartitionMetadata(at, at, 0, [at], [at], []) for at in range(2)],
            )
            for name in topics or ()
        }
        self.known = Metadata("c", 0, {at: Address("h", at + 1) for at in range(2)}, {}, found)
        return self.known

    async def broker(self, broker_id: int) -> Any:
        return broker_id

    async def ask(
        self, link: Any, call: Any, *, wait_seconds: float = 0.0, seconds: float | None = None
    ) -> Any:
        if call.key == ApiKey.LIST_OFFSETS:
            self.resets.append((link, call.request.topics))
            ((topic, parts),) = call.request.topics
            answer = [list_offsets.PartitionResponse(parts[0].partition, 0, -1, 70, 0)]
            return list_offsets.ListOffsetsResponse([list_offsets.TopicResponse(topic, answer)])
        self.fetches.append((link, call.request, wait_seconds))
        return FetchResponse(
            topics=[
                FetchedTopic(
                    "",
                    topic.topic_id,
                    [self._next(topic.name, asked) for asked in topic.partitions],
                )
                for topic in call.request.topics
            ]
        )

    def _next(self, topic: str, asked: Any) -> FetchedPartition:
        left = self.answers.get(TopicPartition(topic, asked.partition))
        return left.pop(0) if left else nothing(asked.partition)


def nothing(partition: int, code: int = 0) -> FetchedPartition:
    return FetchedPartition(partition, code, 0, 0, 0)


def two_records(partition: int, base: int = 0) -> FetchedPartition:
    """Two records; the high watermark is 9, the last stable offset 5."""
    written = [batches.Record(at, 1_000, None, b"v", ()) for at in range(2)]
    return FetchedPartition(partition, 0, 9, 5, 0, records=batches.build(written, base_offset=base))


def poll(consumer: Consumer, **settings: Any) -> list[Any]:
    return run(consumer.poll(**settings))


def test_each_leader_is_asked_for_its_partitions_with_their_ids_offsets_and_bounds() -> None:
    client = HandClient()
    consumer = Consumer(client, {T0: 3, T1: 7}, max_bytes=1000, partition_max_bytes=100)
    poll(consumer, max_wait_ms=301, min_bytes=4)
    assert [(link, wait) for link, _, wait in client.fetches] == [(0, 0.15), (1, 0.15)]
    for leader, request, _ in client.fetches:
        assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (150, 4, 1000)
        assert request.isolation_level == 0
        (topic,) = request.topics
        assert (topic.name, topic.topic_id) == ("t", IDS["t"])
        (asked,) = topic.partitions
        expected = (leader, [3, 7][leader], 100)
        assert (asked.partition, asked.fetch_offset, asked.max_bytes) == expected


def test_bounds_and_waits_are_these_where_nobody_says_otherwise() -> None:
    client = HandClient()
    poll(Consumer(client, {T0: 0}))
    ((_, request, wait),) = client.fetches
    assert (request.max_wait_ms, request.min_bytes, wait) == (500, 1, 0.5)
    assert request.max_bytes == 50 * 1024 * 1024
    assert request.topics[0].partitions[0].max_bytes == 4 * 1024 * 1024
    poll(Consumer(client, {T0: 0}, read_committed=True))
    assert client.fetches[1][1].isolation_level == 1


def test_who_leads_is_asked_once_and_again_for_a_topic_that_is_not_known() -> None:
    client = HandClient()
    consumer = Consumer(client, {T0: 0})
    poll(consumer)
    poll(consumer)
    assert client.asked_for == [["t"]]
    consumer.positions[TopicPartition("u", 0)] = 0
    poll(consumer)
    assert client.asked_for == [["t"], ["t", "u"]]


def test_a_consumer_of_nothing_waits_and_asks_nobody() -> None:
    client = HandClient()
    assert poll(Consumer(client, {}), max_wait_ms=250) == []
    assert client.hand.slept == [0.25]
    assert client.fetches == client.asked_for == []


@pytest.mark.parametrize(("read_committed", "end"), [(False, 9), (True, 5)])
def test_what_was_fetched_moves_the_position_and_tells_the_end(
    read_committed: bool, end: int
) -> None:
    client = HandClient()
    client.answers = {T0: [two_records(0, 3)]}
    consumer = Consumer(client, {T0: 3, T1: 0}, read_committed=read_committed)
    assert not consumer.caught_up()
    (chunk,) = poll(consumer)
    assert (chunk.partition, chunk.position, chunk.read_committed) == (T0, 3, read_committed)
    assert consumer.positions == {T0: 5, T1: 0}
    assert consumer.high_watermarks == {T0: end, T1: 0}
    assert consumer.caught_up() is read_committed
    consumer.positions[T0] = end - 1
    assert not consumer.caught_up()
    consumer.positions[T0] = end
    assert consumer.caught_up()


@pytest.mark.parametrize("reset", [EARLIEST, LATEST])
def test_an_offset_that_is_gone_is_replaced_by_where_to_go_on(reset: int) -> None:
    client = HandClient()
    client.answers = {T1: [nothing(1, ErrorCode.OFFSET_OUT_OF_RANGE)]}
    consumer = Consumer(client, {T1: 3}, reset=reset)
    assert poll(consumer) == []
    ((leader, ((topic, parts),)),) = client.resets
    assert (leader, topic, parts) == (1, "t", [list_offsets.PartitionRequest(1, reset)])
    assert consumer.positions == {T1: 70}
    assert consumer.failing == {}
    poll(consumer)
    assert client.hand.slept == [], "a place to go on is no failure"


def test_an_offset_that_is_gone_is_an_error_where_that_is_wanted() -> None:
    client = HandClient()
    client.answers = {T1: [nothing(1, ErrorCode.OFFSET_OUT_OF_RANGE)]}
    with pytest.raises(ApiError) as refused:
        poll(Consumer(client, {T1: 3}, reset=None))
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert "fetching t-1 at offset 3" in str(refused.value)


def test_an_error_that_may_pass_is_asked_after_ever_less_often_until_it_has() -> None:
    client = HandClient(retry_seconds=1000)
    client.answers = {T0: [nothing(0, LEADERLESS)] * 7 + [two_records(0)]}
    consumer = Consumer(client, {T0: 0})
    for _ in range(7):
        assert poll(consumer) == []
        assert consumer.failing == {T0: LEADERLESS}
        assert client.known is None, "who leads is asked for anew"
    assert len(poll(consumer)) == 1
    assert consumer.failing == {}
    poll(consumer)
    waits = [min(BACKOFF_SECONDS_MIN * 2**times, BACKOFF_SECONDS_MAX) for times in range(7)]
    assert client.hand.slept == waits


def test_a_partition_that_has_had_errors_alone_for_too_long_is_raised_behind_its_chunks() -> None:
    client = HandClient(retry_seconds=0.05)
    client.answers = {
        T0: [nothing(0, LEADERLESS)] * 3,
        T1: [two_records(1, 2 * at) for at in (0, 1, 2)],
    }
    consumer = Consumer(client, {T0: 4, T1: 0})
    assert len(poll(consumer)) == 1
    assert len(poll(consumer)) == 1, "chunks of the turn that fails come first"
    with pytest.raises(ApiError) as refused:
        poll(consumer)
    assert refused.value.code is LEADERLESS
    assert "fetching t-0 at offset 4" in str(refused.value)
    assert len(poll(consumer)) == 1, "it is raised once, and then asked again"


def test_a_success_in_between_begins_the_patience_anew() -> None:
    client = HandClient(retry_seconds=0.05)
    failed = nothing(0, LEADERLESS)
    client.answers = {T0: [failed, nothing(0), failed, nothing(0), failed]}
    consumer = Consumer(client, {T0: 4})
    for _ in range(6):
        assert poll(consumer) == []


def test_an_error_that_does_not_pass_is_raised_at_once() -> None:
    client = HandClient()
    client.answers = {T0: [nothing(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]}
    with pytest.raises(ApiError) as refused:
        poll(Consumer(client, {T0: 4}))
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert client.hand.slept == []


def test_bytes_without_a_batch_that_goes_on_are_asked_for_ever_less_often() -> None:
    client = HandClient(retry_seconds=10)
    cut = two_records(0)
    assert isinstance(cut.records, bytes)
    broken = cut._replace(records=cut.records[:70])
    client.answers[T0] = [broken] * 1000
    consumer = Consumer(client, {T0: 0})
    for _ in range(4):
        assert poll(consumer) == []
    assert consumer.failing == {T0: ErrorCode.CORRUPT_MESSAGE}
    assert client.hand.slept == [BACKOFF_SECONDS_MIN * factor for factor in (1, 2, 4)]

    def poll_on() -> None:
        for _ in range(100):
            poll(consumer)

    with pytest.raises(ApiError, match="fetching t-0 at offset 0"):
        poll_on()
    assert len(client.fetches) < 30
