"""Encoding and decoding of a consumer group's changes in `__consumer_offsets`.

key type   value
3          group epoch, hash of the subscribed topics' metadata
4          subscribed topics (Kafka before 4.1)
5          member: its properties and subscription
6          target epoch and its timestamp
7          member: its target assignment
8          member: its epoch, state, assigned partitions, partitions to revoke
16         regular expression: the matching topics
"""

from collections.abc import Mapping, Sequence
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
from headrace.coordination.groups.modern import records as tables
from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.shards.journal import KeyValue

KEY_TYPES = frozenset({3, 4, 5, 6, 7, 8, 16})
_Read = tables.Fields


def encode(group_id: str, change: Change) -> KeyValue:
    """Encode the record, key and value, that stores `change`."""
    match change:
        case GroupEpoch(epoch, digest):
            gone = epoch is None
            return _record(3, group_id, None if gone else {"epoch": epoch, "metadataHash": digest})
        case LegacyTopics(present):
            # Only a tombstone is ever written: it deletes what an older Kafka left.
            return _record(4, group_id, {"topics": ()} if present else None)
        case MemberSubscription(member_id, subscription):
            value = None if subscription is None else _subscription(subscription)
            return _record(5, group_id, value, member_id)
        case TargetEpoch(epoch, made_ms):
            target = {"assignmentEpoch": epoch, "assignmentTimestamp": made_ms}
            return _record(6, group_id, None if epoch is None else target)
        case MemberTarget(member_id, partitions):
            value = None if partitions is None else {"topicPartitions": _target(partitions)}
            return _record(7, group_id, value, member_id)
        case MemberStanding(member_id, standing):
            value = None if standing is None else _standing(standing)
            return _record(8, group_id, value, member_id)
        case RegexTopics(regex, resolved):
            return _record(16, group_id, None if resolved is None else _regex(resolved), regex)


def _record(key_type: int, group_id: str, value: _Read | None, *more: str) -> KeyValue:
    return tables.encode(key_type, (group_id, *more), value)


def _subscription(subscription: Subscription) -> _Read:
    return {
        "instanceId": subscription.instance_id,
        "rackId": subscription.rack_id,
        "clientId": subscription.client_id,
        "clientHost": subscription.client_host,
        "subscribedTopicNames": sorted(subscription.topics),
        "subscribedTopicRegex": subscription.regex,
        "rebalanceTimeoutMs": subscription.rebalance_timeout_ms,
        "serverAssignor": subscription.assignor,
        # Written even if None: Kafka takes a missing tag for a member of the classic protocol.
        "classicMemberMetadata": None
        if subscription.classic is None
        else _classic(subscription.classic),
    }


def _classic(part: ClassicPart) -> _Read:
    return {
        "sessionTimeoutMs": part.session_timeout_ms,
        "supportedProtocols": [
            {"name": name, "metadata": metadata} for name, metadata in part.protocols
        ],
    }


def _target(partitions: Partitions) -> list[_Read]:
    return [
        {"topicId": topic_id, "partitions": sorted(parts)} for topic_id, parts in partitions.items()
    ]


def _standing(standing: Standing) -> _Read:
    return {
        "memberEpoch": standing.epoch,
        "previousMemberEpoch": standing.previous_epoch,
        "state": standing.state,
        "assignedPartitions": _owned(standing.assigned),
        "partitionsPendingRevocation": _owned(standing.pending),
    }


def _owned(partitions: OwnedPartitions) -> Sequence[_Read]:
    found = []
    for topic_id, parts in partitions.items():
        numbers = sorted(parts)
        epochs = [parts[number] for number in numbers]
        found.append({"topicId": topic_id, "partitions": numbers, "assignmentEpochs": epochs})
    return found


def _regex(resolved: Resolved) -> _Read:
    return {
        "topics": sorted(resolved.topics),
        "version": resolved.version,
        "timestamp": resolved.timestamp_ms,
    }


def decode(key: bytes, value: bytes | None) -> tuple[str, Change]:
    """Decode a record, whose key type is in `KEY_TYPES`, to group id and change.

    Raises CorruptBatch.
    """
    key_type, names, read = tables.decode(key, value)
    return names["groupId"], _change(key_type, names, read)


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
        protocols = tuple(
            (protocol["name"], protocol["metadata"]) for protocol in classic["supportedProtocols"]
        )
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
    return {bytes(topic["topicId"]): frozenset(topic["partitions"]) for topic in topics}


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
    """Decode owned partitions; without valid assignment epochs (Kafka before 4.3) use the
    member's."""
    owned: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        numbers = topic["partitions"]
        epochs = topic.get("assignmentEpochs") or ()
        if len(epochs) != len(numbers):
            epochs = [epoch] * len(numbers)
        owned[bytes(topic["topicId"])] = dict(zip(numbers, epochs, strict=True))
    return owned


def _read_regex(read: _Read) -> Resolved:
    return Resolved(frozenset(read["topics"]), read["version"], read["timestamp"])
