"""DeleteTopics (key 20, v1-v6): gone for clients, and for good, when answered.

The controller alone deletes topics: other brokers answer NOT_CONTROLLER for each.
Internal topics go like others. The files stay, renamed, for `file.delete.delay.ms`.
Of a queue's topic the queue is deleted, as queue.delete does it.
controller_mutation_rate counts the partitions (KIP-599): over it they are refused from v5 on.
v3 TOPIC_DELETION_DISABLED where `delete.topic.enable` is off · v4 flexible · v5 messages · v6 by id
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from headrace.cluster.controller_port import Spend
from headrace.cluster.topics.creation import duplicates
from headrace.frontends.kafka.admin.controller_check import not_controller
from headrace.frontends.kafka.authentication.authorisation import (
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    authorization_failed,
    permits,
    refused,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.mutation_quota import mutations, throttled
from headrace.frontends.kafka.connection.response_entities import (
    NO_UUID,
    Entity,
    error_fields,
    maker,
    timeout_seconds,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.authorizer import ResourceType

BY_ID_SINCE = 6
DISABLED_SINCE = 3
STRICT_SINCE = 5

_Asked = tuple[str | None, UUID]
"""A topic by name, or by id where the name is None."""
_Outcome = tuple[str | None, UUID, ApiError | None]


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Delete what there is; one result per topic asked for."""
    make = maker(context)
    quota = mutations(context, STRICT_SINCE)
    refusal = not_controller(context) or _disabled(context)
    if refusal is None:
        results = await _delete(context, request, quota.spend)
    else:
        results = [(*topic, refusal) for topic in _asked(context, request)]
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


def _disabled(context: RequestContext) -> ApiError | None:
    if context.broker.config.delete_topic_enable:
        return None
    known = context.version >= DISABLED_SINCE
    code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
    return ApiError(code, "delete.topic.enable is false")


async def _delete(context: RequestContext, request: Entity, spend: Spend) -> list[_Outcome]:
    image = context.broker.image
    results: list[_Outcome] = []
    going: dict[str, UUID] = {}
    asked = _asked(context, request)
    forbidden = _forbidden(context, asked)
    twice = duplicates([str(name or topic_id) for name, topic_id in asked])
    for name, topic_id in asked:
        topic = image.topics_by_id.get(topic_id.bytes) if name is None else image.topics.get(name)
        if (name is None) == (topic_id == NO_UUID):
            problem = ApiError(ErrorCode.INVALID_REQUEST, "either a name or an id, not both")
        elif str(name or topic_id) in twice or (topic is not None and topic.name in going):
            problem = ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif (name if topic is None else topic.name) in forbidden:
            problem = authorization_failed(ResourceType.TOPIC)
            if topic is not None and permits(context, DESCRIBE_TOPIC, topic.name, told=False):
                name = topic.name
        elif topic is None and name is None:
            problem = ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        elif topic is None:
            problem = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            going[topic.name] = UUID(bytes=topic.topic_id)
            continue
        results.append((name, topic_id, problem))
    outcome: dict[str, ApiError | None]
    try:
        outcome = await asyncio.wait_for(
            _deleted(context, list(going), spend), timeout_seconds(request)
        )
    except TimeoutError:
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being deleted")
        outcome = dict.fromkeys(going, late)
    return results + [(name, topic_id, outcome[name]) for name, topic_id in going.items()]


async def _deleted(
    context: RequestContext, names: Sequence[str], spend: Spend
) -> dict[str, ApiError | None]:
    """Delete topics; of other protocols' topics their owners, which have them deleted."""
    keepers = {name: context.broker.topic_keepers.of(name) for name in names}
    topics = [name for name, keeper in keepers.items() if keeper is None]
    outcome = await context.controller.delete_topics(topics, spend=spend)
    for name, keeper in keepers.items():
        if keeper is not None:
            outcome[name] = await keeper.delete(name)
    return outcome


def _forbidden(context: RequestContext, asked: Sequence[_Asked]) -> frozenset[str]:
    """Return the names of topics that who asks may not delete, be they there or not."""
    if permits(context, DELETE_CLUSTER, told=False):
        return frozenset()
    by_id = context.broker.image.topics_by_id
    names = {name for name, _ in asked if name is not None}
    names.update(by_id[topic.bytes].name for _, topic in asked if topic.bytes in by_id)
    return refused(context, DELETE_TOPIC, names)


def _asked(context: RequestContext, request: Entity) -> Sequence[_Asked]:
    if context.version >= BY_ID_SINCE:
        return [(topic.name, topic.topic_id or NO_UUID) for topic in request.topics]
    return [(name, NO_UUID) for name in request.topic_names]
