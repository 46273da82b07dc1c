"""OffsetFetch (key 9, v1-v10): how far groups have come.

* A group or partition without an offset is answered with -1 and no error.
* `require_stable` (v7, KIP-447): offsets an open transaction may change are UNSTABLE_OFFSET_COMMIT,
  and commits on their way are waited for.
v2 all topics (null) and an error for the group · v3 throttle · v5 leader epoch · v6 flexible
v8 several groups · v9 member epochs (KIP-848) · v10 topic ids
"""

import uuid
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple

from headrace.broker.groups.offsets import Committed
from headrace.frontends.kafka import group_entities as entities
from headrace.frontends.kafka.handler import Api, RequestContext
from headrace.model.errors import ApiError, ErrorCode
from headrace.net.pending import Pending
from headrace.wire.kafka import cold
from headrace.wire.kafka.api import ApiKey

_ERROR_FOR_GROUP_SINCE = 2
_SEVERAL_SINCE = 8
_TOPIC_IDS_SINCE = 10
_NOTHING = Committed(-1, -1, "", -1)


class _Asked(NamedTuple):
    """One topic of a group: by name, or by id and the name it has."""

    name: str | None
    topic_id: uuid.UUID | None
    partitions: Iterable[int]


class _Read(NamedTuple):
    partition: int
    committed: Committed
    error: ErrorCode


def handle(context: RequestContext, request: Any) -> Any:  # noqa: ANN401 - kio's entities
    """Answer at once, or for stable offsets when what is being committed is."""
    if not getattr(request, "require_stable", False):
        return _response(context, request)
    pending = Pending()
    names = [one.group_id for one in _groups(context, request)]

    def settled() -> None:
        if not pending.done:
            pending.resolve(cold.encode_body(_response(context, request)))

    _when_all_settled(context, names, settled)
    return pending


def _groups(context: RequestContext, request: Any) -> tuple[Any, ...]:  # noqa: ANN401
    if context.version >= _SEVERAL_SINCE:
        groups: tuple[Any, ...] = request.groups
        return groups
    return (request,)


def _when_all_settled(
    context: RequestContext, group_ids: list[str], done: Callable[[], None]
) -> None:
    missing = len(group_ids) + 1

    def one_more() -> None:
        nonlocal missing
        missing -= 1
        if missing == 0:
            done()

    for group_id in group_ids:
        try:
            context.broker.groups.when_settled(group_id, one_more)
        except ApiError:
            one_more()
    one_more()


def _response(context: RequestContext, request: Any) -> Any:  # noqa: ANN401 - kio's entities
    module = entities.response_module(context)
    stable = getattr(request, "require_stable", False)
    if context.version >= _SEVERAL_SINCE:
        groups = tuple(_group(context, module, one, stable=stable) for one in request.groups)
        return module.OffsetFetchResponse(throttle_time=entities.NO_THROTTLE, groups=groups)
    error, topics = _topics(context, module, request, stable=stable)
    return entities.build(
        module.OffsetFetchResponse,
        throttle_time=entities.NO_THROTTLE,
        topics=topics,
        error_code=entities.kio_code(error),
    )


def _group(
    context: RequestContext,
    module: ModuleType,
    asked: Any,  # noqa: ANN401 - kio's entity
    *,
    stable: bool,
) -> Any:  # noqa: ANN401 - kio's entity
    error, topics = _topics(context, module, asked, stable=stable)
    return module.OffsetFetchResponseGroup(
        group_id=asked.group_id, topics=topics, error_code=entities.kio_code(error)
    )


def _topics(
    context: RequestContext,
    module: ModuleType,
    asked: Any,  # noqa: ANN401 - kio's entity
    *,
    stable: bool,
) -> tuple[ErrorCode, tuple[Any, ...]]:
    try:
        wanted = _wanted(context, asked)
        read = [
            (topic, [_read(context, asked.group_id, topic, p, stable) for p in topic.partitions])
            for topic in wanted
        ]
    except ApiError as error:
        if context.version >= _ERROR_FOR_GROUP_SINCE:
            return error.code, ()
        read = [
            (topic, [_Read(p, _NOTHING, error.code) for p in topic.partitions])
            for topic in _named(context, asked.topics)
        ]
    return ErrorCode.NONE, tuple(_topic(context, module, topic, found) for topic, found in read)


def _wanted(context: RequestContext, asked: Any) -> list[_Asked]:  # noqa: ANN401 - kio's entity
    """The topics asked for, or all the group has offsets in. ApiError for the group."""
    groups = context.broker.groups
    if asked.topics is not None:
        groups.shard(asked.group_id)
        return _named(context, asked.topics)
    image = context.broker.image
    by_id = context.version >= _TOPIC_IDS_SINCE
    found = []
    for name, partitions in groups.offsets(asked.group_id).items():
        topic = image.topics.get(name)
        if not by_id:
            found.append(_Asked(name, None, list(partitions)))
        elif topic is not None:
            found.append(_Asked(name, uuid.UUID(bytes=topic.topic_id), list(partitions)))
    return found


def _named(context: RequestContext, topics: Iterable[Any]) -> list[_Asked]:
    if context.version < _TOPIC_IDS_SINCE:
        return [_Asked(one.name, None, one.partition_indexes) for one in topics]
    by_id = context.broker.image.topics_by_id
    asked = []
    for one in topics:
        topic = None if one.topic_id is None else by_id.get(one.topic_id.bytes)
        name = None if topic is None else topic.name
        asked.append(_Asked(name, one.topic_id, one.partition_indexes))
    return asked


def _read(context: RequestContext, group_id: str, topic: _Asked, index: int, stable: bool) -> _Read:
    groups = context.broker.groups
    if topic.name is None:
        return _Read(index, _NOTHING, ErrorCode.UNKNOWN_TOPIC_ID)
    if stable and groups.is_unstable(group_id, topic.name, index):
        return _Read(index, _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = groups.offset(group_id, topic.name, index)
    return _Read(index, committed or _NOTHING, ErrorCode.NONE)


def _topic(context: RequestContext, module: ModuleType, topic: _Asked, found: list[_Read]) -> Any:  # noqa: ANN401 - kio's entity
    plural = "s" if context.version >= _SEVERAL_SINCE else ""
    topic_type = getattr(module, f"OffsetFetchResponseTopic{plural}")
    partition_type = getattr(module, f"OffsetFetchResponsePartition{plural}")
    partitions = tuple(
        entities.build(
            partition_type,
            partition_index=one.partition,
            committed_offset=one.committed.offset,
            committed_leader_epoch=one.committed.leader_epoch,
            metadata=one.committed.metadata,
            error_code=entities.kio_code(one.error),
        )
        for one in found
    )
    return entities.build(
        topic_type, name=topic.name or "", topic_id=topic.topic_id, partitions=partitions
    )


API = Api(ApiKey.OFFSET_FETCH, 1, 10, handle)
