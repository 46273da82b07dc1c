"""LeaveGroup (key 13, v0-v5): remove members from their group.

v1 throttle · v3 several members, by instance id too (KIP-345) · v4 flexible · v5 reasons (KIP-800)
"""

from headrace.coordination.groups.messages import Leaver, Left
from headrace.frontends.kafka.authentication.authorisation import (
    DELETE_GROUP,
    READ_GROUP,
    permits,
    require,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.groups import member_owners
from headrace.model.errors import ApiError, ErrorCode

_SEVERAL_SINCE = 3


def handle(context: RequestContext, request: Entity) -> Entity:
    """Remove members; answer LeaveGroup with an error for each, before v3 with one error."""
    several = context.version >= _SEVERAL_SINCE
    if several:
        leavers = [
            Leaver(member.member_id, member.group_instance_id, getattr(member, "reason", None))
            for member in request.members
        ]
    else:
        leavers = [Leaver(request.member_id)]
    error = ErrorCode.NONE
    try:
        require(context, READ_GROUP, request.group_id)
        left = _leave(context, request.group_id, leavers)
    except ApiError as refused:
        left, error = [], refused.code
    make = maker(context)
    if not several:
        error = left[0].error if left else error
        members: tuple[Entity, ...] = ()
    else:
        members = tuple(
            make(
                "MemberResponse",
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                error_code=member.error,
            )
            for member in left
        )
    return make(
        None,
        error_code=error,
        members=members,
    )


def _leave(context: RequestContext, group_id: str, leavers: list[Leaver]) -> list[Left]:
    """Remove members that the client owns, or all of them with DELETE of the group."""
    others = [member_owners.is_anothers(context, group_id, leaver.member_id) for leaver in leavers]
    if any(others) and permits(context, DELETE_GROUP, group_id, told=False):
        others = [False] * len(leavers)
    wanted = [leaver for leaver, refused in zip(leavers, others, strict=True) if not refused]
    done = iter(context.coordinators.groups.leave(group_id, wanted))
    left: list[Left] = []
    for leaver, refused in zip(leavers, others, strict=True):
        if refused:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            left.append(Left(leaver.member_id, leaver.instance_id, unknown))
            continue
        left.append(next(done))
        if left[-1].error is ErrorCode.NONE:
            member_owners.forget(context, group_id, leaver.member_id)
    return left
