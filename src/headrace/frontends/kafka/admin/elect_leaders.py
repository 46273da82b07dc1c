"""ElectLeaders (key 43, v0-v2): elect the preferred replicas, or any remaining replica.

The controller alone elects: other brokers answer NOT_CONTROLLER for each partition. Asked about all
partitions (null), only those are named that needed another leader, as Kafka's controller does. What
takes longer than the timeout is answered REQUEST_TIMED_OUT and goes on.
v1 election types (KIP-460) · v2 flexible
"""

import asyncio
from collections.abc import Mapping
from itertools import groupby

from headrace.cluster.decisions.events import ElectionType
from headrace.frontends.kafka.authentication.authorisation import ALTER_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    Make,
    error_fields,
    maker,
    timeout_seconds,
)
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition

_Outcome = Mapping[TopicPartition, ApiError | None]


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with the outcome for each partition."""
    make = maker(context)
    named = [
        TopicPartition(topic.topic, index)
        for topic in request.topic_partitions or ()
        for index in topic.partitions
    ]
    forbidden = refusal(context, ALTER_CLUSTER)
    if forbidden is not None:
        results = _results(make, dict.fromkeys(named, forbidden))
        return make(None, error_code=forbidden.code, replica_election_results=results)
    try:
        kind = ElectionType(getattr(request, "election_type", ElectionType.PREFERRED))
    except ValueError:
        return make(None, error_code=ErrorCode.INVALID_REQUEST, replica_election_results=())
    everything = request.topic_partitions is None
    if everything:
        topics = context.broker.image.topics
        named = [
            TopicPartition(name, index)
            for name, topic in topics.items()
            for index in range(len(topic.partitions))
        ]
    outcome = await _elected(context, kind, named, timeout_seconds(request))
    if everything:
        outcome = {
            partition: error
            for partition, error in outcome.items()
            if error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED
        }
    return make(None, error_code=ErrorCode.NONE, replica_election_results=_results(make, outcome))


async def _elected(
    context: RequestContext,
    kind: ElectionType,
    partitions: list[TopicPartition],
    seconds: float | None,
) -> _Outcome:
    try:
        electing = context.controller.replicas.elect(kind, partitions)
        return await asyncio.wait_for(electing, seconds)
    except TimeoutError:
        late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "still being elected")
        return dict.fromkeys(partitions, late)
    except ApiError as error:
        return dict.fromkeys(partitions, error)


def _results(make: Make, outcome: _Outcome) -> tuple[Entity, ...]:
    return tuple(
        make(
            "ReplicaElectionResult",
            topic=topic,
            partition_result=tuple(
                make(
                    "PartitionResult",
                    partition_id=partition.partition,
                    **error_fields(outcome[partition]),
                )
                for partition in partitions
            ),
        )
        for topic, partitions in groupby(outcome, key=lambda partition: partition.topic)
    )
