"""ElectLeaders (key 43, v0-v2): elect the preferred replicas, or any remaining replica.

Only the controller elects: other brokers answer NOT_CONTROLLER for each partition. If all
partitions are asked for (null), the answer names only those that needed another leader, as Kafka's
controller does. A request that exceeds its timeout is answered REQUEST_TIMED_OUT and continues.

Versions: v1 election types (KIP-460) · v2 flexible
"""

from itertools import groupby

from headrace.cluster.decisions.events import ElectionType
from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import (
    Entity,
    Make,
    error_fields,
    maker,
    timeout_seconds,
)
from headrace.model.errors import ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.operations.replicas import Outcome, elect_leaders


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Elect leaders; answer ElectLeaders with the outcome for each partition."""
    make = maker(context)
    asked = request.topic_partitions
    named = None
    if asked is not None:
        named = [
            TopicPartition(topic.topic, index) for topic in asked for index in topic.partitions
        ]
    election = int(getattr(request, "election_type", ElectionType.PREFERRED))
    elected = await elect_leaders(operating(context), election, named, timeout_seconds(request))
    return make(
        None,
        error_code=ErrorCode.NONE if elected.error is None else elected.error.code,
        replica_election_results=_results(make, elected.outcome),
    )


def _results(make: Make, outcome: Outcome) -> tuple[Entity, ...]:
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
