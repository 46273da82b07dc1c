"""OffsetForLeaderEpoch (key 23, v2-v4): where a leader's epoch ended (KIP-101, KIP-320).

* Answered with the largest epoch known that is not above the one asked for, and its end; -1 and -1
  where none is known.
* The current epoch ends, for consumers, at the high watermark: what is beyond it may yet go. For a
  follower (v3 replica id) it ends where the log does.
"""

from typing import Any

from headrace.frontends.kafka.connection.authorisation import (
    CLUSTER_ACTION,
    DESCRIBE_TOPIC,
    permits,
    require,
)
from headrace.frontends.kafka.connection.between_brokers import may_be_replica
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import LeaderEpoch
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey

_UNKNOWN = (-1, -1)
_CONSUMER = -1


def handle(context: RequestContext, request: Any) -> Any:  # noqa: ANN401 - kio's entities
    """Answer one OffsetForLeaderEpoch request."""
    from kio.schema.errors import ErrorCode as KioErrorCode

    module = kio_codec.entity_module(ApiKey.OFFSET_FOR_LEADER_EPOCH, context.version).response
    replica_id = getattr(request, "replica_id", _CONSUMER)
    committed = replica_id < 0 or not may_be_replica(context, replica_id)
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            code, (epoch, end) = _end_of(context, str(topic.topic), asked, committed)
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
    committed: bool,
) -> tuple[ErrorCode, tuple[int, int]]:
    try:
        if not permits(context, CLUSTER_ACTION):
            require(context, DESCRIBE_TOPIC, topic)
        partition = context.broker.partition(topic, asked.partition)
        partition.check_epoch(asked.current_leader_epoch)
    except ApiError as error:
        return error.code, _UNKNOWN
    epoch, end = partition.end_offset_for_epoch(LeaderEpoch(asked.leader_epoch))
    if epoch >= 0 and committed:
        end = min(end, partition.high_watermark)
    return ErrorCode.NONE, (epoch, end)


def _no_time() -> Any:  # noqa: ANN401
    from datetime import timedelta

    return timedelta(0)
