"""ListPartitionReassignments (key 46, v0): list the partitions that are moving (KIP-455).

Only the controller knows: other brokers answer NOT_CONTROLLER. Partitions that are not moving, or
that do not exist, are left out.
"""

from itertools import groupby
from typing import TYPE_CHECKING

from headrace.frontends.kafka.authentication.authorisation import DESCRIBE_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, error_fields, maker
from headrace.model.errors import ApiError
from headrace.model.nouns import TopicPartition

if TYPE_CHECKING:
    from headrace.cluster.controller_port import Reassigning


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with the requested partitions (null: all) that are being reassigned."""
    make = maker(context)
    error = refusal(context, DESCRIBE_CLUSTER)
    found: list[Reassigning] = []
    if error is None:
        try:
            found = list(context.controller.replicas.reassigning())
        except ApiError as problem:
            error = problem
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.name, index)
            for topic in request.topics
            for index in topic.partition_indexes
        }
        found = [moving for moving in found if moving.topic_partition in wanted]
    topics = tuple(
        make(
            "OngoingTopicReassignment",
            name=name,
            partitions=tuple(
                make(
                    "OngoingPartitionReassignment",
                    partition_index=moving.topic_partition.partition,
                    replicas=moving.replicas,
                    adding_replicas=moving.adding,
                    removing_replicas=moving.removing,
                )
                for moving in group
            ),
        )
        for name, group in groupby(found, key=lambda moving: moving.topic_partition.topic)
    )
    return make(None, **error_fields(error), topics=topics)
