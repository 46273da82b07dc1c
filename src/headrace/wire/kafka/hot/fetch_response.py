"""Fetch responses (v4-v18): records are sent as the buffers they were read into, uncopied.

v5 log start offset; v7 fetch sessions; v11 preferred read replica; v12 flexible, diverging epoch,
current leader, snapshot id; v13 topic ids; v16 node endpoints.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headrace.ports.file_ranges import FileRange, Part
from headrace.wire.kafka.hot.common import (
    NO_LEADER,
    CurrentLeader,
    NodeEndpoint,
    decode_endpoints,
    decode_leader,
    encode_endpoints,
    encode_leader,
)
from headrace.wire.kafka.primitives import NO_UUID
from headrace.wire.kafka.reader import Reader, reader_of
from headrace.wire.kafka.writer import encode_uvarint, writer_of

SESSIONS_FROM = 7
REPLICA_FROM = 11
FLEXIBLE_FROM = 12
TOPIC_IDS_FROM = 13
ENDPOINTS_FROM = 16
COPIED_BYTES_MAX = 4096
"""Records up to this size in bytes are copied next to the header: cheaper than another buffer."""

_new = tuple.__new__


class AbortedTransaction(NamedTuple):
    """An aborted transaction: records of `producer_id` from `first_offset` to its abort marker are
    void."""

    producer_id: int
    first_offset: int


class EpochEndOffset(NamedTuple):
    """The largest epoch common to leader and follower, and its end offset."""

    epoch: int = -1
    end_offset: int = -1


class SnapshotId(NamedTuple):
    """A KRaft snapshot id. Headrace never sends one."""

    end_offset: int = -1
    epoch: int = -1


NO_EPOCH_END = EpochEndOffset()
NO_SNAPSHOT = SnapshotId()


class FetchedPartition(NamedTuple):
    """A partition's part of a Fetch response; `aborted` None unless the request is
    read_committed."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Part | None = b""
    """Decoded: a view of the response. To be sent: buffers, or a range of a file."""
    aborted: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    current_leader: CurrentLeader = NO_LEADER
    diverging_epoch: EpochEndOffset = NO_EPOCH_END
    snapshot_id: SnapshotId = NO_SNAPSHOT


class FetchedTopic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: Sequence[FetchedPartition]


class FetchResponse(NamedTuple):
    throttle_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    topics: Sequence[FetchedTopic] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()


_INT32 = struct.Struct(">i")
_HEAD = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqqBi")
_OFFSETS_V4 = struct.Struct(">ihqq")
_OFFSETS_V5 = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_ABORTED_TAGGED = struct.Struct(">qqb")
_pack_partition = _PARTITION.pack


def encode_response(version: int, response: FetchResponse) -> list[Part]:
    """Encode the body of a Fetch response as buffers to be sent in order.

    Records larger than `COPIED_BYTES_MAX` are among them uncopied.
    """
    if version < FLEXIBLE_FROM:
        return _encode_old(version, response)
    parts: list[Part] = []
    throttle_ms, error_code, session_id, topics, endpoints = response
    out = bytearray(_HEAD.pack(throttle_ms, error_code, session_id))
    out += encode_uvarint(len(topics) + 1)
    for name, topic_id, partitions in topics:
        if version >= TOPIC_IDS_FROM:
            out += topic_id
        else:
            data = name.encode()
            out += encode_uvarint(len(data) + 1) + data
        out += encode_uvarint(len(partitions) + 1)
        for partition in partitions:
            _write_partition(out, partition)
            records = partition[5]
            if records is None:
                out.append(0)
            else:
                out += encode_uvarint(len(records) + 1)
                if isinstance(records, FileRange) or len(records) > COPIED_BYTES_MAX:
                    parts += (out, records)
                    out = bytearray()
                else:
                    out += records
            if partition[8:] == _NO_TAGS:
                out.append(0)
            else:
                _write_tags(out, partition)
        out.append(0)
    if endpoints and version >= ENDPOINTS_FROM:
        field = encode_endpoints(endpoints)
        out += b"\x01\x00" + encode_uvarint(len(field)) + field
    else:
        out.append(0)
    parts.append(out)
    return parts


_NO_TAGS = (NO_LEADER, NO_EPOCH_END, NO_SNAPSHOT)


def _write_partition(out: bytearray, partition: FetchedPartition) -> None:
    """Encode the fields before the records."""
    index, error, high_watermark, stable, start, _, aborted, replica, _, _, _ = partition
    if not aborted:
        count = 0 if aborted is None else 1
        out += _pack_partition(index, error, high_watermark, stable, start, count, replica)
        return
    out += _OFFSETS_V5.pack(index, error, high_watermark, stable, start)
    out += encode_uvarint(len(aborted) + 1)
    for producer_id, first_offset in aborted:
        out += _ABORTED_TAGGED.pack(producer_id, first_offset, 0)
    out += _INT32.pack(replica)


def _write_tags(out: bytearray, partition: FetchedPartition) -> None:
    fields = []
    if partition.diverging_epoch != NO_EPOCH_END:
        fields.append((0, struct.pack(">iqb", *partition.diverging_epoch, 0)))
    if partition.current_leader != NO_LEADER:
        fields.append((1, encode_leader(partition.current_leader)))
    if partition.snapshot_id != NO_SNAPSHOT:
        fields.append((2, struct.pack(">qib", *partition.snapshot_id, 0)))
    out.append(len(fields))
    for tag, field in fields:
        out += bytes((tag, len(field))) + field


def _encode_old(version: int, response: FetchResponse) -> list[Part]:
    """Encode versions before 12, which are not flexible."""
    parts: list[Part] = []
    writer = writer_of(False)()
    writer.int32(response.throttle_ms)
    if version >= SESSIONS_FROM:
        writer.int16(response.error_code)
        writer.int32(response.session_id)
    writer.count(len(response.topics))
    for topic in response.topics:
        writer.string(topic.name)
        writer.count(len(topic.partitions))
        for partition in topic.partitions:
            writer.raw((_OFFSETS_V5 if version >= 5 else _OFFSETS_V4).pack(
                *partition[: 5 if version >= 5 else 4]
            ))  # fmt: skip
            writer.count(-1 if partition.aborted is None else len(partition.aborted))
            for aborted in partition.aborted or ():
                writer.raw(_ABORTED.pack(*aborted))
            if version >= REPLICA_FROM:
                writer.int32(partition.preferred_read_replica)
            records = partition.records
            writer.bytes_size(-1 if records is None else len(records))
            if records is None:
                continue
            if isinstance(records, FileRange) or len(records) > COPIED_BYTES_MAX:
                parts += (writer.out, records)
                writer.out = bytearray()
            else:
                writer.raw(records)
    if writer.out:
        parts.append(writer.out)
    return parts


def decode_response(version: int, body: memoryview) -> FetchResponse:
    """Decode the body of a Fetch response. Raises Malformed. Records are views of `body`."""
    reader = reader_of(version >= FLEXIBLE_FROM)(body)
    throttle_ms = reader.int32()
    error_code, session_id = 0, 0
    if version >= SESSIONS_FROM:
        error_code, session_id = reader.int16(), reader.int32()
    topics = []
    for _ in range(reader.count(3)):
        if version >= TOPIC_IDS_FROM:
            name, topic_id = "", reader.uuid()
        else:
            name, topic_id = reader.string(), NO_UUID
        partitions = [_read_partition(version, reader) for _ in range(reader.count(30))]
        reader.skip_tags()
        topics.append(FetchedTopic(name, topic_id, partitions))
    endpoints: list[NodeEndpoint] = []
    for tag, field in reader.tags():
        if tag == 0 and version >= ENDPOINTS_FROM:
            endpoints = decode_endpoints(field)
    return FetchResponse(throttle_ms, error_code, session_id, topics, endpoints)


def _read_partition(version: int, reader: Reader) -> FetchedPartition:
    start = -1
    if version >= 5:
        index, error, high_watermark, stable, start = reader.unpack(_OFFSETS_V5)
    else:
        index, error, high_watermark, stable = reader.unpack(_OFFSETS_V4)
    aborted = _read_aborted(reader)
    replica = reader.int32() if version >= REPLICA_FROM else -1
    records = reader.nullable_bytes()
    leader, diverging, snapshot = _NO_TAGS
    for tag, field in reader.tags():
        if tag == 0:
            diverging = EpochEndOffset(field.int32(), field.int64())
        elif tag == 1:
            leader = decode_leader(field)
        elif tag == 2:
            snapshot = SnapshotId(field.int64(), field.int32())
    partition: FetchedPartition = _new(FetchedPartition, (
        index, error, high_watermark, stable, start, records, aborted, replica,
        leader, diverging, snapshot,
    ))  # fmt: skip
    return partition


def _read_aborted(reader: Reader) -> list[AbortedTransaction] | None:
    count = reader.nullable_count(_ABORTED.size)
    if count < 0:
        return None
    aborted = []
    for _ in range(count):
        aborted.append(AbortedTransaction(reader.int64(), reader.int64()))
        reader.skip_tags()
    return aborted
