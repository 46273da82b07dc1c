"""ChangeQueueTopics (key 20007, v0): create and delete topics of queues, by the controller.

- Headrace's own (ADR 76): CreateTopics and DeleteTopics refuse topics that are reserved for queues.
- Errors: NOT_CONTROLLER; INVALID_TOPIC_EXCEPTION if a topic is not reserved for queues; of each
  topic those of CreateTopics and DeleteTopics.
"""

from typing import TYPE_CHECKING

from headrace.cluster.peers import queue_topic_calls
from headrace.cluster.peers.peer_call import Fields
from headrace.frontends.kafka.cluster.answered import answered
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.model.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.cluster.peers.peer_port import PeerPort


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer ChangeQueueTopics when all changes are decided and stored."""
    return answered(context, body, "brokerId", _changed, _refused, alone=False)


async def _changed(peers: "PeerPort", request: Fields) -> Fields:
    changes = queue_topic_calls.changes_of(request)
    return queue_topic_calls.outcome_fields(await peers.change_queue_topics(changes))


def _refused(code: ErrorCode) -> Fields:
    return {"errorCode": code, "outcomes": ()}
