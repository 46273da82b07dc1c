"""Records of `__consumer_offsets`: committed offsets (key types 0 and 1), classic groups (2).

Keys are an int16 type and plain fields. Values are an int16 version and fields, flexible from
version 4 on. Kafka 3.9 and Headrace write version 3; 4.3 writes 4, with the topic id as a tag.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.model.errors import Malformed
from headrace.record.compression import CorruptBatch
from headrace.wire.kafka.primitives import NO_UUID, Bytes
from headrace.wire.kafka.reader import Reader, reader_of
from headrace.wire.kafka.writer import Writer, writer_of

OFFSET_KEY_TYPES = (0, 1)
GROUP_KEY_TYPE = 2
VALUE_VERSION_MAX = 4
VALUE_VERSION_WRITTEN = 3
_FLEXIBLE_FROM = 4
_TOPIC_ID_TAG = 0

Tags = tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class OffsetKey:
    """Key of a committed offset: group, topic, partition."""

    group: str
    topic: str
    partition: int
    type: int = 1


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Key of a classic group."""

    group: str


@dataclass(frozen=True, slots=True)
class OtherKey:
    """A key of another type, not decoded here: groups of KIP-848, share groups, streams groups."""

    type: int
    rest: bytes


Key = OffsetKey | GroupKey | OtherKey


@dataclass(frozen=True, slots=True)
class OffsetValue:
    """A committed offset. Timestamps in ms since 1970; `expire_timestamp` in version 1 only."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    topic_id: bytes = NO_UUID
    version: int = VALUE_VERSION_WRITTEN
    tags: Tags = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a classic group; subscription and assignment are opaque bytes of the clients."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes
    tags: Tags = ()


@dataclass(frozen=True, slots=True)
class GroupValue:
    """A classic group at the time when its generation became stable."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp: int
    members: Sequence[Member]
    version: int = VALUE_VERSION_WRITTEN
    tags: Tags = ()


def decode_key(data: Bytes) -> Key:
    """Decode a record key. Raises CorruptBatch."""
    reader = Reader(memoryview(data))
    try:
        key_type = reader.int16()
        if key_type in OFFSET_KEY_TYPES:
            return OffsetKey(reader.string(), reader.string(), reader.int32(), key_type)
        if key_type == GROUP_KEY_TYPE:
            return GroupKey(reader.string())
    except Malformed as error:
        raise CorruptBatch(f"invalid key of __consumer_offsets: {error}") from None
    return OtherKey(key_type, bytes(reader.raw(reader.remaining())))


def encode_key(key: Key) -> bytes:
    """Encode a record key."""
    writer = Writer()
    match key:
        case OffsetKey():
            writer.int16(key.type)
            writer.string(key.group)
            writer.string(key.topic)
            writer.int32(key.partition)
        case GroupKey():
            writer.int16(GROUP_KEY_TYPE)
            writer.string(key.group)
        case OtherKey():
            writer.int16(key.type)
            writer.raw(key.rest)
    return bytes(writer.out)


def open_value(data: Bytes, version_max: int, flexible_from: int) -> tuple[int, Reader]:
    """Read a value's version; return it with a reader of the remaining fields.

    Malformed for an unknown version.
    """
    version = Reader(memoryview(data)).int16()
    if not 0 <= version <= version_max:
        raise Malformed(f"value version {version}")
    return version, reader_of(version >= flexible_from)(memoryview(data), 2)


def kept_tags(reader: Reader) -> Tags:
    """Return all tagged fields of a struct, undecoded."""
    return tuple((tag, bytes(field.raw(field.remaining()))) for tag, field in reader.tags())


def decode_offset_value(data: Bytes) -> OffsetValue:
    """Decode a committed offset of any version. Raises CorruptBatch."""
    try:
        version, reader = open_value(data, VALUE_VERSION_MAX, _FLEXIBLE_FROM)
        offset = reader.int64()
        leader_epoch = reader.int32() if version >= 3 else -1
        metadata, committed = reader.string(), reader.int64()
        expires = reader.int64() if version == 1 else -1
        tags = dict(kept_tags(reader))
        topic_id = tags.pop(_TOPIC_ID_TAG, NO_UUID)
        if len(topic_id) != len(NO_UUID):
            raise Malformed(f"a topic id of {len(topic_id)} bytes")
    except Malformed as error:
        raise CorruptBatch(f"invalid committed offset: {error}") from None
    return OffsetValue(
        offset,
        leader_epoch,
        metadata,
        committed,
        expires,
        topic_id,
        version,
        tuple(tags.items()),
    )


def encode_offset_value(value: OffsetValue) -> bytes:
    """Encode a committed offset in the version that it names."""
    flexible = value.version >= _FLEXIBLE_FROM
    writer = writer_of(flexible)()
    writer.int16(value.version)
    writer.int64(value.offset)
    if value.version >= 3:
        writer.int32(value.leader_epoch)
    writer.string(value.metadata)
    writer.int64(value.commit_timestamp)
    if value.version == 1:
        writer.int64(value.expire_timestamp)
    tags = list(value.tags)
    if value.topic_id != NO_UUID:
        tags.insert(0, (_TOPIC_ID_TAG, value.topic_id))
    writer.tags(tags)
    return bytes(writer.out)


def decode_group_value(data: Bytes) -> GroupValue:
    """Decode a classic group of any version. Raises CorruptBatch."""
    try:
        version, reader = open_value(data, VALUE_VERSION_MAX, _FLEXIBLE_FROM)
        protocol_type, generation = reader.string(), reader.int32()
        protocol, leader = reader.nullable_string(), reader.nullable_string()
        state_timestamp = reader.int64() if version >= 2 else -1
        members = [_read_member(version, reader) for _ in range(reader.count(6))]
        tags = kept_tags(reader)
    except Malformed as error:
        raise CorruptBatch(f"invalid group: {error}") from None
    return GroupValue(
        protocol_type, generation, protocol, leader, state_timestamp, members, version, tags
    )


def _read_member(version: int, reader: Reader) -> Member:
    member_id = reader.string()
    instance = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    # Before version 1 one timeout was both rebalance and session timeout.
    rebalance_ms = reader.int32() if version >= 1 else -1
    session_ms = reader.int32()
    if version < 1:
        rebalance_ms = session_ms
    subscription, assignment = bytes(reader.bytes()), bytes(reader.bytes())
    return Member(
        member_id,
        instance,
        client_id,
        client_host,
        rebalance_ms,
        session_ms,
        subscription,
        assignment,
        kept_tags(reader),
    )


def encode_group_value(value: GroupValue) -> bytes:
    """Encode a classic group in the version that it names."""
    writer = writer_of(value.version >= _FLEXIBLE_FROM)()
    writer.int16(value.version)
    writer.string(value.protocol_type)
    writer.int32(value.generation)
    writer.nullable_string(value.protocol)
    writer.nullable_string(value.leader)
    if value.version >= 2:
        writer.int64(value.state_timestamp)
    writer.count(len(value.members))
    for member in value.members:
        writer.string(member.member_id)
        if value.version >= 3:
            writer.nullable_string(member.group_instance_id)
        writer.string(member.client_id)
        writer.string(member.client_host)
        if value.version >= 1:
            writer.int32(member.rebalance_timeout_ms)
        writer.int32(member.session_timeout_ms)
        writer.bytes(member.subscription)
        writer.bytes(member.assignment)
        writer.tags(member.tags)
    writer.tags(value.tags)
    return bytes(writer.out)
