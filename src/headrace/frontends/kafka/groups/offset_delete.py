"""OffsetDelete (key 47, v0): delete a group's offsets of topics that it does not consume (KIP-496).

- Answered when the deletions are committed.
- Errors per partition: GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION. For the group:
  GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members of another protocol), INVALID_GROUP_ID.
"""

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ErrorCode
from headrace.operations.groups import delete_offsets


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Delete a group's offsets; answer OffsetDelete with an error code for each partition."""
    make = maker(context)
    places: dict[str, list[int]] = {}
    for topic in request.topics:
        numbers = [partition.partition_index for partition in topic.partitions]
        places.setdefault(topic.name, []).extend(numbers)
    deleted = await delete_offsets(operating(context), request.group_id, places)
    if deleted.error is not ErrorCode.NONE:
        return make(None, error_code=deleted.error, topics=())
    topics = tuple(
        make(
            "OffsetDeleteResponseTopic",
            name=asked.name,
            partitions=tuple(
                make(
                    "OffsetDeleteResponsePartition",
                    partition_index=partition.partition_index,
                    error_code=deleted.codes[asked.name, partition.partition_index],
                )
                for partition in asked.partitions
            ),
        )
        for asked in request.topics
    )
    return make(None, error_code=deleted.error, topics=topics)
