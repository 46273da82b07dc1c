"""WriteTxnMarkers (key 27, v1-v2): end a transaction in single partitions.

Sent by a coordinator on another broker, or by an administrator to end a hanging transaction
(`kafka-transactions.sh abort`); answered when the markers are committed.

- Errors per partition: INVALID_PRODUCER_EPOCH for a producer with a later epoch,
  TRANSACTION_COORDINATOR_FENCED if a later coordinator has written, UNKNOWN_TOPIC_OR_PARTITION.

Versions: v1 flexible · v2 transaction version
"""

from functools import partial

from headrace.coordination.transactions.markers import Marker
from headrace.frontends.kafka.authentication.authorisation import (
    ALTER_CLUSTER,
    authorization_failed,
    permits,
)
from headrace.frontends.kafka.authentication.between_brokers import from_broker
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.frontends.kafka.transactions.transactional import resolve
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import TopicPartition
from headrace.net.pending import Pending
from headrace.ports.callbacks import gather
from headrace.security.authorizer import ResourceType

_Place = tuple[int, TopicPartition]


def handle(context: RequestContext, request: Entity) -> Pending:
    """Write transaction markers; answer when the last is committed or refused."""
    pending = Pending()
    wanted = [
        (at, _partitions(marker), _marker(marker)) for at, marker in enumerate(request.markers)
    ]
    count = sum(len(partitions) for _, partitions, _ in wanted)
    written = gather(count, partial(_answer, context, request, pending))

    def answered(at: int, partition: TopicPartition, error: ApiError | None) -> None:
        written((at, partition), ErrorCode.NONE if error is None else error.code)

    if permits(context, ALTER_CLUSTER, told=False) or from_broker(context):
        for at, partitions, marker in wanted:
            context.coordinators.participants.write(marker, partitions, partial(answered, at))
    else:
        refused = authorization_failed(ResourceType.CLUSTER)
        for at, partitions, _ in wanted:
            for partition in partitions:
                answered(at, partition, refused)
    return pending


def _partitions(marker: Entity) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index)
        for topic in marker.topics
        for index in topic.partition_indexes
    ]


def _marker(marker: Entity) -> Marker:
    commit = bool(marker.transaction_result)
    return Marker(marker.producer_id, marker.producer_epoch, commit, marker.coordinator_epoch)


def _answer(
    context: RequestContext, request: Entity, pending: Pending, codes: dict[_Place, ErrorCode]
) -> None:
    make = maker(context)
    markers = tuple(
        make(
            "WritableTxnMarkerResult",
            producer_id=marker.producer_id,
            topics=tuple(
                make(
                    "WritableTxnMarkerTopicResult",
                    name=topic.name,
                    partitions=tuple(
                        make(
                            "WritableTxnMarkerPartitionResult",
                            partition_index=index,
                            error_code=codes[at, TopicPartition(topic.name, index)],
                        )
                        for index in topic.partition_indexes
                    ),
                )
                for topic in marker.topics
            ),
        )
        for at, marker in enumerate(request.markers)
    )
    resolve(context, pending, markers=markers)
