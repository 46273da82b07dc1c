"""LeaderAndIsr (key 4, v5-v7): receive from the controller which partitions to lead and follow.

- STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH for the whole request: nothing is changed. For a
  partition: STALE_CONTROLLER_EPOCH for an older leader epoch than the known one,
  KAFKA_STORAGE_ERROR.

Versions: v5 topic ids · v6 leader recovery · v7 KRaft flag
"""

from typing import TYPE_CHECKING, Any

from headrace.cluster.decisions.orders import Failed
from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode
from headrace.model.nouns import TopicPartition

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort

_SAID = {ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.STALE_CONTROLLER_EPOCH}
"""Error codes that Kafka replaces in this API."""


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer LeaderAndIsr once this broker leads and follows the partitions as ordered."""
    return answered(context, body, "controllerId", _carried_out, _refused)


async def _carried_out(peers: "PeerPort", request: Fields) -> Fields:
    failed = await peers.lead_and_follow(request)
    topics = [
        {
            "topicId": topic["topicId"],
            "partitionErrors": [
                {
                    "partitionIndex": state["partitionIndex"],
                    "errorCode": _code(failed, topic, state),
                }
                for state in topic["partitionStates"]
            ],
        }
        for topic in request["topicStates"]
    ]
    return {"errorCode": ErrorCode.NONE, "topics": topics}


def _code(failed: Failed, topic: Any, state: Any) -> int:  # noqa: ANN401 - of a table
    partition = TopicPartition(topic["topicName"], state["partitionIndex"])
    code = failed.get(partition, ErrorCode.NONE)
    return _SAID.get(code, code)


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "topics": ()}
