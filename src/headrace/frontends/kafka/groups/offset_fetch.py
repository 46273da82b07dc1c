"""OffsetFetch (key 9, v1-v10): return groups' committed offsets.

- A group or partition without an offset is answered with -1 and no error.
- `require_stable` (v7, KIP-447): an offset that an open transaction may change is
  UNSTABLE_OFFSET_COMMIT; the answer waits for commits that are being written.

Versions: v2 all topics (null) and an error for the group · v3 throttle · v5 leader epoch · v6
flexible v8 several groups · v9 member epochs (KIP-848) · v10 topic ids
"""

import uuid
from collections.abc import Callable, Iterable
from typing import NamedTuple

from headrace.coordination.groups.committed_offsets import Committed, OffsetStore
from headrace.frontends.kafka.authentication.authorisation import (
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    refused,
    require,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, Make, maker
from headrace.model.errors import ApiError, ErrorCode
from headrace.net.pending import Pending
from headrace.ports.callbacks import when_all
from headrace.wire.kafka import kio_codec

_ERROR_FOR_GROUP_SINCE = 2
_SEVERAL_SINCE = 8
_MEMBER_EPOCHS_SINCE = 9
_TOPIC_IDS_SINCE = 10
_NOTHING = Committed(-1, -1, "", -1)


class _Asked(NamedTuple):
    """A topic of a request: its name, or its id with the name it has here."""

    name: str | None
    topic_id: uuid.UUID | None
    partitions: Iterable[int]


class _Read(NamedTuple):
    partition: int
    committed: Committed
    error: ErrorCode


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer OffsetFetch at once, or for stable offsets once pending commits are written."""
    if not getattr(request, "require_stable", False):
        return _response(context, request)
    pending = Pending()
    names = [group.group_id for group in _groups(context, request)]

    def settled() -> None:
        if not pending.done:
            pending.resolve(kio_codec.encode_body(_response(context, request)))

    _when_all_settled(context, names, settled)
    return pending


def _groups(context: RequestContext, request: Entity) -> tuple[Entity, ...]:
    if context.version >= _SEVERAL_SINCE:
        groups: tuple[Entity, ...] = request.groups
        return groups
    return (request,)


def _when_all_settled(
    context: RequestContext, group_ids: list[str], done: Callable[[], None]
) -> None:
    settled = when_all(len(group_ids), done)
    for group_id in group_ids:
        try:
            context.coordinators.groups.when_settled(group_id, settled)
        except ApiError:
            settled()


def _response(context: RequestContext, request: Entity) -> Entity:
    make = maker(context)
    stable = getattr(request, "require_stable", False)
    if context.version >= _SEVERAL_SINCE:
        groups = tuple(_group(context, make, group, stable=stable) for group in request.groups)
        return make(None, groups=groups)
    error, topics = _topics(context, make, request, stable=stable)
    return make(
        None,
        topics=topics,
        error_code=error,
    )


def _group(
    context: RequestContext,
    make: Make,
    asked: Entity,
    *,
    stable: bool,
) -> Entity:
    error, topics = _topics(context, make, asked, stable=stable)
    return make(
        "OffsetFetchResponseGroup", group_id=asked.group_id, topics=topics, error_code=error
    )


def _topics(
    context: RequestContext,
    make: Make,
    asked: Entity,
    *,
    stable: bool,
) -> tuple[ErrorCode, tuple[Entity, ...]]:
    try:
        require(context, DESCRIBE_GROUP, asked.group_id)
        offsets = context.coordinators.groups.shard(asked.group_id).offsets
        if context.version >= _MEMBER_EPOCHS_SINCE:
            context.coordinators.groups.check_fetch(
                asked.group_id, asked.member_id, asked.member_epoch
            )
        wanted = _wanted(context, asked, offsets)
        named = (topic.name for topic in wanted if topic.name)
        hidden = refused(context, DESCRIBE_TOPIC, named, told=asked.topics is not None)
        read = [
            (topic, _read(offsets, asked.group_id, topic, stable))
            if topic.name not in hidden
            else (topic, _all(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            for topic in wanted
            if asked.topics is not None or topic.name not in hidden
        ]
    except ApiError as error:
        if context.version >= _ERROR_FOR_GROUP_SINCE:
            return error.code, ()
        read = [(topic, _all(topic, error.code)) for topic in _named(context, asked.topics)]
    return ErrorCode.NONE, tuple(_topic(context, make, topic, found) for topic, found in read)


def _wanted(context: RequestContext, asked: Entity, offsets: OffsetStore) -> list[_Asked]:
    """Return the requested topics, or all topics in which the group has offsets."""
    if asked.topics is not None:
        return _named(context, asked.topics)
    image = context.broker.image
    by_id = context.version >= _TOPIC_IDS_SINCE
    found = []
    for name, partitions in offsets.by_group.get(asked.group_id, {}).items():
        topic = image.topics.get(name)
        if not by_id:
            found.append(_Asked(name, None, list(partitions)))
        elif topic is not None:
            found.append(_Asked(name, uuid.UUID(bytes=topic.topic_id), list(partitions)))
    return found


def _named(context: RequestContext, topics: Iterable[Entity]) -> list[_Asked]:
    if context.version < _TOPIC_IDS_SINCE:
        return [_Asked(topic.name, None, topic.partition_indexes) for topic in topics]
    by_id = context.broker.image.topics_by_id
    asked = []
    for asked_topic in topics:
        topic = None if asked_topic.topic_id is None else by_id.get(asked_topic.topic_id.bytes)
        name = None if topic is None else topic.name
        asked.append(_Asked(name, asked_topic.topic_id, asked_topic.partition_indexes))
    return asked


def _read(offsets: OffsetStore, group_id: str, topic: _Asked, stable: bool) -> list[_Read]:
    if topic.name is None:
        return _all(topic, ErrorCode.UNKNOWN_TOPIC_ID)
    read = []
    for partition in topic.partitions:
        place = (group_id, topic.name, partition)
        if stable and offsets.is_unstable(place):
            read.append(_Read(partition, _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT))
        else:
            read.append(_Read(partition, offsets.get(place) or _NOTHING, ErrorCode.NONE))
    return read


def _all(topic: _Asked, error: ErrorCode) -> list[_Read]:
    return [_Read(partition, _NOTHING, error) for partition in topic.partitions]


def _topic(context: RequestContext, make: Make, topic: _Asked, found: list[_Read]) -> Entity:
    plural = "s" if context.version >= _SEVERAL_SINCE else ""
    partitions = tuple(
        make(
            f"OffsetFetchResponsePartition{plural}",
            partition_index=partition.partition,
            committed_offset=partition.committed.offset,
            committed_leader_epoch=partition.committed.leader_epoch,
            metadata=partition.committed.metadata,
            error_code=partition.error,
        )
        for partition in found
    )
    return make(
        f"OffsetFetchResponseTopic{plural}",
        name=topic.name or "",
        topic_id=topic.topic_id,
        partitions=partitions,
    )
