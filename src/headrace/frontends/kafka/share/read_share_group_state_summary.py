"""ReadShareGroupStateSummary (key 87, v0-v1): return a group's start offsets to its coordinator.

- UNKNOWN_TOPIC_OR_PARTITION if no state is stored.

Versions: v1 count of offsets that are settled (KIP-1226)
"""

from typing import Any

from headrace.coordination.share.keys import NOT_SET, ShareKey
from headrace.coordination.share.questions import Answer as StateAnswer
from headrace.coordination.share.questions import Question, ReadSummary
from headrace.coordination.share.state_port import StateSummary
from headrace.frontends.kafka.connection.handler import Answer, RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make
from headrace.frontends.kafka.share.share_state import answered
from headrace.model.errors import ErrorCode

_NOTHING = StateSummary(0, 0, NOT_SET, -1)


def handle(context: RequestContext, body: memoryview) -> Answer:
    """Answer with the present start offsets and epochs of share partitions."""
    return answered(context, body, "ReadStateSummaryResult", _question, _fields)


def _question(key: ShareKey, partition: Entity) -> Question:
    return ReadSummary(key)


def _fields(make: Make, answer: StateAnswer) -> dict[str, Any]:
    found = answer if isinstance(answer, StateSummary) else _NOTHING
    fields: dict[str, Any] = {
        "state_epoch": found.state_epoch,
        "leader_epoch": found.leader_epoch,
        "start_offset": found.start,
        "delivery_complete_count": found.complete,
    }
    if answer is None:
        fields["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return fields
