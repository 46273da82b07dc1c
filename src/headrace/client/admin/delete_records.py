"""DeleteRecords: delete the records of partitions before an offset (KIP-107)."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from headrace.client.calls.call import ColdCall, Maker, error_code
from headrace.client.client import Client
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.wire.kafka.api import ApiKey

Started = dict[TopicPartition, "int | ApiError"]
"""Each partition's new log start offset, or the error that kept its records."""


async def delete_records(client: Client, before: Mapping[TopicPartition, int]) -> Started:
    """Delete each partition's records before an offset; return the new log start offsets or errors.

    The leader deletes them, and its followers follow.
    """
    found: Started = {}

    async def attempt() -> Started:
        left = [partition for partition in before if partition not in found]
        known = await client.metadata(sorted({partition.topic for partition in left}))
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in left:
            by_leader.setdefault(known.leader(*partition), []).append(partition)
        for leader, partitions in sorted(by_leader.items()):
            call = _call(client, {partition: before[partition] for partition in partitions})
            found.update(await client.ask(await client.broker(leader), call))
        return found

    return await client.retrying(attempt) if before else {}


def _call(client: Client, before: Mapping[TopicPartition, int]) -> ColdCall[Started]:
    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, number), offset in before.items():
        topics.setdefault(topic, []).append((number, offset))

    def build(maker: Maker) -> Any:  # noqa: ANN401 - kio's entity
        wanted = tuple(
            maker.part(
                "DeleteRecordsTopic",
                name=topic,
                partitions=tuple(
                    maker.part("DeleteRecordsPartition", partition_index=number, offset=offset)
                    for number, offset in partitions
                ),
            )
            for topic, partitions in topics.items()
        )
        timeout = timedelta(seconds=client.request_timeout_seconds)
        return maker.request(topics=wanted, timeout=timeout)

    def parse(response: Any) -> Started:  # noqa: ANN401 - kio's entity
        started: Started = {}
        for topic in response.topics:
            for result in topic.partitions:
                partition = TopicPartition(str(topic.name), int(result.partition_index))
                code = error_code(result.error_code)
                if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    raise ApiError(code, f"{partition} is led by another broker")
                started[partition] = (
                    ApiError(code, _refusal(partition, code)) if code else int(result.low_watermark)
                )
        return started

    return ColdCall(ApiKey.DELETE_RECORDS, build, parse)


def _refusal(partition: TopicPartition, code: ErrorCode) -> str:
    if code is ErrorCode.POLICY_VIOLATION:
        return (
            f"{partition} is compacted, or internal: its records are not deleted by offset;"
            " cleanup.policy=compact,delete would allow that"
        )
    return f"{partition}: {code.name.lower().replace('_', ' ')}"
