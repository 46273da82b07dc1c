"""DeleteTopics (key 20, v1-v6): delete topics permanently before the response is sent.

Only the controller deletes topics: other brokers answer NOT_CONTROLLER for each. Internal topics
can be deleted like others. The files stay, renamed, for `file.delete.delay.ms`. With a queue's
topic the queue is deleted, as by queue.delete. controller_mutation_rate counts the partitions
(KIP-599): above it a topic is refused from v5 on.

Versions: v3 TOPIC_DELETION_DISABLED where `delete.topic.enable` is off · v4 flexible · v5 messages
· v6 by id
"""

from collections.abc import Sequence

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.mutation_quota import mutations, throttled
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    error_fields,
    maker,
    timeout_seconds,
)
from headrace.model.errors import ErrorCode
from headrace.operations.topics import NO_ID, TopicRef, delete_topics

BY_ID_SINCE = 6
DISABLED_SINCE = 3
STRICT_SINCE = 5


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Delete existing topics; answer DeleteTopics with one result per topic."""
    make = maker(context)
    quota = mutations(context, STRICT_SINCE)
    known = context.version >= DISABLED_SINCE
    results = await delete_topics(
        operating(context),
        _asked(context, request),
        disabled=ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST,
        seconds=timeout_seconds(request),
        spend=quota.spend,
    )
    responses = tuple(
        make(
            "DeletableTopicResult",
            name=name if name is not None or context.version >= BY_ID_SINCE else "",
            topic_id=topic_id,
            **error_fields(error),
        )
        for name, topic_id, error in results
    )
    return make(None, throttle_time=throttled(context, quota), responses=responses)


def _asked(context: RequestContext, request: Entity) -> Sequence[TopicRef]:
    if context.version >= BY_ID_SINCE:
        return [TopicRef(topic.name, topic.topic_id or NO_ID) for topic in request.topics]
    return [TopicRef(name) for name in request.topic_names]
