"""WriteShareGroupState (key 85, v0-v1): store changed state of share partitions from their leader.

- Answered when the state is durable. After share.coordinator.write.timeout.ms
  COORDINATOR_NOT_AVAILABLE, and the state may be stored later.
- FENCED_LEADER_EPOCH if a later leader has read or written, FENCED_STATE_EPOCH if the state was
  initialized again, UNKNOWN_TOPIC_OR_PARTITION if no state is stored.

Versions: v1 count of offsets that are settled (KIP-1226)
"""

from headrace.cluster.peers.share_state_calls import state_batches
from headrace.coordination.share.keys import ShareKey
from headrace.coordination.share.questions import Question, Write
from headrace.delivery.cursor_state import CursorState, in_order
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity
from headrace.frontends.kafka.share.share_state import answered, nothing_more
from headrace.model.errors import ApiError, ErrorCode, Malformed


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Store changed state of share partitions; answer once it is durable."""
    return answered(context, body, "WriteStateResult", _question, nothing_more)


def _question(key: ShareKey, partition: Entity) -> Question:
    try:
        batches = state_batches(partition.state_batches)
    except Malformed as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
    start = partition.start_offset
    settled = max(getattr(partition, "delivery_complete_count", 0), 0)
    change = CursorState(start, in_order(batches, start), settled)
    return Write(key, partition.state_epoch, partition.leader_epoch, change)
