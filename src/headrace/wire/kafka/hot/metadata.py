"""Metadata (key 3, v0-v13): brokers, topics, partitions, leaders.

v1 null for all topics, rack, controller, internal topics; v2 cluster id; v3 throttle time; v4
auto-creation; v5 offline replicas; v7 leader epoch; v8 authorized operations (the cluster's up to
v10); v9 flexible; v10 topic ids; v12 topics by id; v13 top-level error.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.kafka.primitives import NO_UUID
from headrace.wire.kafka.reader import Reader, reader_of
from headrace.wire.kafka.writer import Writer, writer_of

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 10
NULL_NAMES_FROM = 12
ERROR_FROM = 13
OPERATIONS_UNKNOWN = -(1 << 31)
"""Authorized operations were not requested, or are not returned."""


class TopicRequest(NamedTuple):
    """A requested topic: by id if one is set, else by name."""

    name: str | None
    topic_id: bytes = NO_UUID


class MetadataRequest(NamedTuple):
    """A Metadata request; `topics` None: all topics (in v0 an empty list means that)."""

    topics: Sequence[TopicRequest] | None
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class BrokerResponse(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionResponse(NamedTuple):
    error_code: int
    partition: int
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class TopicResponse(NamedTuple):
    """A topic in a Metadata response; `name` None only for an unknown topic id (v12)."""

    error_code: int
    name: str | None
    topic_id: bytes
    is_internal: bool
    partitions: Sequence[PartitionResponse]
    authorized_operations: int = OPERATIONS_UNKNOWN


class MetadataResponse(NamedTuple):
    brokers: Sequence[BrokerResponse]
    cluster_id: str | None
    controller_id: int
    topics: Sequence[TopicResponse]
    throttle_ms: int = 0
    cluster_authorized_operations: int = OPERATIONS_UNKNOWN
    error_code: int = 0


def _has_cluster_operations(version: int) -> bool:
    return 8 <= version <= 10


def decode_request(version: int, body: memoryview) -> MetadataRequest:
    """Decode the body of a Metadata request. Raises Malformed."""
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    count = reader.nullable_count(2) if version >= 1 else reader.count(2)
    topics: list[TopicRequest] | None = None
    if count > 0 or (count == 0 and version >= 1):
        topics = [_read_topic_request(version, reader) for _ in range(count)]
    creation = reader.boolean() if version >= 4 else True
    cluster_operations = reader.boolean() if _has_cluster_operations(version) else False
    topic_operations = reader.boolean() if version >= 8 else False
    reader.skip_tags()
    return MetadataRequest(topics, creation, cluster_operations, topic_operations)


def _read_topic_request(version: int, reader: Reader) -> TopicRequest:
    if version >= TOPIC_IDS_FROM:
        topic_id = reader.uuid()
        name = reader.nullable_string()
    else:
        name, topic_id = reader.string(), NO_UUID
    reader.skip_tags()
    return TopicRequest(name, topic_id)


def encode_request(version: int, request: MetadataRequest) -> bytes:
    """Encode the body of a Metadata request."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    topics = request.topics
    if topics is None:
        writer.count(-1 if version >= 1 else 0)
    else:
        writer.count(len(topics))
    for topic in topics or ():
        if version >= TOPIC_IDS_FROM:
            writer.uuid(topic.topic_id)
            writer.nullable_string(topic.name)
        else:
            writer.string(topic.name or "")
        writer.tags()
    if version >= 4:
        writer.boolean(request.allow_auto_topic_creation)
    if _has_cluster_operations(version):
        writer.boolean(request.include_cluster_authorized_operations)
    if version >= 8:
        writer.boolean(request.include_topic_authorized_operations)
    writer.tags()
    return bytes(writer.out)


def encode_response(version: int, response: MetadataResponse) -> bytes:
    """Encode the body of a Metadata response."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    if version >= 3:
        writer.int32(response.throttle_ms)
    writer.count(len(response.brokers))
    for broker in response.brokers:
        writer.int32(broker.node_id)
        writer.string(broker.host)
        writer.int32(broker.port)
        if version >= 1:
            writer.nullable_string(broker.rack)
        writer.tags()
    if version >= 2:
        writer.nullable_string(response.cluster_id)
    if version >= 1:
        writer.int32(response.controller_id)
    writer.count(len(response.topics))
    for topic in response.topics:
        _write_topic(version, writer, topic)
    if _has_cluster_operations(version):
        writer.int32(response.cluster_authorized_operations)
    if version >= ERROR_FROM:
        writer.int16(response.error_code)
    writer.tags()
    return bytes(writer.out)


def _write_topic(version: int, writer: Writer, topic: TopicResponse) -> None:
    writer.int16(topic.error_code)
    if version >= NULL_NAMES_FROM:
        writer.nullable_string(topic.name)
    else:
        writer.string(topic.name or "")
    if version >= TOPIC_IDS_FROM:
        writer.uuid(topic.topic_id)
    if version >= 1:
        writer.boolean(topic.is_internal)
    writer.count(len(topic.partitions))
    for partition in topic.partitions:
        _write_partition(version, writer, partition)
    if version >= 8:
        writer.int32(topic.authorized_operations)
    writer.tags()


def _write_partition(version: int, writer: Writer, partition: PartitionResponse) -> None:
    writer.int16(partition.error_code)
    writer.int32(partition.partition)
    writer.int32(partition.leader_id)
    if version >= 7:
        writer.int32(partition.leader_epoch)
    writer.int32s(partition.replicas)
    writer.int32s(partition.isr)
    if version >= 5:
        writer.int32s(partition.offline)
    writer.tags()


def decode_response(version: int, body: memoryview) -> MetadataResponse:
    """Decode the body of a Metadata response. Raises Malformed."""
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    throttle_ms = reader.int32() if version >= 3 else 0
    brokers = []
    for _ in range(reader.count(10)):
        node_id, host, port = reader.int32(), reader.string(), reader.int32()
        rack = reader.nullable_string() if version >= 1 else None
        reader.skip_tags()
        brokers.append(BrokerResponse(node_id, host, port, rack))
    cluster_id = reader.nullable_string() if version >= 2 else None
    controller_id = reader.int32() if version >= 1 else -1
    topics = [_read_topic(version, reader) for _ in range(reader.count(8))]
    operations = reader.int32() if _has_cluster_operations(version) else OPERATIONS_UNKNOWN
    error_code = reader.int16() if version >= ERROR_FROM else 0
    reader.skip_tags()
    return MetadataResponse(
        brokers, cluster_id, controller_id, topics, throttle_ms, operations, error_code
    )


def _read_topic(version: int, reader: Reader) -> TopicResponse:
    error_code = reader.int16()
    name = reader.nullable_string() if version >= NULL_NAMES_FROM else reader.string()
    topic_id = reader.uuid() if version >= TOPIC_IDS_FROM else NO_UUID
    internal = reader.boolean() if version >= 1 else False
    partitions = [_read_partition(version, reader) for _ in range(reader.count(18))]
    operations = reader.int32() if version >= 8 else OPERATIONS_UNKNOWN
    reader.skip_tags()
    return TopicResponse(error_code, name, topic_id, internal, partitions, operations)


def _read_partition(version: int, reader: Reader) -> PartitionResponse:
    error_code, index, leader_id = reader.int16(), reader.int32(), reader.int32()
    epoch = reader.int32() if version >= 7 else -1
    replicas, isr = reader.int32s(), reader.int32s()
    offline = reader.int32s() if version >= 5 else []
    reader.skip_tags()
    return PartitionResponse(error_code, index, leader_id, epoch, replicas, isr, offline)
