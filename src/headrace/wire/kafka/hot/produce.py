"""Produce (key 0, v3-v13): record batches in, base offsets out.

v5 log start offset; v8 per-record errors (KIP-467); v9 flexible; v10 current leader (KIP-951); v13
topic ids. Records are views of the request's bytes, never copies.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.kafka.hot.common import (
    NO_LEADER,
    CurrentLeader,
    NodeEndpoint,
    decode_endpoints,
    decode_leader,
    encode_endpoints,
    encode_leader,
)
from headrace.wire.kafka.primitives import NO_UUID, Bytes
from headrace.wire.kafka.reader import Reader, reader_of
from headrace.wire.kafka.writer import Writer, writer_of

START_OFFSET_FROM = 5
FLEXIBLE_FROM = 9
LEADERS_FROM = 10
TOPIC_IDS_FROM = 13

_new = tuple.__new__


class PartitionData(NamedTuple):
    """The record batches for one partition in a Produce request."""

    partition: int
    records: Bytes | None


class TopicData(NamedTuple):
    name: str
    topic_id: bytes
    partitions: list[PartitionData]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicData]


class RecordError(NamedTuple):
    """A record of a batch that was refused, with the reason."""

    batch_index: int
    message: str | None


class PartitionResponse(NamedTuple):
    """A partition's part of a Produce response; `log_append_time` -1 unless the broker set
    timestamps."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    current_leader: CurrentLeader = NO_LEADER


class TopicResponse(NamedTuple):
    name: str
    topic_id: bytes
    partitions: Sequence[PartitionResponse]


class ProduceResponse(NamedTuple):
    topics: Sequence[TopicResponse]
    throttle_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


# Nearly every request has one batch for one partition of one topic, without a transaction. Then
# each flexible count is one byte (2 means 1), and the null transactional id is a 0.
_NAMED = struct.Struct(">BhiBB")
_WITH_ID = struct.Struct(">BhiB16s")
_PARTITION = struct.Struct(">BiBBBB")
_unpack_named = _NAMED.unpack_from
_unpack_with_id = _WITH_ID.unpack_from
_unpack_partition = _PARTITION.unpack_from
_END = b"\x00\x00\x00"
_unpack_old = struct.Struct(">hhiih").unpack_from
_unpack_old_partition = struct.Struct(">iii").unpack_from
_OLD_NAME_AT = 14


def decode_request(version: int, body: memoryview) -> ProduceRequest:
    """Decode the body of a Produce request. Raises Malformed. Records are views of `body`."""
    usual = decode_usual(version, body)
    return _decode_any(version, body) if usual is None else usual


def decode_usual(version: int, body: memoryview) -> ProduceRequest | None:
    """Decode a request with one batch for one partition, without a transaction; else None.

    `tail_bytes(version)` zeros, and nothing else, follow its records.
    """
    return _decode_usual(version, body) if version >= FLEXIBLE_FROM else _decode_usual_old(body)


def tail_bytes(version: int) -> int:
    """Return the number of bytes after the records of a request that `decode_usual` accepts."""
    return len(_END) if version >= FLEXIBLE_FROM else 0


def encode_records_size(version: int, size: int) -> bytes:
    """Encode the size field that precedes records of `size` bytes."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    writer.bytes_size(size)
    return bytes(writer.out)


def _decode_usual_old(body: memoryview) -> ProduceRequest | None:
    """Decode such a request in the versions before the flexible ones; else None."""
    try:
        null, acks, timeout, topics, size = _unpack_old(body)
        if null != -1 or topics != 1 or size <= 0:
            return None
        at = _OLD_NAME_AT + size
        name = str(body[_OLD_NAME_AT:at], "utf-8")
        partitions, index, size = _unpack_old_partition(body, at)
    except (struct.error, UnicodeDecodeError):
        return None
    at += 12
    if partitions != 1 or size < 0 or at + size != len(body):
        return None
    partition = _new(PartitionData, (index, body[at:]))
    topic = _new(TopicData, (name, NO_UUID, [partition]))
    request: ProduceRequest = _new(ProduceRequest, (None, acks, timeout, [topic]))
    return request


def _decode_usual(version: int, body: memoryview) -> ProduceRequest | None:
    """Decode such a request in a flexible version; else None, whether or not the request is valid.

    The records' size is a varint of up to four bytes, unrolled here: `low` to `top`.
    """
    try:
        if version >= TOPIC_IDS_FROM:
            null, acks, timeout, topics, topic_id = _unpack_with_id(body)
            name, at = "", 24
        else:
            null, acks, timeout, topics, size = _unpack_named(body)
            if not 0 < size <= 0x7F:
                return None
            at = 8 + size
            name, topic_id = str(body[9:at], "utf-8"), NO_UUID
        partitions, index, low, mid, high, top = _unpack_partition(body, at)
    except (struct.error, UnicodeDecodeError):
        return None
    if null or topics != 2 or partitions != 2:
        return None
    if low < 0x80:
        size, at = low, at + 6
    elif mid < 0x80:
        size, at = low & 0x7F | mid << 7, at + 7
    elif high < 0x80:
        size, at = low & 0x7F | (mid & 0x7F) << 7 | high << 14, at + 8
    elif top < 0x80:
        size, at = low & 0x7F | (mid & 0x7F) << 7 | (high & 0x7F) << 14 | top << 21, at + 9
    else:
        return None
    end = at + size - 1
    if size == 0 or body[end:] != _END:
        return None
    partition = _new(PartitionData, (index, body[at:end]))
    topic = _new(TopicData, (name, topic_id, [partition]))
    request: ProduceRequest = _new(ProduceRequest, (None, acks, timeout, [topic]))
    return request


def _decode_any(version: int, body: memoryview) -> ProduceRequest:
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    transactional_id = reader.nullable_string()
    acks = reader.int16()
    timeout_ms = reader.int32()
    topics = []
    for _ in range(reader.count(3)):
        name, topic_id = _read_topic(version, reader)
        partitions = []
        for _ in range(reader.count(6)):
            partitions.append(PartitionData(reader.int32(), reader.nullable_bytes()))
            reader.skip_tags()
        reader.skip_tags()
        topics.append(TopicData(name, topic_id, partitions))
    reader.skip_tags()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_topic(version: int, reader: Reader) -> tuple[str, bytes]:
    if version >= TOPIC_IDS_FROM:
        return "", reader.uuid()
    return reader.string(), NO_UUID


def _write_topic(version: int, writer: Writer, name: str, topic_id: bytes) -> None:
    if version >= TOPIC_IDS_FROM:
        writer.uuid(topic_id)
    else:
        writer.string(name)


def encode_request(version: int, request: ProduceRequest) -> bytes:
    """Encode the body of a Produce request."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    writer.nullable_string(request.transactional_id)
    writer.int16(request.acks)
    writer.int32(request.timeout_ms)
    writer.count(len(request.topics))
    for topic in request.topics:
        _write_topic(version, writer, topic.name, topic.topic_id)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            writer.int32(partition.partition)
            writer.nullable_bytes(partition.records)
            writer.tags()
        writer.tags()
    writer.tags()
    return bytes(writer.out)


_APPENDED = struct.Struct(">BihqqqBBBBiB")
_pack_appended = _APPENDED.pack
_LAST_OLD = 8
_pack_old_topic = struct.Struct(">ih").pack
_pack_old_appended = struct.Struct(">iihqqqihi").pack
_pack_old_head = struct.Struct(">ih").pack
_pack_v5 = struct.Struct(">iihqqqi").pack
_pack_v8 = struct.Struct(">iihqqqihi").pack
_RECORD_ERRORS_FROM = 8
_NAME_BYTES_MAX = 126


def encode_appended(
    version: int,
    name: str,
    topic_id: bytes,
    partition: int,
    base_offset: int,
    log_append_time: int,
    log_start_offset: int,
) -> bytes:
    """Encode the usual Produce response: one partition, no error, no throttle time."""
    if version >= FLEXIBLE_FROM:
        tail = _pack_appended(
            2, partition, 0, base_offset, log_append_time, log_start_offset, 1, 0, 0, 0, 0, 0
        )
        if version >= TOPIC_IDS_FROM:
            return b"\x02" + topic_id + tail
        data = name.encode()
        if len(data) <= _NAME_BYTES_MAX:
            return b"\x02" + bytes((len(data) + 1,)) + data + tail
    elif version == _LAST_OLD:
        data = name.encode()
        return (
            _pack_old_topic(1, len(data))
            + data
            + _pack_old_appended(
                1, partition, 0, base_offset, log_append_time, log_start_offset, 0, -1, 0
            )
        )
    elif version >= START_OFFSET_FROM:
        data = name.encode()
        head = _pack_old_head(1, len(data)) + data
        if version >= _RECORD_ERRORS_FROM:
            return head + _pack_v8(
                1, partition, 0, base_offset, log_append_time, log_start_offset, 0, -1, 0
            )
        return head + _pack_v5(1, partition, 0, base_offset, log_append_time, log_start_offset, 0)
    result = PartitionResponse(partition, 0, base_offset, log_append_time, log_start_offset)
    return encode_response(version, ProduceResponse([TopicResponse(name, topic_id, [result])]))


def around_base_offset(
    version: int, name: str, topic_id: bytes, partition: int, log_start_offset: int
) -> tuple[bytes, bytes]:
    """Return the bytes before and after the base offset in the usual Produce response."""
    body = encode_appended(version, name, topic_id, partition, 0, -1, log_start_offset)
    if version >= FLEXIBLE_FROM:
        behind = 25
    elif version >= _RECORD_ERRORS_FROM:
        behind = 26
    else:
        behind = 20 if version >= START_OFFSET_FROM else 12
    return body[: -behind - 8], body[-behind:]


def encode_response(version: int, response: ProduceResponse) -> bytes:
    """Encode the body of a Produce response."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    writer.count(len(response.topics))
    for topic in response.topics:
        _write_topic(version, writer, topic.name, topic.topic_id)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            _write_partition(version, writer, partition)
        writer.tags()
    writer.int32(response.throttle_ms)
    if version >= LEADERS_FROM and response.node_endpoints:
        writer.tags([(0, encode_endpoints(response.node_endpoints))])
    else:
        writer.tags()
    return bytes(writer.out)


_RESULT = struct.Struct(">ihqq")


def _write_partition(version: int, writer: Writer, partition: PartitionResponse) -> None:
    writer.raw(_RESULT.pack(*partition[:4]))
    if version >= 5:
        writer.int64(partition.log_start_offset)
    if version >= 8:
        writer.count(len(partition.record_errors))
        for error in partition.record_errors:
            writer.int32(error.batch_index)
            writer.nullable_string(error.message)
            writer.tags()
        writer.nullable_string(partition.error_message)
    if version >= LEADERS_FROM and partition.current_leader != NO_LEADER:
        writer.tags([(0, encode_leader(partition.current_leader))])
    else:
        writer.tags()


def decode_response(version: int, body: memoryview) -> ProduceResponse:
    """Decode the body of a Produce response. Raises Malformed."""
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    topics = []
    for _ in range(reader.count(3)):
        name, topic_id = _read_topic(version, reader)
        partitions = [_read_partition(version, reader) for _ in range(reader.count(22))]
        reader.skip_tags()
        topics.append(TopicResponse(name, topic_id, partitions))
    throttle_ms = reader.int32()
    endpoints: list[NodeEndpoint] = []
    for tag, field in reader.tags():
        if tag == 0 and version >= LEADERS_FROM:
            endpoints = decode_endpoints(field)
    return ProduceResponse(topics, throttle_ms, endpoints)


def _read_partition(version: int, reader: Reader) -> PartitionResponse:
    index, error_code = reader.int32(), reader.int16()
    base_offset, log_append_time = reader.int64(), reader.int64()
    log_start_offset = reader.int64() if version >= 5 else -1
    errors = []
    message = None
    if version >= 8:
        for _ in range(reader.count(6)):
            errors.append(RecordError(reader.int32(), reader.nullable_string()))
            reader.skip_tags()
        message = reader.nullable_string()
    leader = NO_LEADER
    for tag, field in reader.tags():
        if tag == 0 and version >= LEADERS_FROM:
            leader = decode_leader(field)
    return PartitionResponse(
        index,
        error_code,
        base_offset,
        log_append_time,
        log_start_offset,
        errors,
        message,
        leader,
    )
