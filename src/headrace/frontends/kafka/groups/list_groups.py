"""ListGroups (key 16, v0-v5): list the groups that this broker coordinates.

v1 throttle · v3 flexible · v4 states, filter by state · v5 types, filter by type (KIP-848)
"""

from headrace.coordination.groups.messages import ListedGroup
from headrace.coordination.share.share_service import PROTOCOL
from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    permits,
    refused,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ApiError, ErrorCode


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer ListGroups with classic, consumer and share groups.

    COORDINATOR_LOAD_IN_PROGRESS while a partition of the coordinator is being loaded.
    """
    try:
        filters = getattr(request, "states_filter", ()), getattr(request, "types_filter", ())
        listed = context.coordinators.groups.list_groups(*filters)
        listed += [
            ListedGroup(group.group_id, PROTOCOL, group.state, PROTOCOL)
            for group in context.coordinators.share.list_groups(*filters)
        ]
        error = ErrorCode.NONE
    except ApiError as problem:
        listed, error = [], problem.code
    hidden: frozenset[str] = frozenset()
    if not permits(context, DESCRIBE_CLUSTER, told=False):
        hidden = refused(context, DESCRIBE_GROUP, (group.group_id for group in listed), told=False)
    make = maker(context)
    groups = tuple(
        make(
            "ListedGroup",
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=group.group_type,
        )
        for group in listed
        if group.group_id not in hidden
    )
    return make(
        None,
        error_code=error,
        groups=groups,
    )
