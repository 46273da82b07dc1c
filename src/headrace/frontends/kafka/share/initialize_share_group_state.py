"""InitializeShareGroupState (key 83, v0): initialize the state of share partitions.

* A start offset of -1 leaves what is kept as it is, and begins what is not.
* FENCED_STATE_EPOCH where what is kept is of a later epoch; of the same one: it has begun already.
"""

from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.questions import Begin, Question
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.frontends.kafka.share.share_state import answered, nothing_more
from headrace.model.errors import ApiError, ErrorCode


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer when it is durable."""
    return answered(context, body, "InitializeStateResult", _question, nothing_more)


def _question(key: ShareKey, partition: Entity) -> Question:
    if partition.start_offset < NOT_SET or partition.state_epoch < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return Begin(key, partition.state_epoch, partition.start_offset)
