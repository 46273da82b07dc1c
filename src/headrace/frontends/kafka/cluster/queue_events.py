"""QueueEvents (key 20006, v0): return the next events of queues led here, once there are some.

- Headrace's own (ADR 79): deliveries, and the results of calls.
- Errors: FETCH_SESSION_ID_NOT_FOUND if the session has ended, UNSUPPORTED_VERSION without queues.
"""

from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId
from headrace.remote_queues.encoding import encoded
from headrace.remote_queues.events import Poll
from headrace.remote_queues.queue_sessions import SessionName

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer QueueEvents once there are events, or after half a second."""
    return answered(context, body, "brokerId", _polled, _refused)


async def _polled(peers: "PeerPort", request: Fields) -> Fields:
    name = SessionName(request["brokerEpoch"], request["session"])
    poll = Poll(request["expected"], request["again"], request["room"])
    first, events = await peers.poll_queue_events(BrokerId(request["brokerId"]), name, poll)
    encoded_events = [encoded(event) for event in events]
    return {"errorCode": ErrorCode.NONE, "first": first, "events": encoded_events}


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "first": 0, "events": ()}
