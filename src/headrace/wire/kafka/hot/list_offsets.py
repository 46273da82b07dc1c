"""ListOffsets (key 2, v1-v11): offsets by timestamp, or first and end offsets.

v2 isolation level, throttle time; v4 leader epochs; v6 flexible; v7 max timestamp; v8, v9, v11
timestamps of tiered storage; v10 timeout.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.kafka.reader import reader_of
from headrace.wire.kafka.writer import writer_of

FLEXIBLE_FROM = 6
TIMEOUT_FROM = 10

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6


class PartitionRequest(NamedTuple):
    """A partition to look up; `timestamp` in ms since 1970, or a constant of this module."""

    partition: int
    timestamp: int
    current_leader_epoch: int = -1


class TopicRequest(NamedTuple):
    name: str
    partitions: Sequence[PartitionRequest]


class ListOffsetsRequest(NamedTuple):
    replica_id: int
    isolation_level: int
    topics: Sequence[TopicRequest]
    timeout_ms: int = 0


class PartitionResponse(NamedTuple):
    partition: int
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class TopicResponse(NamedTuple):
    name: str
    partitions: Sequence[PartitionResponse]


class ListOffsetsResponse(NamedTuple):
    topics: Sequence[TopicResponse]
    throttle_ms: int = 0


def decode_request(version: int, body: memoryview) -> ListOffsetsRequest:
    """Decode the body of a ListOffsets request. Raises Malformed."""
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    replica_id = reader.int32()
    isolation = reader.int8() if version >= 2 else 0
    topics = []
    for _ in range(reader.count(3)):
        name = reader.string()
        partitions = []
        for _ in range(reader.count(12)):
            index = reader.int32()
            epoch = reader.int32() if version >= 4 else -1
            partitions.append(PartitionRequest(index, reader.int64(), epoch))
            reader.skip_tags()
        reader.skip_tags()
        topics.append(TopicRequest(name, partitions))
    timeout_ms = reader.int32() if version >= TIMEOUT_FROM else 0
    reader.skip_tags()
    return ListOffsetsRequest(replica_id, isolation, topics, timeout_ms)


def encode_request(version: int, request: ListOffsetsRequest) -> bytes:
    """Encode the body of a ListOffsets request."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    writer.int32(request.replica_id)
    if version >= 2:
        writer.int8(request.isolation_level)
    writer.count(len(request.topics))
    for topic in request.topics:
        writer.string(topic.name)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            writer.int32(partition.partition)
            if version >= 4:
                writer.int32(partition.current_leader_epoch)
            writer.int64(partition.timestamp)
            writer.tags()
        writer.tags()
    if version >= TIMEOUT_FROM:
        writer.int32(request.timeout_ms)
    writer.tags()
    return bytes(writer.out)


def encode_response(version: int, response: ListOffsetsResponse) -> bytes:
    """Encode the body of a ListOffsets response."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    if version >= 2:
        writer.int32(response.throttle_ms)
    writer.count(len(response.topics))
    for topic in response.topics:
        writer.string(topic.name)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            writer.int32(partition.partition)
            writer.int16(partition.error_code)
            writer.int64(partition.timestamp)
            writer.int64(partition.offset)
            if version >= 4:
                writer.int32(partition.leader_epoch)
            writer.tags()
        writer.tags()
    writer.tags()
    return bytes(writer.out)


def decode_response(version: int, body: memoryview) -> ListOffsetsResponse:
    """Decode the body of a ListOffsets response. Raises Malformed."""
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    throttle_ms = reader.int32() if version >= 2 else 0
    topics = []
    for _ in range(reader.count(3)):
        name = reader.string()
        partitions = []
        for _ in range(reader.count(22)):
            index, error_code = reader.int32(), reader.int16()
            timestamp, offset = reader.int64(), reader.int64()
            epoch = reader.int32() if version >= 4 else -1
            reader.skip_tags()
            partitions.append(PartitionResponse(index, error_code, timestamp, offset, epoch))
        reader.skip_tags()
        topics.append(TopicResponse(name, partitions))
    reader.skip_tags()
    return ListOffsetsResponse(topics, throttle_ms)
