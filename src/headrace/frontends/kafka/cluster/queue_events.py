"""QueueEvents (key 20006, v0): return the next events of queues led here, once there are some.

- Headrace's own (ADR 79): deliveries, and the results of calls.
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
from headrace.remote_queues.encoding import encoded
from headrace.remote_queues.events import Poll

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.cluster.peers.peer_port import PeerPort
    from headrace.remote_queues.messages import Event


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer QueueEvents once there are events, or after half a second."""
    return answered(context, body, "brokerId", _polled, _refused)


async def _polled(peers: "PeerPort", request: Fields) -> Fields:
    sessions, home, name = session_of(peers, request)
    poll = Poll(request["expected"], request["again"], request["room"])
    polled = partial(sessions.poll, home, name, poll)
    found: tuple[int, Sequence[Event]] | None = await called_back(polled)
    if found is None:
        raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    first, events = found
    encoded_events = [encoded(event) for event in events]
    return {"errorCode": ErrorCode.NONE, "first": first, "events": encoded_events}


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "first": 0, "events": ()}
