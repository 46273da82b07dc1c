"""DeleteRecords (key 21, v0-v2): move the start of partitions up; -1: to the high watermark.

Answered once the new start is on disk, so that what was deleted does not come back. Compacted
topics without "delete" in their policy are refused, internal ones too. v2 flexible
"""

import asyncio

from headrace.frontends.kafka.connection.authorisation import (
    DELETE_TOPIC,
    authorization_failed,
    refused,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker, timeout_seconds
from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import ResourceType

NO_OFFSET = -1
CHECKPOINT_SECONDS_MAX = 30.0


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result per partition: its new low watermark, or an error."""
    make = maker(context)
    outcome: dict[tuple[str, int], tuple[int, ErrorCode]] = {}
    forbidden = refused(context, DELETE_TOPIC, (topic.name for topic in request.topics))
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            try:
                if topic.name in forbidden:
                    raise authorization_failed(ResourceType.TOPIC)
                partition = context.broker.partition(*key)
                outcome[key] = partition.delete_records(asked.offset), ErrorCode.NONE
            except ApiError as error:
                outcome[key] = NO_OFFSET, error.code
    if any(code is ErrorCode.NONE for _, code in outcome.values()):
        seconds = min(timeout_seconds(request) or CHECKPOINT_SECONDS_MAX, CHECKPOINT_SECONDS_MAX)
        try:
            await asyncio.wait_for(called_back(context.broker.checkpoint), seconds)
        except TimeoutError:
            outcome = {
                key: (NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT if code is ErrorCode.NONE else code)
                for key, (_, code) in outcome.items()
            }
    topics = tuple(
        make(
            "DeleteRecordsTopicResult",
            name=topic.name,
            partitions=tuple(
                make(
                    "DeleteRecordsPartitionResult",
                    partition_index=asked.partition_index,
                    low_watermark=outcome[topic.name, asked.partition_index][0],
                    error_code=outcome[topic.name, asked.partition_index][1],
                )
                for asked in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return make(None, topics=topics)
