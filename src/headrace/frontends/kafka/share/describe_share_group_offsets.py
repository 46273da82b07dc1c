"""DescribeShareGroupOffsets (key 90, v0-v1): return the start offsets of share groups (KIP-932).

- The stored start offset; -1 if the group has none for the partition.
- Null topics of a group stand for all its topics.

Versions: v1 lag (KIP-1226)
"""

from functools import partial

from headrace.coordination.groups.share.describe_offsets import OffsetSeen, TopicSeen
from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    refused,
    require,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker, uuid_of
from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with the start offsets of each group, in the order asked."""
    make = maker(context)
    groups = []
    for group in request.groups:
        topics, wanted = group.topics, None
        hidden: frozenset[str] = frozenset()
        if topics is not None:
            hidden = refused(context, DESCRIBE_TOPIC, (topic.topic_name for topic in topics))
            wanted = [
                (topic.topic_name, tuple(topic.partitions))
                for topic in topics
                if topic.topic_name not in hidden
            ]
        try:
            require(context, DESCRIBE_GROUP, group.group_id)
            ask = partial(context.coordinators.share.describe_offsets, group.group_id, wanted)
            seen = await called_back(ask)
            if topics is None:
                hidden = refused(
                    context, DESCRIBE_TOPIC, (topic.name for topic in seen), told=False
                )
                seen = [topic for topic in seen if topic.name not in hidden]
            error: ApiError | None = None
        except ApiError as problem:
            seen, error = [], problem
        if error is None and topics is not None:
            seen += [_hidden(topic) for topic in topics if topic.topic_name in hidden]
        groups.append(
            make(
                "DescribeShareGroupOffsetsResponseGroup",
                group_id=group.group_id,
                topics=tuple(_topic(make, topic) for topic in seen),
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    return make(None, groups=tuple(groups))


def _hidden(topic: Entity) -> TopicSeen:
    failed = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    seen = [OffsetSeen(index, error=failed) for index in topic.partitions]
    return TopicSeen(topic.topic_name, None, seen)


def _topic(make: Make, topic: TopicSeen) -> Entity:
    return make(
        "DescribeShareGroupOffsetsResponseTopic",
        topic_name=topic.name,
        topic_id=uuid_of(topic.topic_id),
        partitions=tuple(
            make(
                "DescribeShareGroupOffsetsResponsePartition",
                partition_index=partition.partition,
                start_offset=partition.start,
                leader_epoch=partition.leader_epoch,
                lag=partition.lag,
                error_code=partition.error,
                error_message=None,
            )
            for partition in topic.partitions
        ),
    )
