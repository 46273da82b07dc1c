"""LeasePing (key 20004, v0): name the leader epochs that the pinging broker does not know.

- Headrace's own: a leader pings the members of its ISR, whose answers grant it the right to be the
  only leader (ADR 78). A new leader's ping also fences the former one, whose answer says that it
  has given the right up.
- Errors: UNSUPPORTED_VERSION where no topic needs that right, BROKER_NOT_AVAILABLE before this
  broker is registered.
"""

from typing import TYPE_CHECKING

from headrace.broker.replica.leading_right import PingAnswer
from headrace.broker.replica.ping_fields import fields_of_answer, ping_of
from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort

_NOTHING = PingAnswer(-1, 0, {})


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer LeasePing from memory."""
    return answered(context, body, "brokerId", _answered, _refused)


async def _answered(peers: "PeerPort", request: Fields) -> Fields:
    return {"errorCode": ErrorCode.NONE, **fields_of_answer(peers.pinged(ping_of(request)))}


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, **fields_of_answer(_NOTHING)}
