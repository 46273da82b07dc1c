"""Records of `__consumer_offsets`, in Kafka's formats: what is written, and what is read back.

Written: OffsetCommitValue v3 (v1 where an old client gave a retention time) and GroupMetadataValue
v3, as Kafka 3.9 and 4 do (facts/kafka.md §2.4). Read: every version there is.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from headrace.broker.groups.group import ClassicGroup
from headrace.broker.groups.offsets import Committed, Place
from headrace.wire.kafka.primitives import Reader, Writer, reader_of

OFFSET_KEYS = (0, 1)
GROUP_KEY = 2
_FLEXIBLE_SINCE = 4
_MEMBER_BYTES_MIN = 7
NO_TIME = -1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_OFFSET_HEAD = struct.Struct(">hqih")
_INT64 = struct.Struct(">q")
_OFFSET_HEAD_V1 = struct.Struct(">hqh")
_OFFSET_TIMES_V1 = struct.Struct(">qq")


class MemberImage(NamedTuple):
    """A member as it lies in the log."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupImage(NamedTuple):
    """A group as it lies in the log."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader: str | None
    state_since_ms: int
    members: tuple[MemberImage, ...]


class OtherKey(NamedTuple):
    """A record of a kind this coordinator keeps nothing of (KIP-848, share and streams groups)."""

    kind: int


def offset_key(place: Place) -> bytes:
    """The key of a committed offset."""
    group, topic, partition = place
    group_bytes, topic_bytes = group.encode(), topic.encode()
    return b"".join((
        b"\x00\x01", _INT16.pack(len(group_bytes)), group_bytes,
        _INT16.pack(len(topic_bytes)), topic_bytes, _INT32.pack(partition),
    ))  # fmt: skip


def offset_value(committed: Committed) -> bytes:
    """The value of a committed offset."""
    offset, leader_epoch, metadata, committed_ms, expires_ms, _ = committed
    text = metadata.encode()
    if expires_ms >= 0:
        head = _OFFSET_HEAD_V1.pack(1, offset, len(text))
        return head + text + _OFFSET_TIMES_V1.pack(committed_ms, expires_ms)
    head = _OFFSET_HEAD.pack(3, offset, leader_epoch, len(text))
    return head + text + _INT64.pack(committed_ms)


def group_key(group_id: str) -> bytes:
    """The key of a group."""
    raw = group_id.encode()
    return b"\x00\x02" + _INT16.pack(len(raw)) + raw


def group_metadata(group: ClassicGroup, assignments: Mapping[str, bytes]) -> tuple[bytes, bytes]:
    """Key and value of the group as it is, its members reading what `assignments` says."""
    out = Writer()
    out.int16(3)
    out.string(group.protocol_type or "")
    out.int32(group.generation)
    out.nullable_string(group.protocol_name)
    out.nullable_string(group.leader)
    out.int64(group.state_since_ms)
    out.count(len(group.members))
    for one in group.members.values():
        out.string(one.member_id)
        out.nullable_string(one.instance_id)
        out.string(one.client_id)
        out.string(one.client_host)
        out.int32(one.rebalance_timeout_ms)
        out.int32(one.session_timeout_ms)
        out.bytes(one.metadata(group.protocol_name))
        out.bytes(assignments.get(one.member_id, b""))
    return group_key(group.group_id), bytes(out.out)


def parse_key(key: bytes) -> Place | str | OtherKey:
    """What a record is about: an offset's place, a group's id, or something else. Malformed."""
    reader = Reader(memoryview(key))
    kind = reader.int16()
    if kind in OFFSET_KEYS:
        return reader.string(), reader.string(), reader.int32()
    if kind == GROUP_KEY:
        return reader.string()
    return OtherKey(kind)


def parse_offset(value: bytes, log_offset: int) -> Committed:
    """A committed offset's value, of any version. Malformed."""
    version, reader = _versioned(value)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    committed_ms = reader.int64()
    expires_ms = reader.int64() if version == 1 else NO_TIME
    return Committed(offset, leader_epoch, metadata, committed_ms, expires_ms, log_offset)


def parse_group(value: bytes) -> GroupImage:
    """A group's value, of any version. Malformed."""
    version, reader = _versioned(value)
    protocol_type = reader.string()
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    since_ms = reader.int64() if version >= 2 else NO_TIME
    count = reader.count(_MEMBER_BYTES_MIN)
    members = tuple(_parse_member(reader, version) for _ in range(count))
    return GroupImage(protocol_type, generation, protocol, leader, since_ms, members)


def _parse_member(reader: Reader, version: int) -> MemberImage:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_ms = reader.int32() if version >= 1 else -1
    session_ms = reader.int32()
    subscription = bytes(reader.bytes())
    assignment = bytes(reader.bytes())
    reader.skip_tags()
    return MemberImage(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_ms if rebalance_ms < 0 else rebalance_ms,
        session_ms,
        subscription,
        assignment,
    )


def _versioned(value: bytes) -> tuple[int, Reader]:
    view = memoryview(value)
    version = Reader(view).int16()
    return version, reader_of(version >= _FLEXIBLE_SINCE)(view, _INT16.size)
