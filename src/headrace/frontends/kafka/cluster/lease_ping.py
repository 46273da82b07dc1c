"""LeasePing (key 20004, v0): name the leader epochs that the pinging broker does not know.

- Headrace's own: a leader pings the members of its ISR, whose answers grant it the right to be the
  only leader (ADR 78).
- Errors: UNSUPPORTED_VERSION where no topic needs that right, BROKER_NOT_AVAILABLE before this
  broker is registered.
"""

from typing import TYPE_CHECKING

from headrace.broker.replica.leading_right import Ping
from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer LeasePing from memory."""
    return answered(context, body, "brokerId", _answered, _refused)


async def _answered(peers: "PeerPort", request: Fields) -> Fields:
    answer = peers.pinged(Ping(request["incarnation"], request["number"]))
    topics: dict[bytes, list[Fields]] = {}
    for (topic_id, index), epoch in answer.epochs.items():
        topics.setdefault(topic_id, []).append({"partitionIndex": index, "leaderEpoch": epoch})
    return {
        "errorCode": ErrorCode.NONE,
        "incarnation": answer.incarnation,
        "number": answer.number,
        "topics": [
            {"topicId": topic_id, "partitions": partitions}
            for topic_id, partitions in topics.items()
        ],
    }


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "incarnation": -1, "number": 0, "topics": ()}
