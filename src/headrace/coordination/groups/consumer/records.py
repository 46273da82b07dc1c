"""Changes of a consumer group as records of `__consumer_offsets` (key types 3 to 8, and 16).

Written here; read by the tables that Kafka's own tools' output is held against. Kafka 4.3's
versions: all values are version 0, flexible.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.coordination.groups.assignors.spec import Partitions
from headrace.coordination.groups.consumer.model import (
    Change,
    ClassicPart,
    LegacyTopics,
    MemberStanding,
    MemberState,
    MemberSubscription,
    OwnedPartitions,
    RegexTopics,
    Resolved,
    Standing,
    Subscription,
)
from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.model.errors import Malformed
from headrace.record.compression import CorruptBatch
from headrace.wire.kafka.coordinator_records.offsets_tables import CONSUMER_OFFSETS
from headrace.wire.kafka.writer import CompactWriter, Writer

KEY_TYPES = frozenset({3, 4, 5, 6, 7, 8, 16})
_CLASSIC_TAG = 0
_HASH_TAG = 0
_TIMESTAMP_TAG = 0
_EPOCHS_TAG = 0
_NONE, _PRESENT = b"\x00", b"\x01"

_Tags = Sequence[tuple[int, bytes]]
_Read = Mapping[str, Any]
"""A record's fields by their names in Kafka's schemas."""


def encode(group_id: str, change: Change) -> tuple[bytes, bytes | None]:
    """Key and value of the record that says `change`."""
    match change:
        case GroupEpoch():
            return _key(3, group_id), _group_epoch(change)
        case LegacyTopics(present):
            # Never written but to be rid of it.
            return _key(4, group_id), _value(lambda out: out.count(0)) if present else None
        case MemberSubscription(member_id, subscription):
            value = None if subscription is None else _subscription(subscription)
            return _key(5, group_id, member_id), value
        case TargetEpoch():
            return _key(6, group_id), _target_epoch(change)
        case MemberTarget(member_id, partitions):
            value = None if partitions is None else _target(partitions)
            return _key(7, group_id, member_id), value
        case MemberStanding(member_id, standing):
            value = None if standing is None else _standing(standing)
            return _key(8, group_id, member_id), value
        case RegexTopics(regex, resolved):
            return _key(16, group_id, regex), None if resolved is None else _regex(resolved)


def _key(key_type: int, *names: str) -> bytes:
    writer = Writer()
    writer.int16(key_type)
    for name in names:
        writer.string(name)
    return bytes(writer.out)


def _value(write: Callable[[CompactWriter], _Tags | None]) -> bytes:
    writer = CompactWriter()
    writer.int16(0)
    writer.tags(write(writer) or ())
    return bytes(writer.out)


def _tag(write: Callable[[CompactWriter], None]) -> bytes:
    writer = CompactWriter()
    write(writer)
    return bytes(writer.out)


def _group_epoch(change: GroupEpoch) -> bytes | None:
    if change.epoch is None:
        return None
    epoch, digest = change.epoch, change.metadata_hash

    def write(out: CompactWriter) -> _Tags:
        out.int32(epoch)
        return [(_HASH_TAG, _tag(lambda tag: tag.int64(digest)))] if digest else ()

    return _value(write)


def _target_epoch(change: TargetEpoch) -> bytes | None:
    if change.epoch is None:
        return None
    epoch, made = change.epoch, change.timestamp_ms

    def write(out: CompactWriter) -> _Tags:
        out.int32(epoch)
        return [(_TIMESTAMP_TAG, _tag(lambda tag: tag.int64(made)))] if made else ()

    return _value(write)


def _subscription(one: Subscription) -> bytes:
    def write(out: CompactWriter) -> _Tags:
        out.nullable_string(one.instance_id)
        out.nullable_string(one.rack_id)
        out.string(one.client_id)
        out.string(one.client_host)
        out.strings(sorted(one.topics))
        out.nullable_string(one.regex)
        out.int32(one.rebalance_timeout_ms)
        out.nullable_string(one.assignor)
        # None is said too: Kafka takes a missing tag for a member of the classic protocol.
        return [(_CLASSIC_TAG, _NONE if one.classic is None else _classic(one.classic))]

    return _value(write)


def _classic(part: ClassicPart) -> bytes:
    writer = CompactWriter()
    writer.out += _PRESENT
    writer.int32(part.session_timeout_ms)
    writer.count(len(part.protocols))
    for name, metadata in part.protocols:
        writer.string(name)
        writer.bytes(metadata)
        writer.tags()
    writer.tags()
    return bytes(writer.out)


def _target(partitions: Partitions) -> bytes:
    def write(out: CompactWriter) -> None:
        out.count(len(partitions))
        for topic_id, parts in partitions.items():
            out.uuid(topic_id)
            out.int32s(sorted(parts))
            out.tags()

    return _value(write)


def _standing(one: Standing) -> bytes:
    def write(out: CompactWriter) -> None:
        out.int32(one.epoch)
        out.int32(one.previous_epoch)
        out.int8(one.state)
        _owned(out, one.assigned)
        _owned(out, one.pending)

    return _value(write)


def _owned(out: CompactWriter, partitions: OwnedPartitions) -> None:
    out.count(len(partitions))
    for topic_id, parts in partitions.items():
        numbers = sorted(parts)
        out.uuid(topic_id)
        out.int32s(numbers)
        epochs = CompactWriter()
        epochs.int32s([parts[one] for one in numbers])
        out.tags([(_EPOCHS_TAG, bytes(epochs.out))])


def _regex(resolved: Resolved) -> bytes:
    def write(out: CompactWriter) -> None:
        out.strings(sorted(resolved.topics))
        out.int64(resolved.version)
        out.int64(resolved.timestamp_ms)

    return _value(write)


def decode(key: bytes, value: bytes | None) -> tuple[str, Change]:
    """The group and the change a record speaks of; its key is of `KEY_TYPES`. CorruptBatch."""
    key_type = int.from_bytes(key[:2], "big")
    key_message, value_message = CONSUMER_OFFSETS[key_type]
    try:
        names = key_message.decode(key, 0, 2)
        read = None
        if value is not None:
            version = int.from_bytes(value[:2], "big")
            read = value_message.decode(value, version, 2)
        return names["groupId"], _change(key_type, names, read)
    except (Malformed, ValueError, KeyError) as error:
        raise CorruptBatch(f"no record of type {key_type}: {error}") from None


def _change(key_type: int, names: Mapping[str, str], read: _Read | None) -> Change:
    gone = read is None
    read = read or {}
    member_id = names.get("memberId", "")
    match key_type:
        case 3:
            return GroupEpoch(read.get("epoch"), read.get("metadataHash", 0))
        case 4:
            return LegacyTopics(not gone)
        case 5:
            return MemberSubscription(member_id, None if gone else _read_subscription(read))
        case 6:
            return TargetEpoch(read.get("assignmentEpoch"), read.get("assignmentTimestamp", 0))
        case 7:
            target = None if gone else _read_target(read["topicPartitions"])
            return MemberTarget(member_id, target)
        case 8:
            return MemberStanding(member_id, None if gone else _read_standing(read))
        case _:
            return RegexTopics(names["regularExpression"], None if gone else _read_regex(read))


def _read_subscription(read: _Read) -> Subscription:
    classic = read.get("classicMemberMetadata")
    part = None
    if classic is not None:
        protocols = tuple((one["name"], one["metadata"]) for one in classic["supportedProtocols"])
        part = ClassicPart(classic["sessionTimeoutMs"], protocols)
    return Subscription(
        read["instanceId"],
        read["rackId"],
        read["clientId"],
        read["clientHost"],
        frozenset(read["subscribedTopicNames"]),
        read["subscribedTopicRegex"] or "",
        read["rebalanceTimeoutMs"],
        read["serverAssignor"],
        part,
    )


def _read_target(topics: list[Any]) -> Partitions:
    return {bytes(one["topicId"]): frozenset(one["partitions"]) for one in topics}


def _read_standing(read: _Read) -> Standing:
    try:
        state = MemberState(read["state"])
    except ValueError:
        state = MemberState.UNKNOWN
    epoch = read["memberEpoch"]
    return Standing(
        epoch,
        read["previousMemberEpoch"],
        state,
        _read_owned(read["assignedPartitions"], epoch),
        _read_owned(read["partitionsPendingRevocation"], epoch),
    )


def _read_owned(topics: list[Any], epoch: int) -> OwnedPartitions:
    """Before 4.3 no epochs are there: then the member's stands in, as where they do not fit."""
    owned: dict[bytes, dict[int, int]] = {}
    for one in topics:
        numbers = one["partitions"]
        epochs = one.get("assignmentEpochs") or ()
        if len(epochs) != len(numbers):
            epochs = [epoch] * len(numbers)
        owned[bytes(one["topicId"])] = dict(zip(numbers, epochs, strict=True))
    return owned


def _read_regex(read: _Read) -> Resolved:
    return Resolved(frozenset(read["topics"]), read["version"], read["timestamp"])
