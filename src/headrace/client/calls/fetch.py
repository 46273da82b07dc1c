"""Fetch requests to one broker and their decoded responses."""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.client.calls.call import HotCall, check
from headrace.ports.file_ranges import FileRange, Part
from headrace.wire.kafka.api import ApiKey
from headrace.wire.kafka.hot import fetch as codec
from headrace.wire.kafka.hot import fetch_response
from headrace.wire.kafka.hot.fetch_response import FetchResponse
from headrace.wire.kafka.primitives import NO_UUID

FetchCall = HotCall[codec.FetchRequest, FetchResponse]


class Wanted(NamedTuple):
    """A partition to fetch: from which offset, with its size limit in bytes."""

    topic: str
    topic_id: bytes
    """The topic's id from its metadata, 16 bytes; zeros if unknown."""
    partition: int
    offset: int
    max_bytes: int = 8 << 20
    leader_epoch: int = -1


class Fetched(NamedTuple):
    """The response for one fetched partition."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]]
    """Producer id and first offset of each aborted transaction among the records."""
    records: memoryview
    """Whole batches, except that the last may be cut short; the first may begin before the
    requested offset. From a `FetchConnection`, valid until its next `receive`."""


def fetch_call(
    wanted: Sequence[Wanted],
    *,
    max_bytes: int = 50 << 20,
    min_bytes: int = 1,
    max_wait_ms: int = 500,
    read_committed: bool = False,
) -> FetchCall:
    """Build a Fetch request for partitions that one broker leads, without a fetch session."""
    topics: dict[tuple[str, bytes], list[codec.FetchPartition]] = {}
    for place in wanted:
        topics.setdefault((place.topic, place.topic_id), []).append(
            codec.FetchPartition(
                partition=place.partition,
                current_leader_epoch=place.leader_epoch,
                fetch_offset=place.offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                max_bytes=place.max_bytes,
            )
        )
    request = codec.FetchRequest(
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level=int(read_committed),
        topics=[codec.FetchTopic(*name, partitions) for name, partitions in topics.items()],
    )
    with_ids = all(place.topic_id != NO_UUID for place in wanted)
    return HotCall(
        ApiKey.FETCH,
        codec.encode_request,
        fetch_response.decode_response,
        request,
        versions=(4, 18 if with_ids else 12),
    )


def read_fetched(response: FetchResponse, wanted: Sequence[Wanted]) -> list[Fetched]:
    """Convert a Fetch response to its partitions; ApiError if the broker refused the whole
    request."""
    check(response.error_code)
    names = {place.topic_id: place.topic for place in wanted}
    found: list[Fetched] = []
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        found += [
            Fetched(
                name,
                partition.partition,
                partition.error_code,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log_start_offset,
                partition.aborted or (),
                _view(partition.records),
            )
            for partition in topic.partitions
        ]
    return found


def _view(records: Part | None) -> memoryview:
    if records is None or isinstance(records, FileRange):
        return memoryview(b"")
    return memoryview(records)
