"""ReadShareGroupState (key 84, v0): return the stored state of share partitions to their leader.

- Answered when the state is durable, and the fencing of earlier leaders, too.
- Earlier leaders get FENCED_LEADER_EPOCH; UNKNOWN_TOPIC_OR_PARTITION if no state is stored.
"""

from typing import Any

from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.questions import Answer as StateAnswer
from headrace.coordination.share.questions import Question, Read
from headrace.coordination.share.state_port import StateRead
from headrace.delivery.cursor_state import CursorState
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make
from headrace.frontends.kafka.share.share_state import answered
from headrace.model.errors import ErrorCode

_NOTHING = StateRead(0, CursorState(NOT_SET))


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer with the state of share partitions once it is durable."""
    return answered(context, body, "ReadStateResult", _question, _fields)


def _question(key: ShareKey, partition: Entity) -> Question:
    return Read(key, partition.leader_epoch)


def _fields(make: Make, answer: StateAnswer) -> dict[str, Any]:
    found = answer if isinstance(answer, StateRead) else _NOTHING
    fields: dict[str, Any] = {
        "state_epoch": found.state_epoch,
        "start_offset": found.known.start,
        "state_batches": tuple(
            make(
                "StateBatch",
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=int(batch.state),
                delivery_count=batch.tries,
            )
            for batch in found.known.batches
        ),
    }
    if answer is None:
        fields["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return fields
