"""ShareAcknowledge (key 79, v1-v2): acknowledgements of records that a share group's member
acquired.

v2 renewals and the lock's duration (KIP-1222). Always flexible.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.kafka.hot.common import NO_LEADER, CurrentLeader, NodeEndpoint, decode_endpoints
from headrace.wire.kafka.hot.share_common import (
    RENEW_FROM,
    AskedTopic,
    endpoint_bytes,
    leader_bytes,
    read_leader,
    read_topics,
    write_topics,
)
from headrace.wire.kafka.reader import CompactReader
from headrace.wire.kafka.writer import CompactWriter


class ShareAcknowledgeRequest(NamedTuple):
    group_id: str | None
    member_id: str | None
    session_epoch: int
    is_renew_ack: bool = False
    topics: Sequence[AskedTopic] = ()


class SettledPartition(NamedTuple):
    partition: int
    error_code: int = 0
    error_message: str | None = None
    current_leader: CurrentLeader = NO_LEADER


class SettledTopic(NamedTuple):
    topic_id: bytes
    partitions: Sequence[SettledPartition]


class ShareAcknowledgeResponse(NamedTuple):
    error_code: int = 0
    error_message: str | None = None
    lock_timeout_ms: int = 0
    topics: Sequence[SettledTopic] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()
    throttle_ms: int = 0


def decode_request(version: int, body: memoryview) -> ShareAcknowledgeRequest:
    """Decode the body of a ShareAcknowledge request. Raises Malformed."""
    reader = CompactReader(body)
    group_id, member_id = reader.nullable_string(), reader.nullable_string()
    epoch = reader.int32()
    renew = reader.boolean() if version >= RENEW_FROM else False
    topics = read_topics(reader)
    reader.skip_tags()
    return ShareAcknowledgeRequest(group_id, member_id, epoch, renew, topics)


def encode_request(version: int, request: ShareAcknowledgeRequest) -> bytes:
    """Encode the body of a ShareAcknowledge request."""
    writer = CompactWriter()
    writer.nullable_string(request.group_id)
    writer.nullable_string(request.member_id)
    writer.int32(request.session_epoch)
    if version >= RENEW_FROM:
        writer.boolean(request.is_renew_ack)
    write_topics(writer, request.topics)
    writer.tags()
    return bytes(writer.out)


def encode_response(version: int, response: ShareAcknowledgeResponse) -> bytes:
    """Encode the body of a ShareAcknowledge response."""
    writer = CompactWriter()
    writer.int32(response.throttle_ms)
    writer.int16(response.error_code)
    writer.nullable_string(response.error_message)
    if version >= RENEW_FROM:
        writer.int32(response.lock_timeout_ms)
    writer.count(len(response.topics))
    for topic in response.topics:
        writer.uuid(topic.topic_id)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            writer.int32(partition.partition)
            writer.int16(partition.error_code)
            writer.nullable_string(partition.error_message)
            writer.raw(leader_bytes(partition.current_leader))
            writer.tags()
        writer.tags()
    writer.raw(endpoint_bytes(response.node_endpoints))
    writer.tags()
    return bytes(writer.out)


def decode_response(version: int, body: memoryview) -> ShareAcknowledgeResponse:
    """Decode the body of a ShareAcknowledge response. Raises Malformed."""
    reader = CompactReader(body)
    throttle_ms, error_code = reader.int32(), reader.int16()
    message = reader.nullable_string()
    lock_ms = reader.int32() if version >= RENEW_FROM else 0
    topics = []
    for _ in range(reader.count(18)):
        topic_id = bytes(reader.uuid())
        partitions = []
        for _ in range(reader.count(17)):
            index, code, text = reader.int32(), reader.int16(), reader.nullable_string()
            partitions.append(SettledPartition(index, code, text, read_leader(reader)))
            reader.skip_tags()
        reader.skip_tags()
        topics.append(SettledTopic(topic_id, partitions))
    endpoints = decode_endpoints(reader)
    reader.skip_tags()
    return ShareAcknowledgeResponse(error_code, message, lock_ms, topics, endpoints, throttle_ms)
