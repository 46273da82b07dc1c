"""OffsetCommit (key 8, v2-v10): committed offsets of a group.

v2-v4 retention time; v3 throttle time; v6 leader epoch; v7 static members; v8 flexible; v9 member
epochs of KIP-848; v10 topic ids.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.kafka.primitives import NO_UUID
from headrace.wire.kafka.reader import Reader, reader_of
from headrace.wire.kafka.writer import Writer, writer_of

LEADER_EPOCHS_FROM = 6
FLEXIBLE_FROM = 8
TOPIC_IDS_FROM = 10
RETENTION_UP_TO = 4


class PartitionRequest(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


class TopicRequest(NamedTuple):
    name: str
    topic_id: bytes
    partitions: Sequence[PartitionRequest]


class OffsetCommitRequest(NamedTuple):
    """An OffsetCommit request; `generation_id`: the member epoch in groups of KIP-848, -1 without a
    membership."""

    group_id: str
    generation_id: int
    member_id: str
    topics: Sequence[TopicRequest]
    group_instance_id: str | None = None
    retention_ms: int = -1


class PartitionResponse(NamedTuple):
    partition: int
    error_code: int = 0


class TopicResponse(NamedTuple):
    name: str
    topic_id: bytes
    partitions: Sequence[PartitionResponse]


class OffsetCommitResponse(NamedTuple):
    topics: Sequence[TopicResponse]
    throttle_ms: int = 0


def _read_name(version: int, reader: Reader) -> tuple[str, bytes]:
    if version >= TOPIC_IDS_FROM:
        return "", reader.uuid()
    return reader.string(), NO_UUID


def _write_name(version: int, writer: Writer, name: str, topic_id: bytes) -> None:
    if version >= TOPIC_IDS_FROM:
        writer.uuid(topic_id)
    else:
        writer.string(name)


def decode_request(
    version: int, body: memoryview, places: list[int] | None = None
) -> OffsetCommitRequest:
    """Decode the body of an OffsetCommit request. Raises Malformed.

    The positions of the offsets in `body` are appended to `places`.
    """
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    group_id, generation_id, member_id = reader.string(), reader.int32(), reader.string()
    instance = reader.nullable_string() if version >= 7 else None
    retention_ms = reader.int64() if version <= RETENTION_UP_TO else -1
    topics = []
    for _ in range(reader.count(3)):
        name, topic_id = _read_name(version, reader)
        partitions = []
        for _ in range(reader.count(14)):
            index = reader.int32()
            if places is not None:
                places.append(reader.at)
            offset = reader.int64()
            epoch = reader.int32() if version >= LEADER_EPOCHS_FROM else -1
            partitions.append(PartitionRequest(index, offset, epoch, reader.nullable_string()))
            reader.skip_tags()
        reader.skip_tags()
        topics.append(TopicRequest(name, topic_id, partitions))
    reader.skip_tags()
    return OffsetCommitRequest(group_id, generation_id, member_id, topics, instance, retention_ms)


def encode_request(version: int, request: OffsetCommitRequest) -> bytes:
    """Encode the body of an OffsetCommit request."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    writer.string(request.group_id)
    writer.int32(request.generation_id)
    writer.string(request.member_id)
    if version >= 7:
        writer.nullable_string(request.group_instance_id)
    if version <= RETENTION_UP_TO:
        writer.int64(request.retention_ms)
    writer.count(len(request.topics))
    for topic in request.topics:
        _write_name(version, writer, topic.name, topic.topic_id)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            writer.int32(partition.partition)
            writer.int64(partition.offset)
            if version >= LEADER_EPOCHS_FROM:
                writer.int32(partition.leader_epoch)
            writer.nullable_string(partition.metadata)
            writer.tags()
        writer.tags()
    writer.tags()
    return bytes(writer.out)


def encode_response(version: int, response: OffsetCommitResponse) -> bytes:
    """Encode the body of an OffsetCommit response."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    if version >= 3:
        writer.int32(response.throttle_ms)
    writer.count(len(response.topics))
    for topic in response.topics:
        _write_name(version, writer, topic.name, topic.topic_id)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            writer.int32(partition.partition)
            writer.int16(partition.error_code)
            writer.tags()
        writer.tags()
    writer.tags()
    return bytes(writer.out)


def decode_response(version: int, body: memoryview) -> OffsetCommitResponse:
    """Decode the body of an OffsetCommit response. Raises Malformed."""
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    throttle_ms = reader.int32() if version >= 3 else 0
    topics = []
    for _ in range(reader.count(3)):
        name, topic_id = _read_name(version, reader)
        partitions = []
        for _ in range(reader.count(6)):
            partitions.append(PartitionResponse(reader.int32(), reader.int16()))
            reader.skip_tags()
        reader.skip_tags()
        topics.append(TopicResponse(name, topic_id, partitions))
    reader.skip_tags()
    return OffsetCommitResponse(topics, throttle_ms)
