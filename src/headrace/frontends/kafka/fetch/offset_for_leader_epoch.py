"""OffsetForLeaderEpoch (key 23, v2-v4): return a leader epoch's end offset (KIP-101, KIP-320).

- Answered with the largest known epoch that is not above the requested one, and its end, or -1 and
  -1.
- The current epoch ends at the log end offset, for consumers too: the high watermark of a new
  leader may be below what they have read, and they would go back.
"""

from typing import Any

from headrace.frontends.kafka.authentication.authorisation import (
    CLUSTER_ACTION,
    DESCRIBE_TOPIC,
    permits,
    require,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey

_UNKNOWN = (-1, -1)


def handle(context: RequestContext, request: Any) -> Any:  # noqa: ANN401 - kio's entities
    """Answer OffsetForLeaderEpoch with each partition's epoch and end offset, or error."""
    from kio.schema.errors import ErrorCode as KioErrorCode

    module = kio_codec.entity_module(ApiKey.OFFSET_FOR_LEADER_EPOCH, context.version).response
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            code, (epoch, end) = _end_of(context, str(topic.topic), asked)
            partitions.append(
                module.EpochEndOffset(
                    error_code=KioErrorCode(int(code)),
                    partition=asked.partition,
                    leader_epoch=epoch,
                    end_offset=end,
                )
            )
        topics.append(
            module.OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions))
        )
    response_type = kio_codec.response_type(ApiKey.OFFSET_FOR_LEADER_EPOCH, context.version)
    return response_type(throttle_time=_no_time(), topics=tuple(topics))


def _end_of(
    context: RequestContext,
    topic: str,
    asked: Any,  # noqa: ANN401
) -> tuple[ErrorCode, tuple[int, int]]:
    try:
        if not permits(context, CLUSTER_ACTION, told=False):
            require(context, DESCRIBE_TOPIC, topic)
        partition = context.broker.partition(topic, asked.partition)
        partition.check_epoch(asked.current_leader_epoch)
    except ApiError as error:
        return error.code, _UNKNOWN
    return ErrorCode.NONE, partition.end_offset_for_epoch(LeaderEpoch(asked.leader_epoch))


def _no_time() -> Any:  # noqa: ANN401
    from datetime import timedelta

    return timedelta(0)
