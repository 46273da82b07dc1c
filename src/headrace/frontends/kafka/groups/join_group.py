"""JoinGroup (key 11, v0-v9): join the group's next generation; responds when that starts.

- The first answer to a new dynamic member is MEMBER_ID_REQUIRED with its id (v4+, KIP-394).
- Only the leader gets all members and their subscriptions.

Versions: v1 rebalance timeout · v2 throttle · v5 static members (KIP-345) · v6 flexible v7 protocol
type, nullable protocol name · v8 reasons (KIP-800) · v9 skip assignment (KIP-814)
"""

from datetime import timedelta

from headrace.coordination.groups.messages import JoinAnswer, JoinRequest
from headrace.frontends.kafka.authentication.authorisation import READ_GROUP, permits
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.groups import member_owners
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka import kio_codec

_NEEDS_MEMBER_ID_SINCE = 4
_NULLABLE_PROTOCOL_SINCE = 7
_SKIPS_ASSIGNMENT_SINCE = 9
_KNOWN_BY_ID = frozenset({ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED})


def _milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def handle(context: RequestContext, request: Entity) -> Pending:
    """Answer JoinGroup when the generation begins, or at once with an error."""
    pending = Pending()
    if not permits(context, READ_GROUP, request.group_id):
        _answer(context, pending, JoinAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return pending
    if member_owners.is_anothers(context, request.group_id, request.member_id):
        _answer(context, pending, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        return pending
    session_ms = _milliseconds(request.session_timeout)
    # v0 has one timeout, which is used for both.
    rebalance = getattr(request, "rebalance_timeout", None)
    join = JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        client_id=context.client_id or "",
        client_host=f"/{context.identity.host}",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms if rebalance is None else _milliseconds(rebalance),
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        needs_member_id=context.version >= _NEEDS_MEMBER_ID_SINCE,
        skips_assignment=context.version >= _SKIPS_ASSIGNMENT_SINCE,
        reason=getattr(request, "reason", None) or "",
    )

    def joined(answer: JoinAnswer) -> None:
        if answer.error in _KNOWN_BY_ID:
            member_owners.learn(context, request.group_id, answer.member_id)
        _answer(context, pending, answer)

    context.coordinators.groups.join(join, joined)
    return pending


def _answer(context: RequestContext, pending: Pending, answer: JoinAnswer) -> None:
    if pending.done:
        return
    make = maker(context)
    members = tuple(
        make(
            "JoinGroupResponseMember",
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata,
        )
        for member in answer.members
    )
    name = answer.protocol_name
    response = make(
        None,
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=name if context.version >= _NULLABLE_PROTOCOL_SINCE else name or "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=members,
    )
    pending.resolve(kio_codec.encode_body(response))
