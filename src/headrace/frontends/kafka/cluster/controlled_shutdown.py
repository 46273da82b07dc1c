"""ControlledShutdown (key 7, v0-v3): move the leaderships of a broker that is about to stop.

- The answer has the replicated partitions that the broker still leads: it may ask again.
- Errors: NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE if it is not registered.

Versions: v0 has no client id in its header · v2 broker epoch · v3 flexible
"""

from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort

ANY_EPOCH = -1
"""Broker epoch that stands for any registration of the broker."""


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Move the broker's leaderships to others, and answer with those that may still be moved."""
    if context.version == 0:
        # Two bytes read as the length of a client id are the upper half of the broker's id: 0.
        body = memoryview(bytes(2) + body)
    return answered(context, body, "brokerId", _carried_out, _refused)


async def _carried_out(peers: "PeerPort", request: Fields) -> Fields:
    epoch = request.get("brokerEpoch", ANY_EPOCH)
    left = await peers.shut_down(BrokerId(request["brokerId"]), epoch)
    remaining = [{"topicName": name, "partitionIndex": index} for name, index in left]
    return {"errorCode": ErrorCode.NONE, "remainingPartitions": remaining}


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "remainingPartitions": ()}
