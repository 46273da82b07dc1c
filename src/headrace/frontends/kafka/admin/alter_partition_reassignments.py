"""AlterPartitionReassignments (key 45, v0-v1): move partitions to other brokers (KIP-455).

Answered when the moves have begun; a move ends when all its target replicas are in sync. Null
replicas cancel a move. A broker other than the controller answers NOT_CONTROLLER for the whole
request, as Kafka does. A request that exceeds its timeout is answered REQUEST_TIMED_OUT and
continues.

v1 allow replication factor change (KIP-860)
"""

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    error_fields,
    maker,
    timeout_seconds,
)
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.operations.replicas import reassign_partitions


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Begin or cancel moves of partitions; answer with one result for each, in the order asked."""
    make = maker(context)
    asked = {
        TopicPartition(topic.name, partition.partition_index): None
        if partition.replicas is None
        else tuple(BrokerId(broker) for broker in partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    }
    factor_may_change = getattr(request, "allow_replication_factor_change", True)
    whole, forbidden, outcome = await reassign_partitions(
        operating(context),
        asked,
        factor_may_change=factor_may_change,
        seconds=timeout_seconds(request),
    )
    return make(
        None,
        allow_replication_factor_change=factor_may_change,
        **error_fields(whole),
        responses=tuple(
            make(
                "ReassignableTopicResponse",
                name=topic.name,
                partitions=tuple(
                    make(
                        "ReassignablePartitionResponse",
                        partition_index=partition.partition_index,
                        **error_fields(
                            outcome[TopicPartition(topic.name, partition.partition_index)]
                        ),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in (request.topics if whole is None or forbidden else ())
        ),
    )
