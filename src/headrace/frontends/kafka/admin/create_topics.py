"""CreateTopics (key 19, v2-v7): a topic answered for can be written to at once.

* The controller alone creates topics: other brokers answer NOT_CONTROLLER for each.
* Each topic for itself; a name that is there twice is refused, both of them.
* Partitions -1, replication factor -1: the broker's defaults, in every version. KIP-464 names v4,
  but a Kafka 4.3 takes them in v2 and v3 too, and KafkaJS sends them in v3. A manual assignment
  needs both to be -1.
* What takes longer than the timeout is answered REQUEST_TIMED_OUT and goes on.
* controller_mutation_rate counts the partitions (KIP-599): from v6 what is over it is refused with
  THROTTLING_QUOTA_EXCEEDED, before that it is only waited for.
v5 flexible, number of partitions and all settings in the answer (an empty list, never null: Java
clients cannot bear null beside a number of partitions) · v6 quota error · v7 topic ids
"""

import asyncio
from uuid import UUID

from headrace.broker.metadata_image import TopicInfo
from headrace.cluster.controller_port import Spend
from headrace.cluster.topics.creation import NewTopic, duplicates
from headrace.config.descriptions import ConfigEntry
from headrace.frontends.kafka.admin.controller_check import not_controller
from headrace.frontends.kafka.admin.reserved_topics import check_not_reserved
from headrace.frontends.kafka.authentication.authorisation import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    authorization_failed,
    permits,
    refused,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.mutation_quota import mutations, throttled
from headrace.frontends.kafka.connection.response_entities import (
    NO_UUID,
    Entity,
    Make,
    error_fields,
    maker,
    timeout_seconds,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.authorizer import ResourceType

CONFIGS_SINCE = 5
STRICT_SINCE = 6
_OWN_SECONDS = 0.2
"""How much sooner than the request waiting for leaders ends: each topic gets its own answer."""


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Create what can be; one result per topic, in the order asked."""
    make = maker(context)
    quota = mutations(context, STRICT_SINCE)
    refusal = not_controller(context)
    if refusal is None:
        outcome = await _create(context, request, quota.spend)
    else:
        outcome = dict.fromkeys((topic.name for topic in request.topics), refusal)
    described: dict[tuple[tuple[str, str], ...], tuple[Entity, ...]] = {}
    topics = tuple(
        _result(context, make, name, topic_outcome, described)
        for name, topic_outcome in outcome.items()
    )
    return make(None, throttle_time=throttled(context, quota), topics=topics)


async def _create(
    context: RequestContext, request: Entity, spend: Spend
) -> dict[str, TopicInfo | ApiError]:
    outcome: dict[str, TopicInfo | ApiError] = {}
    twice = duplicates([topic.name for topic in request.topics])
    wanted: list[NewTopic] = []
    forbidden = _forbidden(context, request)
    for topic in request.topics:
        try:
            if topic.name in twice:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if topic.name in forbidden:
                raise authorization_failed(ResourceType.TOPIC)
            check_not_reserved(topic.name, lambda topics: topics.create)
            wanted.append(_wanted(topic))
        except ApiError as error:
            outcome[topic.name] = error
    seconds = timeout_seconds(request)
    creating = context.controller.create_topics(
        wanted,
        validate_only=request.validate_only,
        spend=spend,
        wait_seconds=0.0 if seconds is None else max(seconds - _OWN_SECONDS, 0.0),
    )
    try:
        results = await asyncio.wait_for(creating, seconds)
        outcome |= {topic.name: result for topic, result in zip(wanted, results, strict=True)}
    except TimeoutError:
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being created")
        outcome |= dict.fromkeys((topic.name for topic in wanted), late)
    return outcome


def _forbidden(context: RequestContext, request: Entity) -> frozenset[str]:
    """Return the names of topics that who asks may not create."""
    if permits(context, CREATE_CLUSTER, told=False):
        return frozenset()
    return refused(context, CREATE_TOPIC, (topic.name for topic in request.topics))


def _wanted(topic: Entity) -> NewTopic:
    assignment: dict[int, tuple[int, ...]] = {}
    for assigned in topic.assignments or ():
        if assigned.partition_index in assignment:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {assigned.partition_index} is assigned twice",
            )
        assignment[assigned.partition_index] = tuple(assigned.broker_ids)
    settings: dict[str, str | None] = {}
    for config in topic.configs or ():
        if config.name in settings:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{config.name} is there twice")
        settings[config.name] = config.value
    return NewTopic(
        topic.name, topic.num_partitions, topic.replication_factor, assignment, settings
    )


def _result(
    context: RequestContext,
    make: Make,
    name: str,
    outcome: TopicInfo | ApiError,
    described: dict[tuple[tuple[str, str], ...], tuple[Entity, ...]],
) -> Entity:
    """Return the result of one topic. `described`: all settings of topics configured alike."""
    if isinstance(outcome, ApiError):
        return make(
            "CreatableTopicResult",
            name=name,
            topic_id=NO_UUID,
            num_partitions=-1,
            replication_factor=-1,
            configs=(),
            **error_fields(outcome),
        )
    configs: tuple[Entity, ...] = ()
    if not permits(context, DESCRIBE_TOPIC_CONFIGS, name, told=False):
        return make(
            "CreatableTopicResult",
            name=name,
            topic_id=UUID(bytes=outcome.topic_id),
            num_partitions=-1,
            replication_factor=-1,
            configs=(),
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            **error_fields(None),
        )
    if context.version >= CONFIGS_SINCE:
        own = tuple(sorted(outcome.config.items()))
        if own not in described:
            entries = context.controller.settings.describe_planned(outcome.config)
            described[own] = tuple(_config(make, entry) for entry in entries)
        configs = described[own]
    return make(
        "CreatableTopicResult",
        name=name,
        topic_id=UUID(bytes=outcome.topic_id),
        num_partitions=len(outcome.partitions),
        replication_factor=len(outcome.partitions[0].replicas),
        configs=configs,
        **error_fields(None),
    )


def _config(make: Make, entry: ConfigEntry) -> Entity:
    return make(
        "CreatableTopicConfigs",
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.definition.sensitive,
    )
