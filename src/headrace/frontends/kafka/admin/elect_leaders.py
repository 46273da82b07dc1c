"""ElectLeaders (key 43, v0-v2): have the preferred replica lead again, or any that is left.

Each partition has one replica here. It leads, and no election is needed; or its log could not be
opened, and nobody else could lead. Asked about all partitions (null), only those are named that
still need a leader, as Kafka's controller does. Other brokers answer NOT_CONTROLLER for each.
v1 election types (KIP-460) · v2 flexible
"""

from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.frontends.kafka.admin.controller_check import not_controller
from headrace.frontends.kafka.connection.authorisation import ALTER_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, error_fields, maker
from headrace.model.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ElectionType(IntEnum):
    """Who may be elected."""

    PREFERRED = 0
    UNCLEAN = 1


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with the outcome for each partition."""
    make = maker(context)
    forbidden = refusal(context, ALTER_CLUSTER)
    if forbidden is not None:
        return _forbidden(make, request, forbidden)
    try:
        kind = ElectionType(getattr(request, "election_type", ElectionType.PREFERRED))
    except ValueError:
        return make(None, error_code=ErrorCode.INVALID_REQUEST, replica_election_results=())
    topics = context.broker.image.topics
    everything = request.topic_partitions is None
    wanted: Mapping[str, Sequence[int]] = (
        {name: range(len(topic.partitions)) for name, topic in topics.items()}
        if everything
        else {
            topic_partition.topic: topic_partition.partitions
            for topic_partition in request.topic_partitions
        }
    )
    results = []
    for name, indexes in wanted.items():
        outcomes = tuple(
            make("PartitionResult", partition_id=index, **error_fields(error))
            for index in indexes
            for error in (_elect(context, kind, name, index),)
            if not everything or error.code is not ErrorCode.ELECTION_NOT_NEEDED
        )
        if outcomes or not everything:
            results.append(make("ReplicaElectionResult", topic=name, partition_result=outcomes))
    return make(None, error_code=ErrorCode.NONE, replica_election_results=tuple(results))


def _forbidden(make: Make, request: Entity, error: ApiError) -> Entity:
    results = tuple(
        make(
            "ReplicaElectionResult",
            topic=topic.topic,
            partition_result=tuple(
                make("PartitionResult", partition_id=index, **error_fields(error))
                for index in topic.partitions
            ),
        )
        for topic in request.topic_partitions or ()
    )
    return make(None, error_code=error.code, replica_election_results=results)


def _elect(context: RequestContext, kind: ElectionType, name: str, index: int) -> ApiError:
    elsewhere = not_controller(context)
    if elsewhere is not None:
        return elsewhere
    topic = context.broker.image.topics.get(name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        return ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
        )
    if topic.partitions[index].leader >= 0:
        return ApiError(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    if kind is ElectionType.UNCLEAN:
        return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
