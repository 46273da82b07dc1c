"""QueueCalls (key 20005, v0): carry out calls of another broker's clients on queues led here.

- Headrace's own (ADR 79). Calls are numbered in a session; those taken before are skipped.
- Errors: FETCH_SESSION_ID_NOT_FOUND if the session has ended, UNSUPPORTED_VERSION without queues.
"""

from functools import partial
from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.cluster.queue_session import session_of
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back
from headrace.remote_queues.encoding import call_of
from headrace.remote_queues.messages import QueueCalls

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer QueueCalls when the calls are taken; their results are events."""
    return answered(context, body, "brokerId", _taken, _refused)


async def _taken(peers: "PeerPort", request: Fields) -> Fields:
    sessions, home, name = session_of(peers, request)
    calls = QueueCalls(request["first"], [call_of(call) for call in request["calls"]])
    taken = partial(sessions.take, home, name, calls)
    expected: int | None = await called_back(taken)
    if expected is None:
        raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    return {"errorCode": ErrorCode.NONE, "expected": expected}


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "expected": 0}
