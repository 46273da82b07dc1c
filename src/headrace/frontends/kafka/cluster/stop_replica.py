"""StopReplica (key 5, v3-v4): receive from the controller which replicas to stop or delete.

- Deleted logs are gone for good when this is answered; KAFKA_STORAGE_ERROR if a deletion failed,
  FENCED_LEADER_EPOCH for an older leader epoch than the known one.

Versions: v3 leader epochs · v4 KRaft flag
"""

from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode
from headrace.model.nouns import TopicPartition

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer StopReplica once the replicas are stopped or deleted."""
    return answered(context, body, "controllerId", _carried_out, _refused)


async def _carried_out(peers: "PeerPort", request: Fields) -> Fields:
    failed = await peers.stop_replicas(request)
    errors = [
        {
            "topicName": topic["topicName"],
            "partitionIndex": state["partitionIndex"],
            "errorCode": failed.get(
                TopicPartition(topic["topicName"], state["partitionIndex"]), ErrorCode.NONE
            ),
        }
        for topic in request["topicStates"]
        for state in topic["partitionStates"]
    ]
    return {"errorCode": ErrorCode.NONE, "partitionErrors": errors}


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "partitionErrors": ()}
