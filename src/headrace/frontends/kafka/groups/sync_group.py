"""SyncGroup (key 14, v0-v5): return the member's assignment, sent by the group's leader.

- Answered when the leader's assignment is committed; at once while the group is Stable.

Versions: v1 throttle · v3 static members · v4 flexible · v5 protocol type and name (KIP-559)
"""

from functools import partial

from headrace.coordination.groups.messages import SyncAnswer, SyncRequest
from headrace.frontends.kafka.authentication.authorisation import READ_GROUP, permits
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.groups import member_owners
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka import kio_codec

_PROTOCOLS_SINCE = 5


def handle(context: RequestContext, request: Entity) -> Pending:
    """Answer SyncGroup with the member's assignment once committed, or at once with an error."""
    pending = Pending()
    if not permits(context, READ_GROUP, request.group_id):
        _answer(context, pending, SyncAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return pending
    if member_owners.is_anothers(context, request.group_id, request.member_id):
        _answer(context, pending, SyncAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        return pending
    sync = SyncRequest(
        group_id=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        protocol_type=getattr(request, "protocol_type", None),
        protocol_name=getattr(request, "protocol_name", None),
        assignments=tuple(
            (assignment.member_id, assignment.assignment) for assignment in request.assignments
        ),
    )
    if context.version >= _PROTOCOLS_SINCE and None in (sync.protocol_type, sync.protocol_name):
        # Both are mandatory from v5 on, and nullable only in the format.
        _answer(context, pending, SyncAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return pending
    context.coordinators.groups.sync(sync, partial(_answer, context, pending))
    return pending


def _answer(context: RequestContext, pending: Pending, answer: SyncAnswer) -> None:
    if pending.done:
        return
    response = maker(context)(
        None,
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
    pending.resolve(kio_codec.encode_body(response))
