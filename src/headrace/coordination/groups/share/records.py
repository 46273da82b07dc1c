"""What changes a share group, as records of `__consumer_offsets`."""

from headrace.coordination.groups.share.assignor import Part
from headrace.coordination.groups.share.group import (
    STABLE_MEMBER,
    ShareGroup,
    ShareMember,
    by_topic,
)
from headrace.coordination.runtime.journal import KeyValue
from headrace.wire.kafka.coordinator_records import share_groups as wire


def _record(key_type: int, group: str, value: wire.Value | None, member_id: str = "") -> KeyValue:
    key = wire.encode_key(wire.ShareGroupKey(key_type, group, member_id))
    return key, None if value is None else wire.encode_value(value)


def member(group: str, one: ShareMember) -> KeyValue:
    """Who a member is."""
    value = wire.MemberValue(one.rack_id, one.client_id, one.client_host, one.topics)
    return _record(wire.MEMBER, group, value, one.member_id)


def epoch(group: ShareGroup) -> KeyValue:
    """The group's epoch."""
    return _record(wire.GROUP, group.group_id, wire.GroupValue(group.epoch, group.metadata_hash))


def target(group: str, member_id: str, parts: frozenset[Part]) -> KeyValue:
    """What a member is to read."""
    return _record(wire.TARGET_MEMBER, group, by_topic(parts), member_id)


def target_epoch(group: ShareGroup) -> KeyValue:
    """The epoch the targets are of, and when they were made."""
    value = wire.TargetValue(group.target_epoch, group.target_at_ms)
    return _record(wire.TARGET, group.group_id, value)


def current(group: str, one: ShareMember) -> KeyValue:
    """What a member has been told."""
    value = wire.CurrentValue(one.epoch, one.previous_epoch, STABLE_MEMBER, by_topic(one.assigned))
    return _record(wire.CURRENT_MEMBER, group, value, one.member_id)


def member_gone(group: str, member_id: str) -> list[KeyValue]:
    """Nothing of a member is left."""
    types = (wire.CURRENT_MEMBER, wire.TARGET_MEMBER, wire.MEMBER)
    return [_record(one, group, None, member_id) for one in types]


def state_partitions(group: ShareGroup) -> KeyValue:
    """Of which partitions state is kept."""
    value = wire.StatePartitionsValue({}, group.initialized, {})
    return _record(wire.STATE_PARTITIONS, group.group_id, value)


def group_gone(group: ShareGroup) -> list[KeyValue]:
    """Nothing of the group is left."""
    gone = [one for name in group.members for one in member_gone(group.group_id, name)]
    types = (wire.TARGET, wire.STATE_PARTITIONS, wire.GROUP)
    return gone + [_record(one, group.group_id, None) for one in types]
