"""AlterShareGroupOffsets (key 91, v0): have a share group without members begin elsewhere.

* Answered when the new state is durable. NON_EMPTY_GROUP while somebody is in the group.
* A group may begin so, before anybody has joined it or any other.
"""

from functools import partial

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    error_fields,
    maker,
    uuid_of,
)
from headrace.frontends.kafka.share import share_topics
from headrace.model.errors import ApiError
from headrace.posix.awaiting import called_back


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer for each partition, or why nothing is done."""
    wanted = [
        (
            topic.topic_name,
            {partition.partition_index: partition.start_offset for partition in topic.partitions},
        )
        for topic in request.topics
    ]

    try:
        await share_topics.ensure(context)
    except ApiError as unavailable:
        return maker(context)(None, responses=(), **error_fields(unavailable))

    ask = partial(context.coordinators.share.alter_offsets, request.group_id, wanted)
    error, outcomes = await called_back(ask)
    make = maker(context)
    responses = tuple(
        make(
            "AlterShareGroupOffsetsResponseTopic",
            topic_name=outcome.name,
            topic_id=uuid_of(outcome.topic_id),
            partitions=tuple(
                make(
                    "AlterShareGroupOffsetsResponsePartition",
                    partition_index=index,
                    error_code=code,
                    error_message=None,
                )
                for index, code in outcome.partitions.items()
            ),
        )
        for outcome in outcomes
    )
    return make(None, responses=responses, **error_fields(error))
