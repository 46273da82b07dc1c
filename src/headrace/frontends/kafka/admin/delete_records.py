"""DeleteRecords (key 21, v0-v2): advance the log start offset; -1: to the high watermark.

Answered once the new start is on disk, so that what was deleted does not come back, and once all
replicas on living brokers begin there, so that it does not come back with another leader. Compacted
topics without "delete" in their policy are refused, internal ones too. Of a queue's topic it is
queue.purge up to the offset, and asked for as such, or as DELETE of the topic. v2 flexible
"""

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, maker, timeout_seconds
from headrace.operations.records import delete_records


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result per partition: its new low watermark, or an error."""
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
