"""AlterPartitionReassignments (key 45, v0-v1): replicas stay where they are, on the one broker.

Asked elsewhere than at the controller, the whole is answered NOT_CONTROLLER, as by Kafka.

v1 allow replication factor change
"""

from headrace.frontends.kafka.admin.controller_check import not_controller
from headrace.frontends.kafka.connection.authorisation import ALTER_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, error_fields, maker
from headrace.model.errors import ApiError, ErrorCode


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result for each partition, in the order asked."""
    make = maker(context)
    forbidden = refusal(context, ALTER_CLUSTER)
    elsewhere = None if forbidden else not_controller(context)
    return make(
        None,
        allow_replication_factor_change=getattr(request, "allow_replication_factor_change", True),
        **error_fields(forbidden or elsewhere),
        responses=tuple(
            make(
                "ReassignableTopicResponse",
                name=topic.name,
                partitions=tuple(
                    _outcome(context, make, topic.name, partition, forbidden)
                    for partition in topic.partitions
                ),
            )
            for topic in (() if elsewhere else request.topics)
        ),
    )


def _outcome(
    context: RequestContext, make: Make, name: str, asked: Entity, forbidden: ApiError | None
) -> Entity:
    index = asked.partition_index
    return make(
        "ReassignablePartitionResponse",
        partition_index=index,
        **error_fields(forbidden or _refusal(context, name, index, asked.replicas)),
    )


def _refusal(
    context: RequestContext, name: str, index: int, replicas: tuple[int, ...] | None
) -> ApiError | None:
    """Return why the replicas cannot be those; None where they are."""
    topic = context.broker.image.topics.get(name)
    if topic is None:
        return ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
        )
    if not 0 <= index < len(topic.partitions):
        return ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}."
        )
    if replicas is None:
        return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if not replicas:
        return _invalid("The manual partition assignment includes an empty replica list.")
    for broker_id in replicas:
        if broker_id not in context.broker.image.brokers:
            return _invalid(
                f"The manual partition assignment includes broker {broker_id}, but no such broker"
                " is registered."
            )
    if len(set(replicas)) < len(replicas):
        return _invalid(
            f"The manual partition assignment includes the broker {replicas[0]} more than once."
        )
    return None


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
