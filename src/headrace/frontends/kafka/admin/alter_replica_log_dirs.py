"""AlterReplicaLogDirs (key 34, v1-v2): move replicas between log directories of a broker.

Answered when the moves have begun (KIP-113); DescribeLogDirs reports their progress. A replica that
does not exist yet will be created in the requested directory, and is answered
REPLICA_NOT_AVAILABLE.

v2 flexible
"""

import logging

from headrace.frontends.kafka.connection.handler import RequestContext, operating
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.operations.replicas import move_replicas

_logger = logging.getLogger(__name__)
_NOT_LOGGED = frozenset({ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


def handle(context: RequestContext, request: Entity) -> Entity:
    """Begin moves of replicas; answer with an error code for each partition, in that order."""
    make = maker(context)
    moves = [
        (TopicPartition(topic.name, index), directory.path)
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    ]
    results: dict[str, list[Entity]] = {}
    outcomes = move_replicas(operating(context), moves)
    for (partition, path), error in zip(moves, outcomes, strict=True):
        if error is not None and error.code not in _NOT_LOGGED:
            _logger.warning("%s is not moved to %s: %s", partition, path, error)
        results.setdefault(partition.topic, []).append(
            make(
                "AlterReplicaLogDirPartitionResult",
                partition_index=partition.partition,
                error_code=ErrorCode.NONE if error is None else error.code,
            )
        )
    return make(
        None,
        results=tuple(
            make("AlterReplicaLogDirTopicResult", topic_name=name, partitions=tuple(partitions))
            for name, partitions in results.items()
        ),
    )
