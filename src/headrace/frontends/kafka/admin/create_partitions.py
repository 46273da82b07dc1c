"""CreatePartitions (key 37, v0-v3): a topic grows to a number of partitions in all.

The controller alone grows topics: other brokers answer NOT_CONTROLLER for each.
New partitions take writes when this is answered. controller_mutation_rate counts them (KIP-599):
what is over it is waited for, and refused from v3 on. v2 flexible · v3 quota error
"""

import asyncio

from headrace.cluster.controller_port import Spend
from headrace.cluster.topics.creation import duplicates
from headrace.frontends.kafka.admin.controller_check import not_controller
from headrace.frontends.kafka.admin.reserved_topics import check_not_reserved
from headrace.frontends.kafka.authentication.authorisation import ALTER_TOPIC, require
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.mutation_quota import mutations, throttled
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    error_fields,
    maker,
    timeout_seconds,
)
from headrace.model.errors import ApiError, ErrorCode

STRICT_SINCE = 3


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Grow each topic for itself; one result per topic name."""
    make = maker(context)
    quota = mutations(context, STRICT_SINCE)
    refusal = not_controller(context)
    if refusal is None:
        outcome = await _grow(context, request, quota.spend)
    else:
        outcome = dict.fromkeys((topic.name for topic in request.topics), refusal)
    results = tuple(
        make("CreatePartitionsTopicResult", name=name, **error_fields(error))
        for name, error in outcome.items()
    )
    return make(None, throttle_time=throttled(context, quota), results=results)


async def _grow(
    context: RequestContext, request: Entity, spend: Spend
) -> dict[str, ApiError | None]:
    twice = duplicates([topic.name for topic in request.topics])
    outcome: dict[str, ApiError | None] = {}
    loop = asyncio.get_running_loop()
    seconds = timeout_seconds(request)
    deadline = None if seconds is None else loop.time() + seconds
    for topic in request.topics:
        try:
            if topic.name in twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            require(context, ALTER_TOPIC, topic.name)
            check_not_reserved(topic.name, lambda topics: topics.partitions)
            async with asyncio.timeout_at(deadline):
                await context.controller.create_partitions(
                    topic.name,
                    topic.count,
                    _assignments(topic),
                    validate_only=request.validate_only,
                    spend=spend,
                )
            outcome[topic.name] = None
        except ApiError as error:
            outcome[topic.name] = error
        except TimeoutError:
            outcome[topic.name] = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being created")
    return outcome


def _assignments(topic: Entity) -> list[tuple[int, ...]] | None:
    if topic.assignments is None:
        return None
    return [tuple(assignment.broker_ids) for assignment in topic.assignments]
