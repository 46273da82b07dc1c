"""LeaveGroup (key 13, v0-v5): take members out of their group.

v1 throttle · v3 several members, by instance id too (KIP-345) · v4 flexible · v5 reasons (KIP-800)
"""

from headrace.coordination.groups.messages import Leaver
from headrace.frontends.kafka.connection.authorisation import READ_GROUP, require
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ApiError, ErrorCode

_SEVERAL_SINCE = 3


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer at once, for each member; before v3 the one member's error is the answer's."""
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
        left = context.coordinators.groups.leave(request.group_id, leavers)
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
