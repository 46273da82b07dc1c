"""AlterPartition (key 56, v2-v3): change the ISR at a leader's request.

- Answered with each partition's new state, or an error: FENCED_LEADER_EPOCH,
  INVALID_UPDATE_VERSION, INELIGIBLE_REPLICA, INVALID_REQUEST, UNKNOWN_TOPIC_ID, NOT_CONTROLLER if
  the leader knows of a later controller.
- NOT_CONTROLLER, STALE_BROKER_EPOCH for the whole request: nothing is changed.

Versions: v2 topic ids · v3 epochs of the replicas' brokers (KIP-903)
"""

from typing import TYPE_CHECKING, Any

from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode
from headrace.model.nouns import BrokerId, LeaderEpoch, TopicPartition
from headrace.replication.controller_calls import AskedIsr, IsrAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.broker.metadata_image import TopicInfo
    from headrace.cluster.peers.peer_port import PeerPort

_NOBODY = IsrAnswer(BrokerId(-1), LeaderEpoch(-1), (), -1)


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer AlterPartition once the ISR changes are written or refused."""
    topics_by_id = context.broker.image.topics_by_id

    async def altered(peers: "PeerPort", request: Fields) -> Fields:
        return await _altered(peers, request, topics_by_id)

    return answered(context, body, "brokerId", altered, _refused)


async def _altered(
    peers: "PeerPort", request: Fields, topics_by_id: "Mapping[bytes, TopicInfo]"
) -> Fields:
    names = {
        topic["topicId"]: topics_by_id[topic["topicId"]].name
        for topic in request["topics"]
        if topic["topicId"] in topics_by_id
    }
    asked = [
        _asked(TopicPartition(names[topic["topicId"]], partition["partitionIndex"]), partition)
        for topic in request["topics"]
        if topic["topicId"] in names
        for partition in topic["partitions"]
    ]
    answers = await peers.alter_partitions(
        BrokerId(request["brokerId"]), request["brokerEpoch"], asked
    )

    def answer(topic_id: bytes, index: int) -> IsrAnswer | ErrorCode:
        if topic_id not in names:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return answers[TopicPartition(names[topic_id], index)]

    topics = [
        {
            "topicId": topic["topicId"],
            "partitions": [
                _written(index, answer(topic["topicId"], index))
                for index in (partition["partitionIndex"] for partition in topic["partitions"])
            ],
        }
        for topic in request["topics"]
    ]
    return {"throttleTimeMs": 0, "errorCode": ErrorCode.NONE, "topics": topics}


def _asked(partition: TopicPartition, wanted: Any) -> AskedIsr:  # noqa: ANN401 - of a table
    members = wanted.get("newIsrWithEpochs")
    isr = wanted["newIsr"] if members is None else [member["brokerId"] for member in members]
    return AskedIsr(
        partition,
        LeaderEpoch(wanted["leaderEpoch"]),
        wanted["partitionEpoch"],
        tuple(map(BrokerId, isr)),
        tuple(member["brokerEpoch"] for member in members or ()),
    )


def _written(index: int, answer: IsrAnswer | ErrorCode) -> dict[str, Any]:
    state = answer if isinstance(answer, IsrAnswer) else _NOBODY
    return {
        "partitionIndex": index,
        "errorCode": answer if isinstance(answer, ErrorCode) else ErrorCode.NONE,
        "leaderId": state.leader,
        "leaderEpoch": state.leader_epoch,
        "isr": state.isr,
        "leaderRecoveryState": 0,
        "partitionEpoch": state.partition_epoch,
    }


def _refused(code: ErrorCode) -> Fields:
    return {"throttleTimeMs": 0, "errorCode": code, "topics": ()}
