"""DescribeGroups (key 15, v0-v6): members of groups and what they read.

* A group nobody knows is in state Dead, without an error before v6, as GROUP_ID_NOT_FOUND since.
v1 throttle · v3 authorized operations · v4 static members · v5 flexible · v6 errors (KIP-1043)
"""

from headrace.coordination.groups.messages import DescribedGroup
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.model.errors import ErrorCode

_NOT_FOUND_SINCE = 6
_OPERATIONS_NOT_ASKED = -(1 << 31)
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: all there is for a group."""


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer at once, for each group."""
    operations = _OPERATIONS_NOT_ASKED
    if getattr(request, "include_authorized_operations", False):
        operations = ALL_OPERATIONS
    make = maker(context)
    groups = tuple(
        _group(context, make, context.coordinators.groups.describe(group_id), operations)
        for group_id in request.groups
    )
    return make(None, groups=groups)


def _group(
    context: RequestContext,
    make: Make,
    group: DescribedGroup,
    operations: int,
) -> Entity:
    error, message = group.error, group.error_message
    if error is ErrorCode.GROUP_ID_NOT_FOUND and context.version < _NOT_FOUND_SINCE:
        error, message = ErrorCode.NONE, None
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
        authorized_operations=operations if error is ErrorCode.NONE else _OPERATIONS_NOT_ASKED,
    )
