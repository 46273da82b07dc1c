"""Heartbeat (key 12, v0-v4): renew a member's session.

- REBALANCE_IN_PROGRESS asks the member to join again.

Versions: v1 throttle · v3 static members · v4 flexible
"""

from headrace.frontends.kafka.authentication.authorisation import READ_GROUP, permits
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.groups import member_owners
from headrace.model.errors import ErrorCode
from headrace.wire.kafka.hot import heartbeat as codec


def handle(context: RequestContext, body: memoryview) -> bytes:
    """Renew a member's session; answer Heartbeat with an error code."""
    version = context.version
    request = codec.decode_request(version, body)
    if not permits(context, READ_GROUP, request.group_id):
        failed = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return codec.encode_response(version, codec.HeartbeatResponse(failed))
    if member_owners.is_anothers(context, request.group_id, request.member_id):
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        return codec.encode_response(version, codec.HeartbeatResponse(unknown))
    error = context.coordinators.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    if error is ErrorCode.NONE:
        member_owners.learn(context, request.group_id, request.member_id)
    return codec.encode_response(version, codec.HeartbeatResponse(error))
