"""QueueEvents (key 20006, v0): return the next events of queues led here, once there are some.

- Headrace's own (ADR 79): deliveries, and the results of calls.
- Errors: FETCH_SESSION_ID_NOT_FOUND if the session has ended, UNSUPPORTED_VERSION without queues.
"""

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered_back
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode
from headrace.remote_queues.leader.leader_requests import poll_events


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer QueueEvents once there are events, or after half a second."""
    return answered_back(context, body, poll_events, _refused)


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "first": 0, "events": ()}
