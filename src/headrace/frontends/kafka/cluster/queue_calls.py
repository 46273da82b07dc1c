"""QueueCalls (key 20005, v0): carry out calls of another broker's clients on queues led here.

- Headrace's own (ADR 79). Calls are numbered in a session; those taken before are skipped.
- Errors: FETCH_SESSION_ID_NOT_FOUND if the session has ended, UNSUPPORTED_VERSION without queues.
"""

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered_back
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode
from headrace.remote_queues.leader.leader_requests import take_calls


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer QueueCalls when the calls are taken; their results are events."""
    return answered_back(context, body, take_calls, _refused)


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "expected": 0}
