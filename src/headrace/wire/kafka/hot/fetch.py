"""Fetch requests (key 1, v4-v18) of consumers and followers; `fetch_response` has the response.

v5 log start offset; v7 fetch sessions (KIP-227); v9 current leader epoch; v11 rack; v12 flexible,
last fetched epoch, cluster id; v13 topic ids; v15 replica state; v17 replica directory; v18 the
replica's high watermark.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.kafka.hot.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchedPartition,
    FetchedTopic,
    FetchResponse,
    SnapshotId,
    decode_response,
    encode_response,
)
from headrace.wire.kafka.primitives import NO_UUID
from headrace.wire.kafka.reader import Reader, reader_of
from headrace.wire.kafka.writer import CompactWriter, Writer, writer_of

__all__ = [
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchedPartition",
    "FetchedTopic",
    "ForgottenTopic",
    "SnapshotId",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]

SESSIONS_FROM = 7
RACK_FROM = 11
FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15
DIRECTORY_FROM = 17
HIGH_WATERMARK_FROM = 18
NO_HIGH_WATERMARK = (1 << 63) - 1
"""The value of a replica's high watermark that means: not sent."""

_new = tuple.__new__


class FetchPartition(NamedTuple):
    """A partition to fetch: from which offset, with which size limit. -1: not sent."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int
    replica_directory_id: bytes = NO_UUID
    high_watermark: int = NO_HIGH_WATERMARK


class FetchTopic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: Sequence[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions to remove from the fetch session."""

    name: str
    topic_id: bytes
    partitions: list[int]


class FetchRequest(NamedTuple):
    """A Fetch request. `session_epoch` -1: no session, 0: a new one. `replica_id` -1: a
    consumer."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: Sequence[FetchTopic] = ()
    forgotten: Sequence[ForgottenTopic] = ()
    rack_id: str = ""
    replica_id: int = -1
    replica_epoch: int = -1
    cluster_id: str | None = None


_HEAD = struct.Struct(">iiibii")
_HEAD_WITH_REPLICA = struct.Struct(">iiiibii")
_HEAD_WITHOUT_SESSION = struct.Struct(">iiiib")
_UNCHANGED = b"\x01\x01\x01\x00"
"""The end of a request without topics, forgotten topics, rack and tags: the session is
unchanged."""
_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqi")


def _partition_struct(version: int) -> struct.Struct:
    if version >= FLEXIBLE_FROM:
        return _PARTITION_V12
    if version >= 9:
        return _PARTITION_V9
    return _PARTITION_V5 if version >= 5 else _PARTITION_V4


def decode_request(version: int, body: memoryview) -> FetchRequest:
    """Decode the body of a Fetch request. Raises Malformed."""
    if version >= REPLICA_STATE_FROM and body[_HEAD.size :] == _UNCHANGED:
        head = _HEAD.unpack_from(body)
        unchanged: FetchRequest = _new(FetchRequest, (*head, (), (), "", -1, -1, None))
        return unchanged
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    replica_id, session_id, session_epoch = -1, 0, -1
    if version >= REPLICA_STATE_FROM:
        wait, least, most, isolation, session_id, session_epoch = reader.unpack(_HEAD)
    elif version >= SESSIONS_FROM:
        replica_id, wait, least, most, isolation, session_id, session_epoch = reader.unpack(
            _HEAD_WITH_REPLICA
        )
    else:
        replica_id, wait, least, most, isolation = reader.unpack(_HEAD_WITHOUT_SESSION)
    topics = [_read_topic(version, reader) for _ in range(reader.count(3))]
    forgotten: Sequence[ForgottenTopic] = ()
    if version >= SESSIONS_FROM:
        forgotten = [_read_forgotten(version, reader) for _ in range(reader.count(3))]
    rack_id = reader.string() if version >= RACK_FROM else ""
    replica_epoch, cluster_id = -1, None
    if version >= FLEXIBLE_FROM:
        for tag, field in reader.tags():
            if tag == 0:
                cluster_id = field.nullable_string()
            elif tag == 1 and version >= REPLICA_STATE_FROM:
                replica_id, replica_epoch = field.int32(), field.int64()
    request: FetchRequest = _new(FetchRequest, (
        wait, least, most, isolation, session_id, session_epoch, topics, forgotten, rack_id,
        replica_id, replica_epoch, cluster_id,
    ))  # fmt: skip
    return request


def _read_name(version: int, reader: Reader) -> tuple[str, bytes]:
    if version >= TOPIC_IDS_FROM:
        return "", reader.uuid()
    return reader.string(), NO_UUID


def _read_topic(version: int, reader: Reader) -> FetchTopic:
    name, topic_id = _read_name(version, reader)
    form = _partition_struct(version)
    count = reader.count(form.size)
    if version < FLEXIBLE_FROM:
        partitions = [_partition_of(version, reader.unpack(form)) for _ in range(count)]
    else:
        partitions = _read_partitions(version, reader, count)
        reader.skip_tags()
    topic: FetchTopic = _new(FetchTopic, (name, topic_id, partitions))
    return topic


def _read_partitions(version: int, reader: Reader, count: int) -> list[FetchPartition]:
    partitions = []
    view, end = reader.view, reader.end
    for _ in range(count):
        fields = reader.unpack(_PARTITION_V12)
        at = reader.at
        if at < end and view[at] == 0:  # Consumers send no tags.
            reader.at = at + 1
            fields += _NO_PARTITION_TAGS
        else:
            fields += _read_partition_tags(version, reader)
        partitions.append(_new(FetchPartition, fields))
    return partitions


_NO_PARTITION_TAGS = (NO_UUID, NO_HIGH_WATERMARK)


def _read_partition_tags(version: int, reader: Reader) -> tuple[bytes, int]:
    directory, high_watermark = _NO_PARTITION_TAGS
    for tag, field in reader.tags():
        if tag == 0 and version >= DIRECTORY_FROM:
            directory = field.uuid()
        elif tag == 1 and version >= HIGH_WATERMARK_FROM:
            high_watermark = field.int64()
    return directory, high_watermark


def _partition_of(version: int, fields: tuple[int, ...]) -> FetchPartition:
    """Build a partition from the fields of a version before 12."""
    if version >= 9:
        index, epoch, offset, start, most = fields
        return FetchPartition(index, epoch, offset, -1, start, most)
    if version >= 5:
        index, offset, start, most = fields
        return FetchPartition(index, -1, offset, -1, start, most)
    index, offset, most = fields
    return FetchPartition(index, -1, offset, -1, -1, most)


def _read_forgotten(version: int, reader: Reader) -> ForgottenTopic:
    name, topic_id = _read_name(version, reader)
    partitions = reader.int32s()
    reader.skip_tags()
    return ForgottenTopic(name, topic_id, partitions)


def encode_request(version: int, request: FetchRequest) -> bytes:
    """Encode the body of a Fetch request."""
    writer = writer_of(version >= FLEXIBLE_FROM)()
    if version < REPLICA_STATE_FROM:
        writer.int32(request.replica_id)
    writer.int32(request.max_wait_ms)
    writer.int32(request.min_bytes)
    writer.int32(request.max_bytes)
    writer.int8(request.isolation_level)
    if version >= SESSIONS_FROM:
        writer.int32(request.session_id)
        writer.int32(request.session_epoch)
    writer.count(len(request.topics))
    for topic in request.topics:
        _write_name(version, writer, topic.name, topic.topic_id)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            _write_partition(version, writer, partition)
        writer.tags()
    if version >= SESSIONS_FROM:
        writer.count(len(request.forgotten))
        for forgotten in request.forgotten:
            _write_name(version, writer, forgotten.name, forgotten.topic_id)
            writer.int32s(forgotten.partitions)
            writer.tags()
    if version >= RACK_FROM:
        writer.string(request.rack_id)
    if version >= FLEXIBLE_FROM:
        writer.tags(_request_tags(version, request))
    return bytes(writer.out)


def _write_name(version: int, writer: Writer, name: str, topic_id: bytes) -> None:
    if version >= TOPIC_IDS_FROM:
        writer.uuid(topic_id)
    else:
        writer.string(name)


def _write_partition(version: int, writer: Writer, partition: FetchPartition) -> None:
    index, epoch, offset, last_epoch, start, most, directory, high_watermark = partition
    if version < 5:
        writer.raw(_PARTITION_V4.pack(index, offset, most))
    elif version < 9:
        writer.raw(_PARTITION_V5.pack(index, offset, start, most))
    elif version < FLEXIBLE_FROM:
        writer.raw(_PARTITION_V9.pack(index, epoch, offset, start, most))
    else:
        writer.raw(_PARTITION_V12.pack(index, epoch, offset, last_epoch, start, most))
        tags = []
        if version >= DIRECTORY_FROM and directory != NO_UUID:
            tags.append((0, directory))
        if version >= HIGH_WATERMARK_FROM and high_watermark != NO_HIGH_WATERMARK:
            tags.append((1, struct.pack(">q", high_watermark)))
        writer.tags(tags)


def _request_tags(version: int, request: FetchRequest) -> list[tuple[int, bytes]]:
    tags = []
    if request.cluster_id is not None:
        field = CompactWriter()
        field.nullable_string(request.cluster_id)
        tags.append((0, bytes(field.out)))
    is_replica = (request.replica_id, request.replica_epoch) != (-1, -1)
    if version >= REPLICA_STATE_FROM and is_replica:
        state = struct.pack(">iqb", request.replica_id, request.replica_epoch, 0)
        tags.append((1, state))
    return tags
