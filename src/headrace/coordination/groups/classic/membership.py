"""Heartbeat and LeaveGroup of the classic protocol."""

from collections.abc import Sequence

from headrace.coordination.groups.classic import rebalance
from headrace.coordination.groups.classic.group import ClassicGroup
from headrace.coordination.groups.classic.states import GroupState
from headrace.coordination.groups.context import ShardContext
from headrace.coordination.groups.messages import UNKNOWN_MEMBER, Leaver, Left
from headrace.model.errors import ApiError, ErrorCode

_S = GroupState


def heartbeat(
    shard: ShardContext, group_id: str, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    """Renew the member's session; return REBALANCE_IN_PROGRESS if it must rejoin."""
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    try:
        member = group.check_member(member_id, instance_id)
    except ApiError as error:
        return error.code
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    rebalance.keep_alive(shard, group, member)
    if group.state is _S.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(shard: ShardContext, group_id: str, leavers: Sequence[Leaver]) -> list[Left]:
    """Remove members, each by member id or, for administrators, by instance id alone."""
    group = shard.groups.get(group_id)
    if group is None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        return [Left(leaver.member_id, leaver.instance_id, unknown) for leaver in leavers]
    answers = [
        Left(leaver.member_id, leaver.instance_id, _leave_one(group, leaver)) for leaver in leavers
    ]
    left = any(answer.error is ErrorCode.NONE for answer in answers)
    if group.state is not _S.EMPTY and left:
        rebalance.rebalance_or_complete(shard, group)
    return answers


def _leave_one(group: ClassicGroup, leaver: Leaver) -> ErrorCode:
    member_id, instance_id, _ = leaver
    if member_id == UNKNOWN_MEMBER:
        holder = None if instance_id is None else group.static_members.get(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        group.remove(holder)
    elif member_id in group.pending_joins:
        group.remove(member_id)
    else:
        try:
            group.check_member(member_id, instance_id)
        except ApiError as error:
            return error.code
        group.remove(member_id)
    return ErrorCode.NONE
