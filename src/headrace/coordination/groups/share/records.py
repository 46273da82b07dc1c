"""Encoding and decoding of a share group's changes in `__consumer_offsets`.

key type   value
10         member: its properties and subscription
11         group epoch, hash of the subscribed topics' metadata
12         target epoch and its timestamp
13         member: its target assignment
14         member: its epoch and assigned partitions
15         partitions that have share state
"""

from headrace.coordination.groups.modern import records as tables
from headrace.coordination.groups.modern.changes import GroupEpoch, MemberTarget, TargetEpoch
from headrace.coordination.groups.share.assignor import Part
from headrace.coordination.groups.share.model import (
    Change,
    ShareMemberStanding,
    ShareMemberSubscription,
    ShareStanding,
    ShareSubscription,
    StatePartitions,
    TopicState,
    by_topic,
)
from headrace.shards.journal import KeyValue

_MEMBER, _GROUP, _TARGET, _TARGET_MEMBER, _CURRENT_MEMBER, _STATE = 10, 11, 12, 13, 14, 15
KEY_TYPES = range(_MEMBER, _STATE + 1)
_STABLE_MEMBER = 0
"""The member state in each record: members of share groups are always stable."""


def encode(group_id: str, change: Change) -> KeyValue:
    """Encode the record, key and value, that stores `change`."""
    match change:
        case ShareMemberSubscription(member_id, subscription):
            value = None if subscription is None else _subscription(subscription)
            return tables.encode(_MEMBER, (group_id, member_id), value)
        case GroupEpoch(epoch, digest):
            value = None if epoch is None else {"epoch": epoch, "metadataHash": digest}
            return tables.encode(_GROUP, (group_id,), value)
        case TargetEpoch(epoch, made_ms):
            value = {"assignmentEpoch": epoch, "assignmentTimestamp": made_ms}
            return tables.encode(_TARGET, (group_id,), None if epoch is None else value)
        case MemberTarget(member_id, parts):
            value = None if parts is None else {"topicPartitions": _partitions(parts)}
            return tables.encode(_TARGET_MEMBER, (group_id, member_id), value)
        case ShareMemberStanding(member_id, standing):
            value = None if standing is None else _standing(standing)
            return tables.encode(_CURRENT_MEMBER, (group_id, member_id), value)
        case StatePartitions():
            return tables.encode(_STATE, (group_id,), _state(change))


def _subscription(subscription: ShareSubscription) -> tables.Fields:
    return {
        "rackId": subscription.rack_id,
        "clientId": subscription.client_id,
        "clientHost": subscription.client_host,
        "subscribedTopicNames": subscription.topics,
    }


def _standing(standing: ShareStanding) -> tables.Fields:
    return {
        "memberEpoch": standing.epoch,
        "previousMemberEpoch": standing.previous_epoch,
        "state": _STABLE_MEMBER,
        "assignedPartitions": _partitions(standing.assigned),
    }


def _partitions(parts: frozenset[Part]) -> list[tables.Fields]:
    return [
        {"topicId": topic_id, "partitions": indexes}
        for topic_id, indexes in by_topic(parts).items()
    ]


def _state(change: StatePartitions) -> tables.Fields | None:
    if change.topics is None:
        return None
    initialized = [
        {"topicId": topic_id, "topicName": topic.name, "partitions": topic.partitions}
        for topic_id, topic in change.topics.items()
    ]
    return {"initializingTopics": (), "initializedTopics": initialized, "deletingTopics": ()}


def decode(key: bytes, value: bytes | None) -> tuple[str, Change]:
    """Decode a record, whose key type is in `KEY_TYPES`, to group id and change.

    Raises CorruptBatch.
    """
    key_type, names, read = tables.decode(key, value)
    return names["groupId"], _change(key_type, names.get("memberId", ""), read)


def _change(key_type: int, member_id: str, read: tables.Fields | None) -> Change:
    gone = read is None
    read = read or {}
    match key_type:
        case 10:
            return ShareMemberSubscription(member_id, None if gone else _read_subscription(read))
        case 11:
            return GroupEpoch(read.get("epoch"), read.get("metadataHash", 0))
        case 12:
            return TargetEpoch(read.get("assignmentEpoch"), read.get("assignmentTimestamp", 0))
        case 13:
            return MemberTarget(member_id, None if gone else _read_parts(read["topicPartitions"]))
        case 14:
            return ShareMemberStanding(member_id, None if gone else _read_standing(read))
        case _:
            return StatePartitions(None if gone else _read_state(read["initializedTopics"]))


def _read_subscription(read: tables.Fields) -> ShareSubscription:
    topics = tuple(sorted(read["subscribedTopicNames"]))
    return ShareSubscription(read["rackId"], read["clientId"], read["clientHost"], topics)


def _read_standing(read: tables.Fields) -> ShareStanding:
    told = _read_parts(read["assignedPartitions"])
    return ShareStanding(read["memberEpoch"], read["previousMemberEpoch"], told)


def _read_parts(topics: list[tables.Fields]) -> frozenset[Part]:
    return frozenset(
        (bytes(topic["topicId"]), index) for topic in topics for index in topic["partitions"]
    )


def _read_state(topics: list[tables.Fields]) -> dict[bytes, TopicState]:
    # State that was being initialised or deleted when the record was written is ignored: a
    # subscriber has it initialised again, and leftover state has no reader.
    return {
        bytes(topic["topicId"]): TopicState(topic["topicName"], tuple(topic["partitions"]))
        for topic in topics
    }
