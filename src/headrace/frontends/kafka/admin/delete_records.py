"""DeleteRecords (key 21, v0-v2): move the start of partitions up; -1: to the high watermark.

Answered once the new start is on disk, so that what was deleted does not come back, and once all
replicas on living brokers begin there, so that it does not come back with another leader. Compacted
topics without "delete" in their policy are refused, internal ones too. Of a queue's topic it is
queue.purge up to the offset, and asked for as such, or as DELETE of the topic. v2 flexible
"""

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.partition import TO_HIGH_WATERMARK
from headrace.frontends.kafka.authentication.authorisation import (
    DELETE_TOPIC,
    authorization_failed,
    refused,
)
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker, timeout_seconds
from headrace.model.errors import ApiError, ErrorCode
from headrace.posix.awaiting import called_back
from headrace.security.authorizer import ResourceType

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.broker.topic_keepers import TopicKeeper

Key = tuple[str, int]
"""Topic and number."""
NO_OFFSET = -1
CHECKPOINT_SECONDS_MAX = 30.0


async def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer with one result per partition: its new low watermark, or an error."""
    make = maker(context)
    outcome: dict[Key, tuple[int, ErrorCode]] = {}
    cut: dict[Key, Partition] = {}
    seconds = min(timeout_seconds(request) or CHECKPOINT_SECONDS_MAX, CHECKPOINT_SECONDS_MAX)
    until = context.broker.clock.monotonic() + seconds
    forbidden = _forbidden(context, {topic.name for topic in request.topics})
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            try:
                if topic.name in forbidden:
                    raise authorization_failed(ResourceType.TOPIC)
                if (keeper := context.broker.topic_keepers.of(topic.name)) is not None:
                    outcome[key] = await _purged(context, keeper, key, asked.offset, until)
                    continue
                partition = context.broker.partition(*key)
                await _flushed(context, partition, asked.offset, until)
                outcome[key] = partition.delete_records(asked.offset), ErrorCode.NONE
                cut[key] = partition
            except ApiError as error:
                outcome[key] = NO_OFFSET, error.code
            except TimeoutError:
                outcome[key] = NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT
    if cut:
        try:
            await asyncio.wait_for(called_back(context.broker.checkpoint), seconds)
        except TimeoutError:
            outcome |= dict.fromkeys(cut, (NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT))
        else:
            outcome |= await _cut_everywhere(context, cut, outcome, until)
    topics = tuple(
        make(
            "DeleteRecordsTopicResult",
            name=topic.name,
            partitions=tuple(
                make(
                    "DeleteRecordsPartitionResult",
                    partition_index=asked.partition_index,
                    low_watermark=outcome[topic.name, asked.partition_index][0],
                    error_code=outcome[topic.name, asked.partition_index][1],
                )
                for asked in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return make(None, topics=topics)


async def _flushed(
    context: RequestContext, partition: "Partition", before: int, until: float
) -> None:
    """Wait for what is acknowledged with acks=1 and not readable yet, where it is to go, too.

    ApiError, TimeoutError.
    """
    if TO_HIGH_WATERMARK < before <= partition.high_watermark:
        return
    await asyncio.wait_for(
        called_back(partition.role.when_flushed), until - context.broker.clock.monotonic()
    )


def _forbidden(context: RequestContext, names: set[str]) -> frozenset[str]:
    """Return the topics of which who asks may delete nothing.

    Another protocol's topic may also be purged by that protocol's own permissions.
    """
    keepers = {name: context.broker.topic_keepers.of(name) for name in names}
    purged = {
        name
        for name, keeper in keepers.items()
        if keeper is not None and keeper.may_purge(context.identity, name)
    }
    return refused(context, DELETE_TOPIC, names - purged)


async def _purged(
    context: RequestContext, keeper: "TopicKeeper", key: Key, before: int, until: float
) -> tuple[int, ErrorCode]:
    """Purge a topic of another protocol up to an offset, in pieces; the result."""
    try:
        start = await asyncio.wait_for(
            keeper.purge(*key, before), until - context.broker.clock.monotonic()
        )
    except TimeoutError:
        return NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT
    return start, ErrorCode.NONE


async def _cut_everywhere(
    context: RequestContext,
    cut: dict[Key, "Partition"],
    outcome: dict[Key, tuple[int, ErrorCode]],
    until: float,
) -> dict[Key, tuple[int, ErrorCode]]:
    """Wait for the followers of these partitions; the results of those that have some."""
    followed = [key for key, partition in cut.items() if partition.role.term is not None]
    waits = [_cut_at(context, cut[key], outcome[key][0], until) for key in followed]
    return dict(zip(followed, await asyncio.gather(*waits), strict=True))


async def _cut_at(
    context: RequestContext, partition: "Partition", start: int, until: float
) -> tuple[int, ErrorCode]:
    """Wait until all living replicas begin at `start`; the result."""
    broker = context.broker
    changed = asyncio.Event()

    def picture_changed(delta: object, structural: bool) -> None:
        changed.set()

    partition.watch(changed.set)
    broker.image.observers.append(picture_changed)
    try:
        while (term := partition.role.term) is not None:
            lowest = term.lowest_start(broker.image.brokers)
            if lowest >= start:
                return lowest, ErrorCode.NONE
            changed.clear()
            await asyncio.wait_for(changed.wait(), until - broker.clock.monotonic())
        return NO_OFFSET, ErrorCode.NOT_LEADER_OR_FOLLOWER
    except TimeoutError:
        return NO_OFFSET, ErrorCode.REQUEST_TIMED_OUT
    finally:
        partition.unwatch(changed.set)
        broker.image.observers.remove(picture_changed)
