"""AlterPartitionReassignments (key 45, v0-v1): move partitions to other brokers (KIP-455).

Answered when the moves have begun; they end when all that are to stay are in sync. Null replicas
call a move off. Asked elsewhere than at the controller, the whole is answered NOT_CONTROLLER, as by
Kafka. What takes longer than the timeout is answered REQUEST_TIMED_OUT and goes on.

v1 allow replication factor change (KIP-860)
"""

import asyncio
from typing import TYPE_CHECKING

from headrace.frontends.kafka.authentication.authorisation import ALTER_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    error_fields,
    maker,
    timeout_seconds,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result for each partition, in the order asked."""
    make = maker(context)
    asked = {
        TopicPartition(topic.name, partition.partition_index): None
        if partition.replicas is None
        else tuple(BrokerId(broker) for broker in partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    }
    factor_may_change = getattr(request, "allow_replication_factor_change", True)
    forbidden = refusal(context, ALTER_CLUSTER)
    whole = forbidden
    outcome: Mapping[TopicPartition, ApiError | None] = dict.fromkeys(asked, whole)
    if whole is None:
        moving = context.controller.replicas.reassign(asked, factor_may_change=factor_may_change)
        try:
            outcome = await asyncio.wait_for(moving, timeout_seconds(request))
        except TimeoutError:
            late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being begun")
            outcome = dict.fromkeys(asked, late)
        except ApiError as error:
            whole = error
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
