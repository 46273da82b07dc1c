"""CreatePartitions (key 37, v0-v3): raise a topic's number of partitions.

Only the controller adds partitions: other brokers answer NOT_CONTROLLER for each topic. New
partitions accept records when this is answered. controller_mutation_rate counts them (KIP-599):
above it clients are throttled, and from v3 on refused.

Versions: v2 flexible · v3 quota error
"""

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.mutation_quota import mutations, throttled
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    error_fields,
    maker,
    timeout_seconds,
)
from headrace.operations.topics import Growth, create_partitions

STRICT_SINCE = 3


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Add partitions to each topic independently; answer with one result per topic name."""
    make = maker(context)
    quota = mutations(context, STRICT_SINCE)
    outcome = await create_partitions(
        operating(context),
        [Growth(topic.name, topic.count, _assignments(topic)) for topic in request.topics],
        validate_only=request.validate_only,
        seconds=timeout_seconds(request),
        spend=quota.spend,
    )
    results = tuple(
        make("CreatePartitionsTopicResult", name=name, **error_fields(error))
        for name, error in outcome.items()
    )
    return make(None, throttle_time=throttled(context, quota), results=results)


def _assignments(topic: Entity) -> list[tuple[int, ...]] | None:
    if topic.assignments is None:
        return None
    return [tuple(assignment.broker_ids) for assignment in topic.assignments]
