"""ListOffsets: first offset, end offset, or offset at a timestamp, of partitions."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.client.calls.call import HotCall, check
from headrace.client.calls.metadata import Metadata
from headrace.client.client import Client
from headrace.model.nouns import TopicPartition
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import list_offsets as codec

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3


class OffsetAt(NamedTuple):
    """An offset and its record's timestamp; both -1 if no record has that timestamp or a later
    one."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    metadata: Metadata | None = None,
) -> dict[TopicPartition, OffsetAt]:
    """Return each partition's offset at a timestamp in ms, or at LATEST, EARLIEST or MAX_TIMESTAMP.

    LATEST is the high watermark, or with `read_committed` the last stable offset. `metadata`:
    fetched just before, used at the first attempt in place of another Metadata request.
    """
    fresh = metadata

    async def attempt() -> dict[TopicPartition, OffsetAt]:
        nonlocal fresh
        topics_wanted = sorted({partition.topic for partition in wanted})
        known, fresh = fresh or await client.metadata(topics_wanted), None
        by_leader: dict[int, dict[str, list[codec.PartitionRequest]]] = {}
        for (topic, partition), timestamp in wanted.items():
            leader = known.leader(topic, partition)
            topics = by_leader.setdefault(leader, {})
            topics.setdefault(topic, []).append(codec.PartitionRequest(partition, timestamp))
        found: dict[TopicPartition, OffsetAt] = {}
        for leader, topics in by_leader.items():
            found.update(await _ask_leader(client, leader, topics, int(read_committed)))
        return found

    return await client.retrying(attempt) if wanted else {}


async def _ask_leader(
    client: Client, leader: int, topics: dict[str, list[codec.PartitionRequest]], isolation: int
) -> dict[TopicPartition, OffsetAt]:
    timeout_ms = int(client.request_timeout_seconds * 1000)
    request = codec.ListOffsetsRequest(
        -1, isolation, [codec.TopicRequest(name, topics[name]) for name in topics], timeout_ms
    )
    call = HotCall(ApiKey.LIST_OFFSETS, codec.encode_request, codec.decode_response, request)
    response = await client.ask(await client.broker(leader), call)
    found = {}
    for topic in response.topics:
        for partition in topic.partitions:
            check(partition.error_code, f"offsets of {topic.name}-{partition.partition}")
            at = OffsetAt(partition.offset, partition.timestamp, partition.leader_epoch)
            found[TopicPartition(topic.name, partition.partition)] = at
    return found
