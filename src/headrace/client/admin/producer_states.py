"""Producer states of partitions, and aborting a hanging transaction in a partition (KIP-664)."""

from collections.abc import Collection
from typing import Any, NamedTuple

from headrace.client.calls.call import ColdCall, Maker, check, error_code
from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.wire.kafka.api import ApiKey


class ProducerState(NamedTuple):
    """The state of a producer in a partition, as the partition's leader reports it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    """Timestamp of the producer's last batch, in ms since 1970."""
    coordinator_epoch: int
    """Coordinator epoch of the producer's last transaction marker; -1 if there was none."""
    transaction_start: int
    """First offset of the producer's open transaction in this partition; -1 if it has none."""


async def describe_producers(
    client: Client, partitions: Collection[TopicPartition]
) -> list[ProducerState]:
    """Return the producer states of partitions, sorted by partition and producer id.

    ApiError of the first partition that its leader refuses.
    """

    async def attempt() -> list[ProducerState]:
        known = await client.metadata(sorted({partition.topic for partition in partitions}))
        by_leader: dict[int, dict[str, list[int]]] = {}
        for topic, number in sorted(partitions):
            topics = by_leader.setdefault(known.leader(topic, number), {})
            topics.setdefault(topic, []).append(number)
        found: list[ProducerState] = []
        for leader, topics in by_leader.items():
            found += await client.ask(await client.broker(leader), _describe_call(topics))
        return sorted(found)

    return await client.retrying(attempt) if partitions else []


def _describe_call(topics: dict[str, list[int]]) -> ColdCall[list[ProducerState]]:
    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        wanted = tuple(
            maker.part("TopicRequest", name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in topics.items()
        )
        return maker.request(topics=wanted)

    def parse(response: Any) -> list[ProducerState]:  # noqa: ANN401 - kio's entity
        found = []
        for topic in response.topics:
            for answer in topic.partitions:
                partition = TopicPartition(str(topic.name), int(answer.partition_index))
                check(answer.error_code, answer.error_message or f"producers of {partition}")
                found += [
                    ProducerState(
                        partition,
                        int(producer.producer_id),
                        int(producer.producer_epoch),
                        int(producer.last_sequence),
                        int(producer.last_timestamp),
                        int(producer.coordinator_epoch),
                        int(producer.current_txn_start_offset),
                    )
                    for producer in answer.active_producers
                ]
        return found

    return ColdCall(ApiKey.DESCRIBE_PRODUCERS, build, parse)


async def abort_in_partition(client: Client, producer: ProducerState) -> None:
    """Write an abort marker for a producer's open transaction into one partition.

    The transaction coordinator is not asked: this ends hanging transactions that it has forgotten.
    """
    partition = producer.partition

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        topic = maker.part(
            "WritableTxnMarkerTopic",
            name=partition.topic,
            partition_indexes=(partition.partition,),
        )
        marker = maker.part(
            "WritableTxnMarker",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=(topic,),
            coordinator_epoch=max(producer.coordinator_epoch, 0),
            transaction_version=0,
        )
        return maker.request(markers=(marker,))

    def parse(response: Any) -> None:  # noqa: ANN401 - kio's entity
        for marker in response.markers:
            for topic in marker.topics:
                for answer in topic.partitions:
                    code = error_code(answer.error_code)
                    if code is not ErrorCode.NONE:
                        raise ApiError(code, f"the transaction in {partition} cannot be ended")

    call = ColdCall(ApiKey.WRITE_TXN_MARKERS, build, parse)

    async def attempt() -> None:
        known = await client.metadata([partition.topic])
        await client.ask(await client.broker(known.leader(*partition)), call)

    await client.retrying(attempt)
