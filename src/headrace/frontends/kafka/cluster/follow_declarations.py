"""FollowDeclarations (key 20002, v0): committed declarations from the offsets that a broker names.

- Headrace's own (ADR 76): a long poll, which confirms that the broker has applied what is below the
  offsets. A later poll of the same broker ends the earlier one.
- Errors: of each partition NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, KAFKA_STORAGE_ERROR,
  OFFSET_OUT_OF_RANGE (committed records were lost); UNSUPPORTED_VERSION without declarations.
"""

from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer FollowDeclarations once there are records, or after some seconds."""
    return answered(context, body, "brokerId", _polled, _refused, alone=False)


async def _polled(peers: "PeerPort", request: Fields) -> Fields:
    return await peers.declarations.polled(request)


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "partitions": ()}
