"""InitializeShareGroupState (key 83, v0): initialize the state of share partitions.

- A start offset of -1 leaves stored state unchanged, and creates missing state.
- FENCED_STATE_EPOCH if the stored state has a later epoch; an equal epoch has been initialized
  already.
"""

from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.questions import Begin, Question
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.frontends.kafka.share.share_state import answered, nothing_more
from headrace.model.errors import ApiError, ErrorCode


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Initialize the state of share partitions; answer once that is durable."""
    return answered(context, body, "InitializeStateResult", _question, nothing_more)


def _question(key: ShareKey, partition: Entity) -> Question:
    if partition.start_offset < NOT_SET or partition.state_epoch < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return Begin(key, partition.state_epoch, partition.start_offset)
