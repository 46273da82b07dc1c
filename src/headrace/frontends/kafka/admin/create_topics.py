"""CreateTopics (key 19, v2-v7): create topics, which accept records when the response is sent.

- Only the controller creates topics: other brokers answer NOT_CONTROLLER for each.
- Each topic succeeds or fails on its own; a name that occurs twice fails both times.
- Partitions -1, replication factor -1: the broker's defaults, in every version. KIP-464 names v4,
  but a Kafka 4.3 accepts them in v2 and v3 too, and KafkaJS sends them in v3. A manual assignment
  needs both to be -1.
- A request that exceeds its timeout is answered REQUEST_TIMED_OUT and continues.
- controller_mutation_rate counts the partitions (KIP-599): above it a topic is refused with
  THROTTLING_QUOTA_EXCEEDED from v6 on; before v6 clients are throttled only.

Versions: v5 flexible, number of partitions and all settings in the answer (an empty list, never
null: Java clients cannot bear null beside a number of partitions) · v6 quota error · v7 topic ids
"""

from uuid import UUID

from headrace.broker.metadata_image import TopicInfo
from headrace.config.descriptions import ConfigEntry
from headrace.frontends.kafka.authentication.authorisation import DESCRIBE_TOPIC_CONFIGS, permits
from headrace.frontends.kafka.authentication.between_brokers import from_broker
from headrace.frontends.kafka.connection.handler import RequestContext, operating
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
from headrace.model.protocols import is_own_state
from headrace.operations.topics import TopicSpec, create_topics

CONFIGS_SINCE = 5
STRICT_SINCE = 6


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Create topics; answer CreateTopics with one result per topic, in the order asked."""
    make = maker(context)
    quota = mutations(context, STRICT_SINCE)
    outcome = await create_topics(
        operating(context),
        [_spec(topic, by_broker=_is_by_broker(context, topic.name)) for topic in request.topics],
        validate_only=request.validate_only,
        seconds=timeout_seconds(request),
        spend=quota.spend,
    )
    described: dict[tuple[tuple[str, str], ...], tuple[Entity, ...]] = {}
    topics = tuple(
        _result(context, make, name, topic_outcome, described)
        for name, topic_outcome in outcome.items()
    )
    return make(None, throttle_time=throttled(context, quota), topics=topics)


def _is_by_broker(context: RequestContext, name: str) -> bool:
    """Tell whether another broker creates a topic with a protocol's own state."""
    if not is_own_state(name) or context.shared.broker_listeners is None:
        return False
    return from_broker(context)


def _spec(topic: Entity, *, by_broker: bool) -> TopicSpec:
    return TopicSpec(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(each.partition_index, tuple(each.broker_ids)) for each in topic.assignments or ()],
        [(config.name, config.value) for config in topic.configs or ()],
        by_broker,
    )


def _result(
    context: RequestContext,
    make: Make,
    name: str,
    outcome: TopicInfo | ApiError,
    described: dict[tuple[tuple[str, str], ...], tuple[Entity, ...]],
) -> Entity:
    """Return the result of one topic; `described` caches settings of equally configured ones."""
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
