"""AlterReplicaLogDirs (key 34, v1-v2): move replicas between log directories of a broker.

Answered when the moves have begun (KIP-113); DescribeLogDirs shows how far they are. A replica that
comes later is made in the directory asked for, and answered REPLICA_NOT_AVAILABLE until then.

v2 flexible
"""

import logging

from headrace.frontends.kafka.authentication.authorisation import ALTER_CLUSTER, refusal
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition

_logger = logging.getLogger(__name__)


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer for each partition, in the order asked."""
    make = maker(context)
    forbidden = refusal(context, ALTER_CLUSTER)
    results: dict[str, list[Entity]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                key = TopicPartition(topic.name, index)
                code = forbidden.code if forbidden else _asked(context, key, directory.path)
                results.setdefault(topic.name, []).append(
                    make(
                        "AlterReplicaLogDirPartitionResult",
                        partition_index=index,
                        error_code=code,
                    )
                )
    return make(
        None,
        results=tuple(
            make("AlterReplicaLogDirTopicResult", topic_name=name, partitions=tuple(partitions))
            for name, partitions in results.items()
        ),
    )


def _asked(context: RequestContext, key: TopicPartition, path: str) -> ErrorCode:
    try:
        context.broker.moves.ask(key, path)
    except ApiError as error:
        if error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
            _logger.warning("%s is not moved to %s: %s", key, path, error)
        return error.code
    return ErrorCode.NONE
