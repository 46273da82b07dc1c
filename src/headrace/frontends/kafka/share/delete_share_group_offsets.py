"""DeleteShareGroupOffsets (key 92, v0): delete topics' offsets of a share group without members.

- Answered when the deletion is durable. NON_EMPTY_GROUP while the group has members.
"""

from functools import partial

from headrace.coordination.groups.share.admin_offsets import TopicOutcome
from headrace.frontends.kafka.authentication.authorisation import (
    DELETE_GROUP,
    READ_TOPIC,
    authorization_failed,
    refusal,
    refused,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    error_fields,
    maker,
    uuid_of,
)
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import ResourceType


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Delete offsets; answer with a result for each topic, or an error for all."""
    make = maker(context)
    forbidden = refusal(context, DELETE_GROUP, request.group_id)
    if forbidden is not None:
        return make(None, responses=(), **error_fields(forbidden))
    asked = [topic.topic_name for topic in request.topics]
    hidden = refused(context, READ_TOPIC, asked)
    names = [name for name in asked if name not in hidden]

    ask = partial(context.coordinators.share.delete_offsets, request.group_id, names)
    error, outcomes = (None, []) if hidden and not names else await called_back(ask)
    if error is None:
        failed = authorization_failed(ResourceType.TOPIC)
        outcomes = outcomes + [
            TopicOutcome(name, None, failed.code, failed.message) for name in sorted(hidden)
        ]
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
