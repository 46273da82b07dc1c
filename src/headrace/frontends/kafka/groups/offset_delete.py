"""OffsetDelete (key 47, v0): delete a group's offsets of topics that it does not consume (KIP-496).

* Answered when the deletions are committed.
* Per partition: GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION. For the group:
  GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (members that are no consumers), INVALID_GROUP_ID.
"""

from headrace.frontends.kafka.authentication.authorisation import (
    DELETE_GROUP,
    READ_TOPIC,
    refusal,
    refused,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model.errors import ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka import kio_codec

_Place = tuple[str, int]


def handle(context: RequestContext, request: Entity) -> Pending:
    """Answer when what may go is gone."""
    pending = Pending()
    forbidden = refusal(context, DELETE_GROUP, request.group_id)
    if forbidden is not None:
        _answer(context, request, pending, {}, forbidden.code)
        return pending
    hidden = refused(context, READ_TOPIC, (topic.name for topic in request.topics))
    topics = context.broker.image.topics
    sizes = {
        asked.name: len(topics[asked.name].partitions)
        for asked in request.topics
        if asked.name in topics and asked.name not in hidden
    }
    wanted: list[_Place] = [
        (asked.name, partition.partition_index)
        for asked in request.topics
        for partition in asked.partitions
        if 0 <= partition.partition_index < sizes.get(asked.name, 0)
    ]
    known = {
        (asked.name, partition.partition_index): ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for asked in request.topics
        if asked.name in hidden
        for partition in asked.partitions
    }

    def done(error: ErrorCode, codes: list[ErrorCode]) -> None:
        by_place = known | dict(zip(wanted, codes, strict=False))
        _answer(context, request, pending, by_place, error)

    context.coordinators.groups.delete_offsets(request.group_id, wanted, done)
    return pending


def _answer(
    context: RequestContext,
    request: Entity,
    pending: Pending,
    by_place: dict[_Place, ErrorCode],
    error: ErrorCode,
) -> None:
    if pending.done:
        return
    make = maker(context)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = tuple(
        make(
            "OffsetDeleteResponseTopic",
            name=asked.name,
            partitions=tuple(
                make(
                    "OffsetDeleteResponsePartition",
                    partition_index=partition.partition_index,
                    error_code=by_place.get((asked.name, partition.partition_index), unknown),
                )
                for partition in asked.partitions
            ),
        )
        for asked in request.topics
    )
    response = make(
        None,
        error_code=error,
        topics=topics if error is ErrorCode.NONE else (),
    )
    pending.resolve(kio_codec.encode_body(response))
