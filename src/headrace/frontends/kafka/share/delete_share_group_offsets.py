"""DeleteShareGroupOffsets (key 92, v0): a share group without members forgets topics.

* Answered when that is durable. NON_EMPTY_GROUP while somebody is in the group.
"""

from typing import TYPE_CHECKING

from headrace.frontends.kafka.connection.awaiting import answered
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    error_fields,
    maker,
    uuid_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.coordination.groups.share.admin_offsets import TopicOutcome
    from headrace.model.errors import ApiError

    Outcome = tuple[ApiError | None, list[TopicOutcome]]


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer for each topic, or why nothing is done."""
    names = [topic.topic_name for topic in request.topics]

    def ask(done: "Callable[[Outcome], None]") -> None:
        context.coordinators.share.delete_offsets(
            request.group_id, names, lambda error, outcomes: done((error, outcomes))
        )

    error, outcomes = await answered(ask)
    make = maker(context)
    responses = tuple(
        make(
            "DeleteShareGroupOffsetsResponseTopic",
            topic_name=one.name,
            topic_id=uuid_of(one.topic_id),
            error_code=one.error,
            error_message=one.message,
        )
        for one in outcomes
    )
    return make(None, responses=responses, **error_fields(error))
