"""WriteTxnMarkers (key 27, v1-v2): end a transaction in single partitions.

The coordinator needs no request for it here; this is for an administrator who ends a hanging
transaction (`kafka-transactions.sh abort`), and answered when the markers are committed.
* Per partition: INVALID_PRODUCER_EPOCH for a producer that has gone on, TRANSACTION_COORDINATOR_
  FENCED where a later coordinator has written, UNKNOWN_TOPIC_OR_PARTITION.
v1 flexible · v2 transaction version
"""

from functools import partial

from headrace.frontends.kafka.connection.authorisation import (
    ALTER_CLUSTER,
    CLUSTER_ACTION,
    authorization_failed,
    permits,
)
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
    """Answer when the last marker is committed or refused."""
    pending = Pending()
    participants = context.coordinators.participants
    wanted: list[tuple[_Place, Entity]] = [
        ((at, TopicPartition(topic.name, index)), marker)
        for at, marker in enumerate(request.markers)
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    written = gather(len(wanted), partial(_answer, context, request, pending))

    def committed(place: _Place, marker: Entity, error: ApiError | None) -> None:
        if error is None:
            commit = marker.transaction_result
            participants.marked(place[1], marker.producer_id, committed=commit)
        written(place, ErrorCode.NONE if error is None else error.code)

    allowed = permits(context, ALTER_CLUSTER) or permits(context, CLUSTER_ACTION)
    for place, marker in wanted:
        done = partial(committed, place, marker)
        try:
            if not allowed:
                raise authorization_failed(ResourceType.CLUSTER)
            partition = context.broker.partition(*place[1])
            appended = partition.append_marker(
                marker.producer_id,
                marker.producer_epoch,
                commit=marker.transaction_result,
                coordinator_epoch=marker.coordinator_epoch,
                now_ms=context.broker.clock.wall_ms(),
            )
        except ApiError as error:
            done(error)
        else:
            partition.when_committed(appended.commit_offset, done)
    return pending


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
