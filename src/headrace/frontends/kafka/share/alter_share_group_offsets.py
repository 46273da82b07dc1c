"""AlterShareGroupOffsets (key 91, v0): set the start offsets of a share group without members.

- Answered when the new state is durable. NON_EMPTY_GROUP while the group has members.
- A group may begin with this request, before any member has joined it or another group.
"""

from functools import partial

from headrace.coordination.groups.share.admin_offsets import TopicOutcome
from headrace.frontends.kafka.authentication.authorisation import (
    READ_GROUP,
    READ_TOPIC,
    refused,
    require,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    error_fields,
    maker,
    uuid_of,
)
from headrace.frontends.kafka.share import share_topics
from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Set start offsets; answer with a result for each partition, or an error for all."""
    hidden = refused(context, READ_TOPIC, (topic.topic_name for topic in request.topics))
    wanted = [
        (
            topic.topic_name,
            {partition.partition_index: partition.start_offset for partition in topic.partitions},
        )
        for topic in request.topics
        if topic.topic_name not in hidden
    ]
    try:
        require(context, READ_GROUP, request.group_id)
        await share_topics.ensure(context)
    except ApiError as unavailable:
        return maker(context)(None, responses=(), **error_fields(unavailable))

    ask = partial(context.coordinators.share.alter_offsets, request.group_id, wanted)
    error, outcomes = (None, []) if hidden and not wanted else await called_back(ask)
    if error is None:
        refused_topics = (topic for topic in request.topics if topic.topic_name in hidden)
        outcomes = outcomes + [_hidden(topic) for topic in refused_topics]
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


def _hidden(topic: Entity) -> TopicOutcome:
    failed = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partitions = {partition.partition_index: failed for partition in topic.partitions}
    return TopicOutcome(topic.topic_name, None, partitions=partitions)
