"""DescribeGroups (key 15, v0-v6): return the members of groups and their assignments.

- An unknown group is in state Dead without an error before v6, and GROUP_ID_NOT_FOUND from v6 on.

Versions: v1 throttle · v3 authorized operations · v4 static members · v5 flexible · v6 errors
(KIP-1043)
"""

from headrace.coordination.groups.messages import DescribedGroup
from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_GROUP,
    operations,
    permits,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.model.errors import ErrorCode
from headrace.security.authorizer import ResourceType

_NOT_FOUND_SINCE = 6
_OPERATIONS_NOT_ASKED = -(1 << 31)


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer DescribeGroups with the state and members of each group."""
    asked = getattr(request, "include_authorized_operations", False)
    make = maker(context)
    groups = tuple(
        _group(context, make, _described(context, group_id), asked) for group_id in request.groups
    )
    return make(None, groups=groups)


def _described(context: RequestContext, group_id: str) -> DescribedGroup:
    if permits(context, DESCRIBE_GROUP, group_id):
        return context.coordinators.groups.describe(group_id)
    return DescribedGroup(group_id, error=ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _group(
    context: RequestContext, make: Make, group: DescribedGroup, operations_asked: bool
) -> Entity:
    error, message = group.error, group.error_message
    if error is ErrorCode.GROUP_ID_NOT_FOUND and context.version < _NOT_FOUND_SINCE:
        error, message = ErrorCode.NONE, None
    may = _OPERATIONS_NOT_ASKED
    if operations_asked and error is ErrorCode.NONE:
        may = operations(context, ResourceType.GROUP, group.group_id)
    members = tuple(
        make(
            "DescribedGroupMember",
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata,
            member_assignment=member.assignment,
        )
        for member in group.members
    )
    return make(
        "DescribedGroup",
        error_code=error,
        error_message=message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=members,
        authorized_operations=may,
    )
