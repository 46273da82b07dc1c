"""CopySettled (key 20003, v0): copy the settled positions of queues to their followers.

- Headrace's own (ADR 77). A leader sends frames of its queues' files; a new leader asks for the
  last frame of a file, and for the file.
- Answered once all frames are on disk, with an error for each partition: FENCED_LEADER_EPOCH,
  NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
"""

from typing import TYPE_CHECKING

from headrace.cluster.peers.peer_call import Fields
from headrace.copies.message_fields import fields_of_answer, question_of
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer CopySettled once the frames are durable or refused."""
    return answered(context, body, "brokerId", _copied, _refused)


async def _copied(peers: "PeerPort", request: Fields) -> Fields:
    answers = await peers.copy_settled([question_of(fields) for fields in request["partitions"]])
    return {
        "errorCode": ErrorCode.NONE,
        "partitions": [fields_of_answer(answer) for answer in answers],
    }


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "partitions": ()}
