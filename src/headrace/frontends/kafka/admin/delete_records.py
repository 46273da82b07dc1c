"""DeleteRecords (key 21, v0-v2): advance the log start offset; -1: to the high watermark.

Answered once the new start is on disk, so that deleted records do not come back after a crash, and
once all replicas on live brokers begin there, so that they do not come back with another leader.
Compacted topics without "delete" in their policy are refused, internal ones too. For a queue's
topic this is queue.purge up to the offset, which needs READ of the queue or DELETE of the topic.

Versions: v2 flexible
"""

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, maker, timeout_seconds
from headrace.operations.records import delete_records


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Delete records; answer with a new low watermark or an error per partition."""
    make = maker(context)
    before = [
        ((topic.name, asked.partition_index), asked.offset)
        for topic in request.topics
        for asked in topic.partitions
    ]
    outcome = await delete_records(operating(context), before, timeout_seconds(request))
    topics = tuple(
        make(
            "DeleteRecordsTopicResult",
            name=topic.name,
            partitions=tuple(
                make(
                    "DeleteRecordsPartitionResult",
                    partition_index=asked.partition_index,
                    low_watermark=outcome[topic.name, asked.partition_index].low_watermark,
                    error_code=outcome[topic.name, asked.partition_index].error,
                )
                for asked in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return make(None, topics=topics)
