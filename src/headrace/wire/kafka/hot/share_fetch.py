"""ShareFetch (key 78, v1-v2): records for a share group's member, and its acknowledgements.

v2 acquire modes (KIP-1206) and lock renewals (KIP-1222). Always flexible.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headrace.ports.file_ranges import Part
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
from headrace.wire.kafka.primitives import Bytes
from headrace.wire.kafka.reader import CompactReader
from headrace.wire.kafka.writer import CompactWriter, encode_uvarint

COPIED_BYTES_MAX = 4096
"""Records up to this size in bytes are copied next to the header: cheaper than another buffer."""
_NUMBERS = struct.Struct(">iiiiii")
_HEAD = struct.Struct(">ih")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_PARTITION = struct.Struct(">ih")
_ACQUIRED = struct.Struct(">qqhx")


class ForgottenTopic(NamedTuple):
    topic_id: bytes
    partitions: Sequence[int]


class ShareFetchRequest(NamedTuple):
    group_id: str | None
    member_id: str | None
    session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    acquire_mode: int = 0
    """0: whole batches; 1: exactly `max_records`."""
    is_renew_ack: bool = False
    topics: Sequence[AskedTopic] = ()
    forgotten: Sequence[ForgottenTopic] = ()


class AcquiredRecords(NamedTuple):
    first: int
    last: int
    delivery_count: int


class SharedPartition(NamedTuple):
    """A partition's part of a ShareFetch response; `records` are buffers to be sent in order."""

    partition: int
    error_code: int = 0
    error_message: str | None = None
    ack_error_code: int = 0
    ack_error_message: str | None = None
    current_leader: CurrentLeader = NO_LEADER
    records: Sequence[Bytes] | None = ()
    acquired: Sequence[AcquiredRecords | tuple[int, int, int]] = ()


class SharedTopic(NamedTuple):
    topic_id: bytes
    partitions: Sequence[SharedPartition]


class ShareFetchResponse(NamedTuple):
    error_code: int = 0
    error_message: str | None = None
    lock_timeout_ms: int = 0
    topics: Sequence[SharedTopic] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()
    throttle_ms: int = 0


def decode_request(version: int, body: memoryview) -> ShareFetchRequest:
    """Decode the body of a ShareFetch request. Raises Malformed."""
    reader = CompactReader(body)
    group_id, member_id = reader.nullable_string(), reader.nullable_string()
    epoch, wait_ms, bytes_min, bytes_max, records, batch = reader.unpack(_NUMBERS)
    mode, renew = 0, False
    if version >= RENEW_FROM:
        mode, renew = reader.int8(), reader.boolean()
    topics = read_topics(reader)
    forgotten = []
    for _ in range(reader.count(18)):
        forgotten.append(ForgottenTopic(bytes(reader.uuid()), reader.int32s()))
        reader.skip_tags()
    reader.skip_tags()
    return ShareFetchRequest(
        group_id, member_id, epoch, wait_ms, bytes_min, bytes_max, records, batch,
        mode, renew, topics, forgotten,
    )  # fmt: skip


def encode_request(version: int, request: ShareFetchRequest) -> bytes:
    """Encode the body of a ShareFetch request."""
    writer = CompactWriter()
    writer.nullable_string(request.group_id)
    writer.nullable_string(request.member_id)
    writer.raw(_NUMBERS.pack(*request[2:8]))
    if version >= RENEW_FROM:
        writer.int8(request.acquire_mode)
        writer.boolean(request.is_renew_ack)
    write_topics(writer, request.topics)
    writer.count(len(request.forgotten))
    for topic in request.forgotten:
        writer.uuid(topic.topic_id)
        writer.int32s(topic.partitions)
        writer.tags()
    writer.tags()
    return bytes(writer.out)


def encode_response(version: int, response: ShareFetchResponse) -> list[Part]:
    """Encode the body of a ShareFetch response as buffers to be sent in order; large records
    uncopied."""
    del version  # Both versions are equal.
    parts: list[Part] = []
    out = bytearray(_HEAD.pack(response.throttle_ms, response.error_code))
    _write_text(out, response.error_message)
    out += _INT32.pack(response.lock_timeout_ms)
    out += encode_uvarint(len(response.topics) + 1)
    for topic_id, partitions in response.topics:
        out += topic_id
        out += encode_uvarint(len(partitions) + 1)
        for partition in partitions:
            out += _PARTITION.pack(partition.partition, partition.error_code)
            _write_text(out, partition.error_message)
            out += _INT16.pack(partition.ack_error_code)
            _write_text(out, partition.ack_error_message)
            out += leader_bytes(partition.current_leader)
            out = _write_records(parts, out, partition.records)
            out += encode_uvarint(len(partition.acquired) + 1)
            for first, last, count in partition.acquired:
                out += _ACQUIRED.pack(first, last, count)
            out.append(0)
        out.append(0)
    out += endpoint_bytes(response.node_endpoints)
    out.append(0)
    parts.append(out)
    return parts


def decode_response(version: int, body: memoryview) -> ShareFetchResponse:
    """Decode the body of a ShareFetch response. Raises Malformed."""
    del version
    reader = CompactReader(body)
    throttle_ms, error_code = reader.int32(), reader.int16()
    message, lock_ms = reader.nullable_string(), reader.int32()
    topics = []
    for _ in range(reader.count(18)):
        topic_id = bytes(reader.uuid())
        partitions = [_read_partition(reader) for _ in range(reader.count(22))]
        reader.skip_tags()
        topics.append(SharedTopic(topic_id, partitions))
    endpoints = decode_endpoints(reader)
    reader.skip_tags()
    return ShareFetchResponse(error_code, message, lock_ms, topics, endpoints, throttle_ms)


def _read_partition(reader: CompactReader) -> SharedPartition:
    index, error_code, message = reader.int32(), reader.int16(), reader.nullable_string()
    ack_code, ack_message = reader.int16(), reader.nullable_string()
    leader = read_leader(reader)
    records = reader.nullable_bytes()
    acquired = []
    for _ in range(reader.count(19)):
        acquired.append(AcquiredRecords(reader.int64(), reader.int64(), reader.int16()))
        reader.skip_tags()
    reader.skip_tags()
    pieces = None if records is None else (records,) if len(records) else ()
    return SharedPartition(
        index, error_code, message, ack_code, ack_message, leader, pieces, acquired
    )


def _write_records(parts: list[Part], out: bytearray, records: Sequence[Bytes] | None) -> bytearray:
    """Append records after `out`; return the buffer to continue with."""
    if records is None:
        out.append(0)
        return out
    size = sum(map(len, records))
    out += encode_uvarint(size + 1)
    if size <= COPIED_BYTES_MAX:
        out += b"".join(records)
        return out
    parts.append(out)
    parts += records
    return bytearray()


def _write_text(out: bytearray, text: str | None) -> None:
    if text is None:
        out.append(0)
    else:
        data = text.encode()
        out += encode_uvarint(len(data) + 1) + data
