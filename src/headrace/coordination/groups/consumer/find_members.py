"""Find a group and its member, replacing a static member that rejoins under a new id."""

from collections.abc import Callable
from dataclasses import replace

from headrace.coordination.groups.consumer.group import NOTHING, ConsumerGroup
from headrace.coordination.groups.consumer.model import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    Member,
    MemberStanding,
    MemberSubscription,
)
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.modern.changes import MemberTarget
from headrace.coordination.groups.modern.group_change import Turn
from headrace.model.errors import ApiError, ErrorCode


def find(shard: ShardContext, group_id: str) -> ConsumerGroup:
    """Return the consumer group; ApiError GROUP_ID_NOT_FOUND."""
    group = shard.modern.find(ConsumerGroup, group_id)
    if group is not None:
        return group
    if group_id in shard.groups:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def check_room(shard: ShardContext, group: ConsumerGroup, member_id: str) -> None:
    """Raise ApiError GROUP_MAX_SIZE_REACHED if a new member would exceed the group's maximum
    size."""
    limit = shard.limits.consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limit} members.",
        )


def take_in(
    turn: Turn[ConsumerGroup],
    member_id: str,
    instance_id: str | None,
    *,
    joins: bool,
    replaces: Callable[[Member], None],
) -> Member | None:
    """Return the present member; None if it joins with this request.

    A static member that joins under a new member id replaces its former entry, unless `replaces`
    raises. ApiError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    group = turn.group
    if instance_id is None:
        return group.members.get(member_id) if joins else group.member(member_id)
    holder = group.static_member(instance_id)
    if not joins:
        return check_instance(holder, member_id, instance_id)
    if holder is None:
        return group.members.get(member_id)
    if holder.member_id == member_id and holder.standing.epoch != LEAVE_STATIC_EPOCH:
        return holder  # A repeated request; Kafka refuses it with UNRELEASED_INSTANCE_ID.
    replaces(holder)
    return _replace(turn, holder, member_id)


def check_instance(holder: Member | None, member_id: str, instance_id: str) -> Member:
    """Return `holder`, the static member of the instance id, if its member id matches.

    Raises ApiError.
    """
    if holder is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{holder.member_id}.",
        )
    return holder


def check_released(holder: Member, member_id: str) -> None:
    """Raise ApiError UNRELEASED_INSTANCE_ID while the instance id's holder has not left.

    A classic member may be replaced at any time, as in a classic group.
    """
    if holder.is_classic or holder.standing.epoch == LEAVE_STATIC_EPOCH:
        return
    raise ApiError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {holder.subscription.instance_id} cannot "
        f"join the group because the instance id is owned by {holder.member_id} member.",
    )


def _replace(turn: Turn[ConsumerGroup], holder: Member, member_id: str) -> Member:
    """Move the static member's subscription, target and partitions to `member_id`; return it."""
    group = turn.group
    target = group.target.get(holder.member_id, NOTHING)
    standing = replace(holder.standing, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    remove_records(turn, holder.member_id)
    turn.change(MemberSubscription(member_id, holder.subscription))
    turn.change(MemberTarget(member_id, target))
    turn.change(MemberStanding(member_id, standing))
    return group.members[member_id]


def remove_records(turn: Turn[ConsumerGroup], member_id: str) -> None:
    """Add tombstones for the member's subscription, target and current assignment."""
    turn.change(MemberStanding(member_id, None))
    turn.change(MemberTarget(member_id, None))
    turn.change(MemberSubscription(member_id, None))
