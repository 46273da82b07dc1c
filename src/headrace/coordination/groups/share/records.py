"""Changes of a share group as records of `__consumer_offsets` (key types 10 to 15)."""

from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.share.model import (
    Change,
    MemberStanding,
    MemberSubscription,
    Standing,
    StatePartitions,
    Subscription,
    as_parts,
    by_topic,
)
from headrace.coordination.runtime.journal import KeyValue
from headrace.record.compression import CorruptBatch
from headrace.wire.kafka.coordinator_records import share_groups as wire

KEY_TYPES = wire.KEY_TYPES
_STABLE_MEMBER = 0
"""A member's state in its record: share groups' members are never anything else."""


def encode(group_id: str, change: Change) -> KeyValue:
    """Key and value of the record that says `change`."""
    value: wire.Value | None = None
    member_id = ""
    match change:
        case MemberSubscription(member_id, subscription):
            key_type = wire.MEMBER
            if subscription is not None:
                value = wire.MemberValue(
                    subscription.rack_id,
                    subscription.client_id,
                    subscription.client_host,
                    subscription.topics,
                )
        case GroupEpoch(epoch, metadata_hash):
            key_type = wire.GROUP
            value = None if epoch is None else wire.GroupValue(epoch, metadata_hash)
        case TargetEpoch(epoch, timestamp_ms):
            key_type = wire.TARGET
            value = None if epoch is None else wire.TargetValue(epoch, timestamp_ms)
        case MemberTarget(member_id, partitions):
            key_type = wire.TARGET_MEMBER
            value = None if partitions is None else by_topic(partitions)
        case MemberStanding(member_id, standing):
            key_type = wire.CURRENT_MEMBER
            if standing is not None:
                told = by_topic(standing.assigned)
                value = wire.CurrentValue(
                    standing.epoch, standing.previous_epoch, _STABLE_MEMBER, told
                )
        case StatePartitions(topics):
            key_type = wire.STATE_PARTITIONS
            value = None if topics is None else wire.StatePartitionsValue({}, topics, {})
    key = wire.encode_key(wire.ShareGroupKey(key_type, group_id, member_id))
    return key, None if value is None else wire.encode_value(value)


def decode(key: bytes, value: bytes | None) -> tuple[str, Change]:
    """The group and the change a record speaks of; its key is of `KEY_TYPES`. CorruptBatch."""
    about = wire.decode_key(key)
    if about is None:
        raise CorruptBatch("no key of a share group's record")
    if value is None:
        return about.group, _tombstone(about)
    return about.group, _change(about.member_id, wire.decode_value(about.type, value))


def _tombstone(about: wire.ShareGroupKey) -> Change:
    match about.type:
        case wire.MEMBER:
            return MemberSubscription(about.member_id, None)
        case wire.GROUP:
            return GroupEpoch(None)
        case wire.TARGET:
            return TargetEpoch(None)
        case wire.TARGET_MEMBER:
            return MemberTarget(about.member_id, None)
        case wire.CURRENT_MEMBER:
            return MemberStanding(about.member_id, None)
        case _:
            return StatePartitions(None)


def _change(member_id: str, value: wire.Value) -> Change:
    match value:
        case wire.MemberValue():
            topics = tuple(sorted(value.topics))
            subscription = Subscription(value.rack_id, value.client_id, value.client_host, topics)
            return MemberSubscription(member_id, subscription)
        case wire.GroupValue():
            return GroupEpoch(value.epoch, value.metadata_hash)
        case wire.TargetValue():
            return TargetEpoch(value.epoch, value.timestamp)
        case wire.CurrentValue():
            told = as_parts(value.partitions)
            return MemberStanding(member_id, Standing(value.epoch, value.previous_epoch, told))
        case wire.StatePartitionsValue():
            # What was being made or deleted when the record was written may be there or not: who
            # subscribes has it made, and what is left over is nobody's.
            return StatePartitions(value.initialized)
        case _:
            return MemberTarget(member_id, as_parts(value))
