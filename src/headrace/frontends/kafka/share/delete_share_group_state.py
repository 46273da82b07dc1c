"""DeleteShareGroupState (key 86, v0): delete the state of share partitions.

- Answered when the deletion is durable; a partition without state succeeds, too.
"""

from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.questions import Delete, Question
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.frontends.kafka.share.share_state import answered, nothing_more


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Delete the state of share partitions; answer once that is durable."""
    return answered(context, body, "DeleteStateResult", _question, nothing_more)


def _question(key: ShareKey, partition: Entity) -> Question:
    return Delete(key)
