"""Encoding and decoding of the coordinator's records in `__consumer_offsets`.

`wire.kafka.records.consumer_offsets` defines the formats. Committed offsets, of which there are
tens of thousands a second, are encoded here in one pass, without the general codec. A property test
proves that both encode alike:

    key    int16 type = 1, string group, string topic, int32 partition
    value  int16 version = 3, int64 offset, int32 leader epoch, string metadata, int64 timestamp
"""

import struct
from collections.abc import Callable, Mapping

from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.committed_offsets import Committed, Place
from headrace.wire.kafka.coordinator_records.consumer_offsets import (
    GroupKey,
    GroupValue,
    Member,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_value,
    encode_key,
)

__all__ = [
    "GroupValue",
    "Member",
    "decode_group_value",
    "group_key",
    "group_metadata",
    "offset_key",
    "offset_packer",
    "offset_value",
    "parse_key",
    "parse_offset",
]

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_V3_HEAD = struct.Struct(">hqih")
_V1_HEAD = struct.Struct(">hqh")
_V1_TIMES = struct.Struct(">qq")


def offset_key(place: Place) -> bytes:
    """Encode the record key of a committed offset (type 1)."""
    group, topic, partition = place
    group_bytes, topic_bytes = group.encode(), topic.encode()
    return b"".join((
        b"\x00\x01", _INT16.pack(len(group_bytes)), group_bytes,
        _INT16.pack(len(topic_bytes)), topic_bytes, _INT32.pack(partition),
    ))  # fmt: skip


def offset_value(committed: Committed) -> bytes:
    """Encode the record value of a committed offset.

    Version 3, or version 1 if the client set an expiry time.
    """
    offset, leader_epoch, metadata, committed_ms, expires_ms, _ = committed
    text = metadata.encode()
    if expires_ms >= 0:
        head = _V1_HEAD.pack(1, offset, len(text))
        return head + text + _V1_TIMES.pack(committed_ms, expires_ms)
    return _V3_HEAD.pack(3, offset, leader_epoch, len(text)) + text + _INT64.pack(committed_ms)


def offset_packer(metadata: str) -> Callable[[int, int, int], bytes]:
    """Return a packer of offset values (version 3) with fixed metadata.

    The packer maps offset, leader epoch and commit time in ms to the encoded value.
    """
    text = metadata.encode()
    size = len(text)
    pack = struct.Struct(f">hqih{size}sq").pack
    return lambda offset, leader_epoch, committed_ms: pack(
        3, offset, leader_epoch, size, text, committed_ms
    )


def group_key(group_id: str) -> bytes:
    """Encode the record key of a classic group."""
    return encode_key(GroupKey(group_id))


def group_metadata(group: ClassicGroup, assignments: Mapping[str, bytes]) -> tuple[bytes, bytes]:
    """Encode a classic group with its members' assignments as record key and value."""
    members = [
        Member(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(group.protocol_name),
            assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupValue(
        group.protocol_type or "",
        group.generation,
        group.protocol_name,
        group.leader,
        group.state_since_ms,
        members,
    )
    return group_key(group.group_id), encode_group_value(value)


def parse_key(key: bytes) -> Place | str | int:
    """Decode a record key: a committed offset's place, a classic group's id, or another key's type.

    Raises CorruptBatch.
    """
    parsed = decode_key(key)
    match parsed:
        case OffsetKey():
            return parsed.group, parsed.topic, parsed.partition
        case GroupKey():
            return parsed.group
        case _:
            return parsed.type


def parse_offset(value: bytes, log_offset: int) -> Committed:
    """Decode the record value of a committed offset. Raises CorruptBatch."""
    read = decode_offset_value(value)
    return Committed(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp,
        read.expire_timestamp,
        log_offset,
    )
