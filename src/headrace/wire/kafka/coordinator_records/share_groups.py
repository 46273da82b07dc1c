"""Records of `__consumer_offsets` that are about share groups: key types 10 to 15 (KIP-932).

Values are flexible, version 0. Partitions are by topic id.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.model.errors import Malformed
from headrace.record.compression import CorruptBatch
from headrace.wire.kafka.coordinator_records.consumer_offsets import kept_tags, open_value
from headrace.wire.kafka.primitives import Bytes
from headrace.wire.kafka.reader import Reader
from headrace.wire.kafka.writer import CompactWriter, Writer

MEMBER, GROUP, TARGET, TARGET_MEMBER, CURRENT_MEMBER, STATE_PARTITIONS = 10, 11, 12, 13, 14, 15
KEY_TYPES = range(MEMBER, STATE_PARTITIONS + 1)
_OF_MEMBERS = frozenset({MEMBER, TARGET_MEMBER, CURRENT_MEMBER})
_TIMESTAMP_TAG = 0
_INT64 = struct.Struct(">q")

Partitions = Mapping[bytes, Sequence[int]]
"""Topic id to partitions."""


@dataclass(frozen=True, slots=True)
class ShareGroupKey:
    """What a record is about; `member_id` is empty where it is the whole group."""

    type: int
    group: str
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class MemberValue:
    """Who a member is and what it subscribes to."""

    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupValue:
    """The group's epoch, and the hash of the topics it was made for."""

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class TargetValue:
    """The epoch the target assignment was made for, and when (ms since 1970, 0: not said)."""

    epoch: int
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class CurrentValue:
    """What a member has been told."""

    epoch: int
    previous_epoch: int
    state: int
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class TopicState:
    """Partitions of one topic in `StatePartitionsValue`."""

    name: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StatePartitionsValue:
    """Of which partitions the group has state, by topic id."""

    initializing: Mapping[bytes, TopicState]
    initialized: Mapping[bytes, TopicState]
    deleting: Mapping[bytes, TopicState]


Value = (
    MemberValue | GroupValue | TargetValue | Partitions | CurrentValue | StatePartitionsValue
)  # fmt: skip


def decode_key(data: Bytes) -> ShareGroupKey | None:
    """What the record is about, None: no share group. CorruptBatch."""
    reader = Reader(memoryview(data))
    try:
        key_type = reader.int16()
        if key_type not in KEY_TYPES:
            return None
        group = reader.string()
        return ShareGroupKey(key_type, group, reader.string() if key_type in _OF_MEMBERS else "")
    except Malformed as error:
        raise CorruptBatch(f"no key of a share group: {error}") from None


def encode_key(key: ShareGroupKey) -> bytes:
    """The key's bytes."""
    writer = Writer()
    writer.int16(key.type)
    writer.string(key.group)
    if key.type in _OF_MEMBERS:
        writer.string(key.member_id)
    return bytes(writer.out)


def decode_value(key_type: int, data: Bytes) -> Value:
    """The value of a record with a key of `key_type`. CorruptBatch."""
    try:
        _, reader = open_value(data, 0, 0)
        return _READERS[key_type](reader)
    except (Malformed, struct.error) as error:
        raise CorruptBatch(f"no share group's value of type {key_type}: {error}") from None


def encode_value(value: Value) -> bytes:
    """The value's bytes."""
    writer = CompactWriter()
    writer.int16(0)
    match value:
        case MemberValue():
            writer.nullable_string(value.rack_id)
            writer.string(value.client_id)
            writer.string(value.client_host)
            writer.strings(value.topics)
        case GroupValue():
            writer.int32(value.epoch)
            writer.int64(value.metadata_hash)
        case TargetValue():
            writer.int32(value.epoch)
        case CurrentValue():
            writer.int32(value.epoch)
            writer.int32(value.previous_epoch)
            writer.int8(value.state)
            _write_partitions(writer, value.partitions)
        case StatePartitionsValue():
            _write_topics(writer, value.initializing)
            _write_topics(writer, value.initialized)
            _write_names(writer, value.deleting)
        case _:
            _write_partitions(writer, value)
    at = value.timestamp if isinstance(value, TargetValue) else 0
    writer.tags([(_TIMESTAMP_TAG, _INT64.pack(at))] if at else [])
    return bytes(writer.out)


def _read_member(reader: Reader) -> MemberValue:
    return MemberValue(
        reader.nullable_string(), reader.string(), reader.string(), tuple(reader.strings())
    )


def _read_group(reader: Reader) -> GroupValue:
    return GroupValue(reader.int32(), reader.int64())


def _read_target(reader: Reader) -> TargetValue:
    epoch = reader.int32()
    (at,) = _INT64.unpack(dict(kept_tags(reader)).get(_TIMESTAMP_TAG, _INT64.pack(0)))
    return TargetValue(epoch, at)


def _read_current(reader: Reader) -> CurrentValue:
    return CurrentValue(reader.int32(), reader.int32(), reader.int8(), _read_partitions(reader))


def _read_states(reader: Reader) -> StatePartitionsValue:
    return StatePartitionsValue(_read_topics(reader), _read_topics(reader), _read_names(reader))


def _read_partitions(reader: Reader) -> Partitions:
    found: dict[bytes, Sequence[int]] = {}
    for _ in range(reader.count(18)):
        topic_id = bytes(reader.uuid())
        found[topic_id] = tuple(reader.int32s())
        reader.skip_tags()
    return found


def _write_partitions(writer: Writer, partitions: Partitions) -> None:
    writer.count(len(partitions))
    for topic_id, indexes in partitions.items():
        writer.uuid(topic_id)
        writer.int32s(indexes)
        writer.tags()


def _read_topics(reader: Reader) -> dict[bytes, TopicState]:
    found: dict[bytes, TopicState] = {}
    for _ in range(reader.count(19)):
        topic_id = bytes(reader.uuid())
        found[topic_id] = TopicState(reader.string(), tuple(reader.int32s()))
        reader.skip_tags()
    return found


def _write_topics(writer: Writer, topics: Mapping[bytes, TopicState]) -> None:
    writer.count(len(topics))
    for topic_id, topic in topics.items():
        writer.uuid(topic_id)
        writer.string(topic.name)
        writer.int32s(topic.partitions)
        writer.tags()


def _read_names(reader: Reader) -> dict[bytes, TopicState]:
    found: dict[bytes, TopicState] = {}
    for _ in range(reader.count(18)):
        topic_id = bytes(reader.uuid())
        found[topic_id] = TopicState(reader.string())
        reader.skip_tags()
    return found


def _write_names(writer: Writer, topics: Mapping[bytes, TopicState]) -> None:
    writer.count(len(topics))
    for topic_id, topic in topics.items():
        writer.uuid(topic_id)
        writer.string(topic.name)
        writer.tags()


_READERS: dict[int, Callable[[Reader], Value]] = {
    MEMBER: _read_member,
    GROUP: _read_group,
    TARGET: _read_target,
    TARGET_MEMBER: _read_partitions,
    CURRENT_MEMBER: _read_current,
    STATE_PARTITIONS: _read_states,
}
