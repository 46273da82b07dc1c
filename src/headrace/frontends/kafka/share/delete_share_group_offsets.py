"""DeleteShareGroupOffsets (key 92, v0): a share group without members forgets topics.

* Answered when that is durable. NON_EMPTY_GROUP while somebody is in the group.
"""

from functools import partial

from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    error_fields,
    maker,
    uuid_of,
)
from headrace.posix.awaiting import called_back


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer for each topic, or why nothing is done."""
    names = [topic.topic_name for topic in request.topics]

    ask = partial(context.coordinators.share.delete_offsets, request.group_id, names)
    error, outcomes = await called_back(ask)
    make = maker(context)
    responses = tuple(
        make(
            "DeleteShareGroupOffsetsResponseTopic",
            topic_name=outcome.name,
            topic_id=uuid_of(outcome.topic_id),
            error_code=outcome.error,
            error_message=outcome.message,
        )
        for outcome in outcomes
    )
    return make(None, responses=responses, **error_fields(error))
